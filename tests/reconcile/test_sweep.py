"""The passes: few requests however many VMs, everything noticed, and no absence judged by a pass that proves none."""

from collections.abc import Mapping
from typing import Any

import pytest

from world import World
from zone9.pve.selftest import PRIVILEGES
from zone9.reconcile import sweeping
from zone9.reconcile.passes import Passes
from zone9.sandbox.state import Pool


async def made(world: World) -> tuple[str, int]:
    answer = await world.server(networks=[])
    found = await world.settle(answer.resource)
    await world.sweep()
    await world.sweep()
    return answer.resource, int(found["facts"]["vmid"])


async def state(world: World) -> Mapping[str, Any]:
    return (await world.all("SELECT * FROM sweeps"))[0]


async def guest(world: World, vmid: int) -> Mapping[str, Any]:
    return (await world.all("SELECT * FROM guests WHERE vmid = :vmid", vmid=vmid))[0]


async def acts(world: World, vmid: int) -> list[tuple[str, str]]:
    found = await world.all("SELECT who, what FROM acts WHERE vmid = :vmid ORDER BY at, uid", vmid=vmid)
    return [(one["who"], one["what"]) for one in found]


@pytest.mark.parametrize("vms", [0, 300])
async def test_requests_of_a_pass_do_not_grow_with_the_vms(world: World, vms: int) -> None:
    for vmid in range(200, 200 + vms):
        world.sandbox.add_vm(vmid)
    for _ in range(5):
        await world.sweep()
    before = len(world.sandbox.requests)
    await world.sweep()
    asked = [one.path for one in world.sandbox.requests][before:]
    lists = [path for path in asked if "/qemu/" not in path and path != "/access/permissions"]
    assert len(lists) == 5 + len(world.sandbox.world.cluster.nodes)
    assert len(asked) - len(lists) <= 1 + max(5, 1 + vms // 100), "a share of the audit"


async def test_an_unchanged_region_wakes_nobody(world: World) -> None:
    await made(world)
    assert await world.sweep() == frozenset()


async def test_a_config_write_by_somebody_else_is_noticed_in_one_pass_with_the_name(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.set(vmid, description="hello", user="ayse@pve")
    assert await world.sweep() == {server}
    assert await acts(world, vmid) == [("ayse@pve", "update: description")]
    await world.run(server)
    assert await world.sweep() == frozenset(), "the same row is no news twice"


async def test_a_task_of_somebody_else_is_noticed_in_one_pass_with_the_name(world: World) -> None:
    server, vmid = await made(world)
    await world.sandbox.operator.stop(vmid)
    assert server in await world.sweep()
    assert ("root@pam", "qmstop") in await acts(world, vmid)


async def test_our_own_acts_are_nobody_elses(world: World) -> None:
    _server, vmid = await made(world)
    assert await acts(world, vmid) == []


async def test_an_edit_of_the_file_itself_is_found_by_the_audit(world: World) -> None:
    server, vmid = await made(world)
    await world.run(server)
    assert await world.sweep() == frozenset()
    world.sandbox.operator.edit_file(vmid, onboot=1)
    assert await world.sweep() == {server}
    assert await acts(world, vmid) == []


async def test_a_process_that_takes_over_has_missed_nothing(world: World) -> None:
    server, vmid = await made(world)
    await world.sandbox.operator.migrate(vmid, max(world.sandbox.world.cluster.nodes))
    passes = Passes(world.zone9.database, world.zone9.drivers, "another")
    assert server in await passes.once((await world.find("region", "r1"))["id"])


async def test_a_gap_of_the_log_makes_everything_suspect(world: World) -> None:
    _server, vmid = await made(world)
    log = world.sandbox.world.tasks.log
    for number in range(log.maxlen or 0):
        world.sandbox.world.tasks.record("pve1", "root@pam", f"noise {number}")
    await world.sweep()
    assert (await state(world))["gaps"] == 1
    assert (await guest(world, vmid))["suspect"] is False, "it was read in the same pass"
    await world.sweep()
    assert (await state(world))["gaps"] == 1


async def test_a_stranger_is_listed_and_read(world: World) -> None:
    await made(world)
    world.sandbox.operator.create_stranger(200, name="theirs", tags="db;prod")
    await world.sweep()
    found = await guest(world, 200)
    assert (found["name"], found["tags"], found["suspect"]) == ("theirs", ["db", "prod"], False)
    assert found["uuid"] is not None
    assert "description" not in found["config"]


async def test_a_vm_that_vanished_is_missing_after_a_good_pass_and_not_when_it_is_back(world: World) -> None:
    _server, vmid = await made(world)
    kept = world.sandbox.vms[vmid]
    world.sandbox.operator.forget(vmid)
    await world.sweep()
    assert (await guest(world, vmid))["missing_since"] is not None
    world.sandbox.vms[vmid] = kept
    world.sandbox.world.cluster.version += 1
    await world.sweep()
    assert (await guest(world, vmid))["missing_since"] is None


async def frozen_by(world: World, trouble: str) -> None:
    if trouble == "quorum":
        world.sandbox.set_quorate(False)
    elif trouble == "node":
        world.sandbox.set_node_online(max(world.sandbox.world.cluster.nodes), False)
    elif trouble == "rights":
        world.sandbox.accounts.roles["Zone9"] = frozenset(PRIVILEGES) - {"VM.Audit"}
        world.sandbox.accounts.changed()
    else:
        world.sandbox.operator.forget(9000)


@pytest.mark.parametrize(
    ("trouble", "code"),
    [("quorum", "pass_gap"), ("node", "pass_gap"), ("rights", "rights_changed"), ("canary", "canary_hidden")],
)
async def test_a_pass_whose_silence_means_nothing_freezes_absence_and_says_so(
    world: World, trouble: str, code: str
) -> None:
    await world.change("region", "r1", patch={"canary": 9000})
    region = (await world.find("region", "r1"))["id"]
    await world.settle(region)
    _server, vmid = await made(world)
    good = (await state(world))["good_at"]
    seen = (await world.row(region))["wake_seq"]
    await frozen_by(world, trouble)
    if trouble != "rights":
        world.sandbox.operator.forget(vmid)
    await world.sweep()
    now = await state(world)
    assert code in {one["code"] for one in now["frozen"]}
    assert now["good_at"] == good
    assert (await guest(world, vmid))["missing_since"] is None
    assert (await world.row(region))["wake_seq"] > seen, "the region looks at itself"


async def test_changed_rights_are_accepted_when_the_self_test_finds_them_enough(world: World) -> None:
    _server, vmid = await made(world)
    region = (await world.find("region", "r1"))["id"]
    world.sandbox.accounts.roles["Zone9"] = frozenset(PRIVILEGES) - {"VM.Audit"}
    world.sandbox.accounts.changed()
    await world.sweep()
    await world.run(region)
    assert (await world.row(region))["convergence"] != "applied"
    await world.sweep()
    assert {one["code"] for one in (await state(world))["frozen"]} == {"rights_changed"}
    world.sandbox.accounts.roles["Zone9"] = frozenset({*PRIVILEGES, "VM.Snapshot"})
    world.sandbox.accounts.changed()
    await world.sweep()
    await world.run(region)
    await world.sweep()
    assert (await state(world))["frozen"] == []
    assert (await guest(world, vmid))["missing_since"] is None, "a lost right made nothing vanish"


async def test_a_region_that_does_not_answer_changes_nothing(world: World) -> None:
    _server, vmid = await made(world)
    before = await state(world)
    await world.sandbox.stop()
    assert await world.sweep() == frozenset()
    assert (await state(world))["good_at"] == before["good_at"]
    assert (await guest(world, vmid))["missing_since"] is None


async def test_members_of_pools_come_and_go_without_freezing_anything(world: World) -> None:
    _server, vmid = await made(world)
    pool = world.sandbox.cluster.pools["shop"] = Pool("shop")
    rights = (await state(world))["rights"]
    for member in ({vmid}, {vmid, 9000}, {9000}):
        pool.vms = member
        world.sandbox.accounts.changed()
        for _ in range(sweeping.RIGHTS_EVERY):
            await world.sweep()
            now = await state(world)
            assert (now["frozen"], now["rights"]) == ([], rights)
    pool.vms.add(vmid)
    for _ in range(sweeping.RIGHTS_EVERY):
        await world.sweep()
    world.sandbox.operator.forget(vmid)
    pool.vms.discard(vmid)
    await world.sweep()
    assert (await guest(world, vmid))["missing_since"] is not None


async def test_a_vm_that_is_only_hidden_from_the_token_is_not_missing(world: World) -> None:
    _server, vmid = await made(world)
    world.sandbox.accounts.grant(f"/vms/{vmid}", "zone9@pve!ctl", "NoAccess")
    world.sandbox.accounts.changed()
    for _ in range(3):
        await world.sweep()
        assert (await state(world))["frozen"] == []
        assert (await guest(world, vmid))["missing_since"] is None
    world.sandbox.operator.forget(vmid)
    world.sandbox.accounts.acl.pop(f"/vms/{vmid}")
    world.sandbox.accounts.changed()
    await world.sweep()
    assert (await guest(world, vmid))["missing_since"] is not None
