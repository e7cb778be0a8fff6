"""A VM that is gone: proven before it is said, never made again unasked, and what a person may decide then."""

from collections.abc import Mapping
from typing import Any

import pytest

from world import ADMIN, World
from zone9.base.errors import Refused
from zone9.pve.selftest import PRIVILEGES


async def made(world: World, **spec: Any) -> tuple[str, int]:
    answer = await world.server(**spec)
    found = await world.settle(answer.resource)
    await world.sweep()
    await world.sweep()
    return answer.resource, int(found["facts"]["vmid"])


async def lost(world: World, **spec: Any) -> tuple[str, int]:
    server, vmid = await made(world, **spec)
    world.sandbox.operator.forget(vmid)
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("failed", "missing")
    return server, vmid


async def code(world: World, server: str) -> str:
    await world.run(server)
    return str((await world.row(server))["message"]["code"])


async def test_one_answer_and_a_pass_from_before_it_prove_nothing(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.forget(vmid)
    await world.sweep()
    assert await code(world, server) == "absence_unproven", "it was asked for once"
    assert await code(world, server) == "absence_unproven", "the pass began before that"
    assert (await world.row(server))["health"] == "degraded"
    await world.sweep()
    assert await code(world, server) == "vm_missing"
    assert (await world.row(server))["health"] == "missing"


async def freeze(world: World, trouble: str) -> None:
    sandbox = world.sandbox
    if trouble == "quorum":
        sandbox.set_quorate(False)
    elif trouble == "node":
        sandbox.set_node_online(max(sandbox.world.cluster.nodes), False)
    else:
        sandbox.operator.forget(9000)


@pytest.mark.parametrize("trouble", ["quorum", "node", "canary"])
async def test_nothing_is_missing_while_silence_means_nothing(world: World, trouble: str) -> None:
    await world.change("region", "r1", patch={"canary": 9000})
    await world.settle((await world.find("region", "r1"))["id"])
    server, vmid = await made(world)
    await freeze(world, trouble)
    world.sandbox.operator.forget(vmid)
    for _ in range(3):
        await world.sweep()
        await world.run(server)
        assert (await world.row(server))["health"] != "missing"


async def test_a_token_that_loses_vm_audit_makes_nothing_vanish(world: World) -> None:
    server, _vmid = await made(world)
    before = len(world.writes())
    world.sandbox.accounts.roles["Zone9"] = frozenset(PRIVILEGES) - {"VM.Audit"}
    world.sandbox.accounts.changed()
    for _ in range(3):
        await world.sweep()
        await world.run(server)
        assert (await world.row(server))["health"] != "missing"
        await world.pass_time(60)
    assert world.writes()[before:] == []
    world.sandbox.accounts.roles["Zone9"] = frozenset(PRIVILEGES)
    world.sandbox.accounts.changed()
    await world.sweep()
    await world.run((await world.find("region", "r1"))["id"])
    await world.sweep()
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok")


async def test_a_vm_that_comes_back_is_found_again_without_help(world: World) -> None:
    server, vmid = await made(world)
    kept = world.sandbox.vms[vmid]
    world.sandbox.operator.forget(vmid)
    assert (await world.settle(server))["health"] == "missing"
    world.sandbox.vms[vmid] = kept
    world.sandbox.world.cluster.version += 1
    await world.sweep()
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok")


async def test_who_deleted_it_is_said(world: World) -> None:
    server, vmid = await made(world)
    await world.sandbox.operator.delete(vmid, user="ayse@pve")
    await world.sweep()
    found = await world.settle(server)
    [diff] = found["diffs"]
    assert (diff["field"], diff["who"], diff["what"]) == ("vm", "ayse@pve", "qmdestroy")


async def test_a_vm_deleted_by_hand_whose_number_a_stranger_took(world: World) -> None:
    server, vmid = await made(world)
    await world.sandbox.operator.delete(vmid)
    world.sandbox.operator.create_stranger(vmid, name="theirs")
    before = len(world.writes())
    await world.sweep()
    found = await world.settle(server)
    assert (found["convergence"], found["message"]["code"]) == ("failed", "identity_mismatch")
    await world.act(server, "recreate")
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok")
    assert found["facts"]["vmid"] != vmid
    assert not [line for line in world.writes()[before:] if f"/{vmid}" in line]
    assert world.sandbox.vms[vmid].file.values["name"] == "theirs"


async def test_it_is_made_anew_on_request_with_its_addresses_and_another_number(world: World) -> None:
    server, vmid = await lost(world)
    was = (await world.row(server))["resolved"]["networks"]
    await world.act(server, "recreate")
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok")
    assert found["facts"]["vmid"] != vmid
    assert found["resolved"]["networks"] == was
    world.sandbox.operator.forget(found["facts"]["vmid"])
    again = await world.settle(server)
    assert again["health"] == "missing", "one request makes one VM"


async def test_it_is_forgotten_on_request(world: World) -> None:
    server, _vmid = await lost(world, protected=True)
    before = len(world.writes())
    await world.act(server, "forget")
    assert (await world.settle(server))["phase"] == "deleted"
    assert world.writes()[before:] == []
    held = await world.all("SELECT state FROM addresses")
    assert {one["state"] for one in held} <= {"resting"}


async def test_a_restored_vm_is_linked_on_request(world: World) -> None:
    server, vmid = await lost(world)
    world.sandbox.operator.create_stranger(300, name="restored")
    await world.sweep()
    with pytest.raises(Refused, match="belongs to this project"):
        await world.act(server, "link", vmid=300)
    await world.attribute(300)
    await world.act(server, "link", vmid=300)
    found = await world.settle(server)
    assert found["facts"]["vmid"] == 300
    assert found["convergence"] in {"applied", "pending_restart"}
    assert world.sandbox.vms[300].file.values["name"] == "web1", "what is asked holds for it from now on"
    [burnt] = await world.all("SELECT state FROM vmids WHERE vmid = :vmid", vmid=vmid)
    assert burnt["state"] == "burnt"


async def test_a_decision_does_not_outlive_the_loss_that_it_is_about(world: World) -> None:
    server, vmid = await made(world)
    kept = world.sandbox.vms[vmid]
    world.sandbox.operator.forget(vmid)
    assert (await world.settle(server))["health"] == "missing"
    await world.act(server, "recreate")
    world.sandbox.vms[vmid] = kept
    world.sandbox.world.cluster.version += 1
    assert (await world.settle(server))["convergence"] == "applied", "it came back before that was done"
    world.sandbox.operator.forget(vmid)
    await world.change("server", "web1", patch={"tags": ["later"]})
    assert (await world.settle(server))["health"] == "missing"
    assert world.sandbox.vms.keys() == {9000}, "nothing was made in its place"


async def test_a_failure_is_no_loss(world: World) -> None:
    server, _vmid = await made(world)
    world.sandbox.faults.add("bad_parameter", "PUT", "*/config")
    await world.change("server", "web1", patch={"tags": ["a"]})
    assert (await world.settle(server))["convergence"] == "failed"
    for action in ("recreate", "forget"):
        with pytest.raises(Refused) as refused:
            await world.act(server, action)
        assert refused.value.code == "not_missing"


@pytest.mark.parametrize("action", ["recreate", "forget"])
async def test_nothing_is_decided_about_a_vm_that_is_there(world: World, action: str) -> None:
    server, _vmid = await made(world)
    with pytest.raises(Refused) as refused:
        await world.act(server, action)
    assert refused.value.code == "not_missing"


@pytest.mark.parametrize(
    "field", [{"recreate": 10_000}, {"forget": True}, {"link": {"vmid": 300}}, {"loss": "t"}]
)
async def test_decisions_are_no_fields_that_can_be_patched(world: World, field: dict[str, Any]) -> None:
    await made(world)
    with pytest.raises(Refused) as refused:
        await world.change("server", "web1", patch=field)
    assert refused.value.code == "by_action_only"


async def test_a_lost_vm_is_deleted_only_when_it_is_proven_gone(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.forget(vmid)
    await world.delete("server", "web1")
    await world.run(server)
    assert (await world.row(server))["phase"] == "deleting"
    assert (await world.settle(server))["phase"] == "deleted"


async def test_a_second_vm_with_its_identity_freezes_writes_to_both(world: World) -> None:
    server, vmid = await made(world)
    identity = world.sandbox.vms[vmid].file.values["smbios1"]
    world.sandbox.operator.create_stranger(300, smbios1=identity)
    await world.sweep()
    await world.change("server", "web1", patch={"tags": ["a"]})
    before = len(world.writes())
    await world.run(server)
    found: Mapping[str, Any] = await world.row(server)
    assert (found["convergence"], found["health"]) == ("applying", "duplicate")
    assert found["message"]["words"]["others"] == "300"
    assert world.writes()[before:] == []
    await world.sandbox.operator.delete(300)
    await world.sweep()
    assert (await world.settle(server))["convergence"] == "applied"


async def test_reconcile_does_not_decide(world: World) -> None:
    server, _vmid = await lost(world)
    before = len(world.writes())
    async with world.zone9.database.begin() as connection:
        await world.zone9.asking.reconcile(connection, ADMIN, "server", "web1")
    assert (await world.settle(server))["health"] == "missing"
    assert world.writes()[before:] == []
