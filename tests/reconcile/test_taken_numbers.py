"""A number of our range that somebody took after the region was attached: left alone, burnt, and the next one taken."""

from world import World
from zone9.sandbox.state import Container


async def test_numbers_of_a_container_and_of_another_nodes_machine_are_passed_over(world: World) -> None:
    first = await world.settle((await world.server(name="first")).resource)
    here = first["facts"]["vmid"]
    theirs = world.sandbox.add_vm(here + 1, "pve2", name="theirs")
    container = Container(here + 2, "pve1", {"hostname": "ct", "rootfs": "local-lvm:vm-1-disk-0,size=1G"})
    world.sandbox.cluster.containers[here + 2] = container
    digest = theirs.file.digest

    answer = await world.server(name="second")
    found = await world.settle(answer.resource)
    assert (found["facts"]["vmid"], found["facts"]["burnt"]) == (here + 3, [here + 1, here + 2])
    assert (await world.job(answer.job))["status"] == "succeeded"
    assert world.sandbox.vms[here + 3].running
    assert (theirs.node, theirs.file.digest) == ("pve2", digest)
    assert world.sandbox.cluster.containers == {here + 2: container}
    burnt = await world.all("SELECT vmid, why FROM vmids WHERE state = 'burnt' ORDER BY vmid")
    assert [one["vmid"] for one in burnt] == [here + 1, here + 2]


async def test_a_clone_whose_answer_was_lost_and_whose_vm_is_gone_has_used_its_number(world: World) -> None:
    world.sandbox.faults.add("lose_answer", "POST", "*/clone", times=1)
    server = (await world.server(networks=[])).resource
    await world.run(server)
    [vmid] = world.sandbox.vms.keys() - {9000}
    world.sandbox.operator.forget(vmid)
    found = await world.settle(server)
    assert (found["convergence"], found["facts"]["vmid"], found["facts"]["burnt"]) == (
        "applied",
        vmid + 1,
        [vmid],
    )


async def test_a_clone_that_never_arrived_keeps_its_number(world: World) -> None:
    world.sandbox.faults.add("drop_before", "POST", "*/clone", times=1)
    found = await world.settle((await world.server(networks=[])).resource)
    assert (found["convergence"], found["facts"].get("burnt")) == ("applied", None)
