"""Servers under Proxmox's HA manager: a start or a stop is a request there, and its task is over at once."""

from typing import Any

from world import World


async def managed(world: World) -> Any:
    """Returns a running server that an operator has put under HA."""
    answer = await world.server(networks=[])
    found = await world.settle(answer.resource)
    world.sandbox.cluster.ha[f"vm:{found['facts']['vmid']}"] = {"state": "started"}
    return found


async def test_a_stop_is_asked_once_and_waited_for(world: World) -> None:
    found = await managed(world)
    vmid = found["facts"]["vmid"]
    asked = await world.act("web1", "stop")
    sent = len(world.writes())
    for _ in range(5):
        await world.run(found["id"])
        await world.pass_time(5)
    job = await world.job(asked.job)
    assert (job["status"], job["error"]["code"]) == ("waiting", "ha_asked")
    assert len(world.writes()) == sent + 1
    assert (await world.row(found["id"]))["applied_version"] == 1

    await world.sandbox.operator.stop(vmid)
    after = await world.settle(found["id"])
    assert (after["convergence"], after["applied_version"]) == ("applied", 2)
    assert len(world.writes()) == sent + 1
    assert (await world.job(asked.job))["status"] == "succeeded"


async def test_a_manager_that_does_nothing_is_asked_again(world: World) -> None:
    found = await managed(world)
    await world.act("web1", "stop")
    await world.run(found["id"])
    sent = len(world.writes())
    await world.pass_time(125)
    await world.run(found["id"])
    assert len(world.writes()) == sent + 1


async def test_a_delete_goes_on_when_the_manager_has_stopped_it(world: World) -> None:
    found = await managed(world)
    deleted = await world.delete("server", "web1")
    await world.run(found["id"])
    assert (await world.job(deleted.job))["error"]["code"] == "ha_asked"
    await world.sandbox.operator.stop(found["facts"]["vmid"])
    assert (await world.settle(found["id"]))["phase"] == "deleted"
    assert not world.sandbox.cluster.ha, "Proxmox takes it out of HA with the purge"
