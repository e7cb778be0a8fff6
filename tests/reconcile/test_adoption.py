"""Taking a VM over that is there: from zero writes, or the one that its identity needs, and back again."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from world import ADMIN, World
from zone9.base.errors import Refused
from zone9.model.asking import Answer
from zone9.products.servers.adopting import as_asked
from zone9.sandbox.state import Container

UUID = "0a0a0a0a-0000-4000-8000-00000000{vmid:04}"


async def there(world: World, vmid: int = 7001, **details: Any) -> None:
    """Makes a VM that nobody asked zone9 for, read by two passes and given to the project."""
    config = {"name": f"old-{vmid:04}", "smbios1": f"uuid={UUID.format(vmid=vmid)}", "disk": "8G", **details}
    world.sandbox.operator.create_stranger(vmid, **config)
    await world.sweep()
    await world.sweep()
    await world.attribute(vmid)


async def manage(world: World, vmid: int = 7001, name: str = "old", **spec: Any) -> Answer:
    region = (await world.find("region", "r1"))["id"]
    running = world.sandbox.vms[vmid].running is not None
    return await world.create("server", name, {**as_asked(region, vmid, running=running), **spec})


class Rehearsed(Exception):
    """Takes a rehearsal back."""


async def rehearsed(world: World, spec: Mapping[str, Any]) -> list[str]:
    """Returns the steps that creating it would take."""
    planned: list[str] = []
    with contextlib.suppress(Rehearsed):
        async with world.zone9.database.begin() as connection:
            answer = await world.zone9.asking.create(connection, ADMIN, "server", "old", spec, dry_run=True)
            planned = [one.step for one in answer.plan or ()]
            raise Rehearsed
    return planned


def config_of(world: World, vmid: int = 7001) -> tuple[dict[str, str], int]:
    vm = world.sandbox.vms[vmid]
    return dict(vm.file.values), vm.starts


@pytest.mark.parametrize("running", [True, False])
async def test_b13_taking_over_a_vm_with_an_identity_of_its_own_writes_nothing(
    world: World, running: bool
) -> None:
    await there(world, running=running, tags="theirs", cores="3", memory="1024", ciuser="root")
    before, writes = config_of(world), len(world.writes())
    answer = await manage(world)
    found = await world.settle(answer.resource)
    assert (found["convergence"], found["health"], found["applied_version"]) == ("applied", "ok", 1)
    assert (found["spec"]["cores"], found["spec"]["memory_mib"]) == (3, 1024)
    for _ in range(3):
        await world.sweep()
        await world.run(answer.resource)
        await world.pass_time(60)
    assert world.writes()[writes:] == []
    assert config_of(world) == before
    with pytest.raises(Refused) as refused:
        await world.act(answer.resource, "recreate")
    assert refused.value.code == "not_missing"


async def test_b13_a_lost_one_that_has_no_image_can_not_be_recreated(world: World) -> None:
    await there(world)
    server = (await manage(world)).resource
    await world.settle(server)
    world.sandbox.operator.forget(7001)
    assert (await world.settle(server))["health"] == "missing"
    with pytest.raises(Refused) as refused:
        await world.act(server, "recreate")
    assert refused.value.code == "no_image"
    await world.act(server, "forget")
    assert (await world.settle(server))["phase"] == "deleted"


@pytest.mark.parametrize("running", [True, False])
async def test_one_without_an_identity_is_given_one_by_the_only_write(world: World, running: bool) -> None:
    await there(world, smbios1="manufacturer=QUNNRQ==,base64=1", running=running)
    before, writes = config_of(world), len(world.writes())
    server = (await manage(world)).resource
    found = await world.settle(server)
    path = next(iter(world.writes()[writes:]))
    assert world.writes()[writes:] == [path]
    assert path.endswith("/qemu/7001/config")
    vm = world.sandbox.vms[7001]
    written = vm.file.pending["smbios1"] if running else vm.file.values["smbios1"]
    assert found["facts"]["uuid"] in written
    assert "manufacturer=QUNNRQ==" in written, "what was there is kept"
    rest = {key: value for key, value in config_of(world)[0].items() if key != "smbios1"}
    assert rest == {key: value for key, value in before[0].items() if key != "smbios1"}
    assert found["convergence"] == ("pending_restart" if running else "applied")
    assert vm.starts == before[1], "nothing is restarted unasked"


async def test_two_that_share_an_identity_are_told_apart_by_the_one_write(world: World) -> None:
    await there(world, 7001)
    await there(world, 7002, smbios1=f"uuid={UUID.format(vmid=7001)}")
    writes, other = len(world.writes()), config_of(world, 7002)
    server = (await manage(world, 7001)).resource
    found = await world.settle(server)
    assert found["convergence"] == "applied"
    assert len(world.writes()[writes:]) == 1
    assert config_of(world, 7002) == other
    await world.sweep()
    await world.sweep()
    assert (await world.settle(server))["health"] == "ok"


async def test_a_dry_run_shows_the_write_that_an_identity_needs(world: World) -> None:
    await there(world, 7001)
    await there(world, 7002, smbios1="uuid=")
    region = (await world.find("region", "r1"))["id"]
    for vmid, steps in ((7001, ["link"]), (7002, ["link", "configure"])):
        planned = await rehearsed(world, as_asked(region, vmid, running=False))
        assert planned == steps


async def test_it_is_let_go_as_it_is(world: World) -> None:
    await there(world, running=True)
    server = (await manage(world)).resource
    await world.settle(server)
    before, writes = config_of(world), len(world.writes())
    await world.act(server, "release")
    assert (await world.settle(server))["phase"] == "deleted"
    await world.sweep()
    assert world.writes()[writes:] == []
    assert config_of(world) == before
    again = await manage(world, name="again")
    assert (await world.settle(again.resource))["convergence"] == "applied", "it can be taken over again"


async def test_addresses_of_one_that_is_let_go_are_not_given_to_others(world: World) -> None:
    await there(world)
    server = (await manage(world, networks=[{"network": "lan"}])).resource
    assert (await world.settle(server))["convergence"] == "applied"
    await world.act(server, "release")
    assert (await world.settle(server))["phase"] == "deleted"
    held = await world.all("SELECT state FROM addresses")
    assert [one["state"] for one in held] == ["reserved"]


async def test_it_is_protected_until_somebody_says_otherwise(world: World) -> None:
    await there(world)
    server = (await manage(world)).resource
    await world.settle(server)
    with pytest.raises(Refused) as refused:
        await world.delete("server", "old")
    assert refused.value.code == "protected"
    assert 7001 in world.sandbox.vms


async def test_what_was_made_by_zone9_is_not_let_go(world: World) -> None:
    server = (await world.server()).resource
    await world.settle(server)
    with pytest.raises(Refused) as refused:
        await world.act(server, "release")
    assert refused.value.code == "not_adopted"


async def test_another_vm_at_that_number_is_not_taken_over(world: World) -> None:
    await there(world)
    server = (await manage(world)).resource
    world.sandbox.operator.forget(7001)
    world.sandbox.operator.create_stranger(7001, name="theirs")
    writes = len(world.writes())
    found = await world.settle(server)
    assert (found["convergence"], found["message"]["code"]) == ("failed", "link_mismatch")
    assert world.writes()[writes:] == []


async def test_containers_templates_and_what_is_nobodys_are_refused(world: World) -> None:
    world.sandbox.world.cluster.containers[7100] = Container(
        7100, "pve1", {"hostname": "ct", "rootfs": "vmstore:8,size=8G"}, None
    )
    await there(world, 7001)
    await world.attribute(7100)
    await world.attribute(9000)
    await world.attribute(7001, None)
    region = (await world.find("region", "r1"))["id"]
    codes = []
    for vmid in (7100, 9000, 7001, 7999):
        with pytest.raises(Refused) as refused:
            await world.create("server", "old", as_asked(region, vmid, running=False))
        codes.append(refused.value.code)
    assert codes == ["link_not_a_vm", "link_not_a_vm", "link_not_found", "link_not_found"]


async def test_nothing_is_ever_written_to_what_is_only_shown(world: World) -> None:
    for vmid, running in ((7001, True), (7002, False)):
        await there(world, vmid, running=running)
        await world.attribute(vmid, None)
    before, writes = [config_of(world, vmid) for vmid in (7001, 7002)], len(world.writes())
    for vmid in (7001, 7002):
        world.sandbox.operator.set(vmid, name="renamed", user="ayse@pve")
    before = [config_of(world, vmid) for vmid in (7001, 7002)]
    for _ in range(4):
        await world.sweep()
        await world.pass_time(60)
    assert world.writes()[writes:] == []
    assert [config_of(world, vmid) for vmid in (7001, 7002)] == before
    names = await world.all("SELECT name FROM guests WHERE vmid IN (7001, 7002)")
    assert {one["name"] for one in names} == {"renamed"}


async def test_one_that_moves_to_another_node_is_followed(world: World) -> None:
    await there(world, running=True)
    server = (await manage(world)).resource
    await world.settle(server)
    writes = len(world.writes())
    await world.sandbox.operator.migrate(7001, "pve2")
    await world.sweep()
    found = await world.settle(server)
    assert (found["convergence"], found["health"], found["facts"]["node"]) == ("applied", "ok", "pve2")
    assert world.writes()[writes:] == []


async def test_what_is_no_longer_asked_of_it_stays_as_it_is(world: World) -> None:
    await there(world, cores="3", memory="1024")
    server = (await manage(world)).resource
    await world.settle(server)
    writes = len(world.writes())
    await world.change("server", "old", patch={"cores": None, "memory_mib": None})
    assert (await world.settle(server))["convergence"] == "applied"
    world.sandbox.operator.set(7001, cores=2, user="ayse@pve")
    await world.sweep()
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok"), "nobody asked for its cores"
    assert world.writes()[writes:] == []


async def test_what_an_operator_has_asked_for_and_a_restart_is_due_for_is_not_undone(world: World) -> None:
    await there(world, running=True, memory="512")
    world.sandbox.operator.set(7001, memory="768")
    answer = await manage(world)
    await world.run(answer.resource)
    assert (await world.row(answer.resource))["message"]["code"] == "link_has_pending"
    vm = world.sandbox.vms[7001]
    await world.sandbox.operator.stop(7001)
    await world.sandbox.operator.start(7001)
    assert vm.file.values["memory"] == "768", "the guest's restart is the operator's own"
    before, writes = config_of(world), len(world.writes())
    await world.change("server", answer.resource, patch={"memory_mib": 768})
    found = await world.settle(answer.resource)
    assert (found["convergence"], found["health"]) == ("applied", "ok")
    assert (config_of(world), world.writes()[writes:]) == (before, [])
