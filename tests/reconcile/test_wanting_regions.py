"""A region whose self-test finds errors is degraded, and nothing is written to it."""

from typing import Any

from world import World
from zone9.pve.selftest import PRIVILEGES


async def region(world: World) -> Any:
    return (await world.all("SELECT * FROM resources WHERE kind = 'region'"))[0]


def may(world: World, *without: str) -> None:
    world.sandbox.accounts.roles["Zone9"] = frozenset(PRIVILEGES) - set(without)
    world.sandbox.accounts.changed()


async def test_a_token_that_cannot_read_back_writes_nothing(world: World) -> None:
    """Without VM.Audit Proxmox would still take the clone, and zone9 could never say what came of it."""
    answer = await world.server(networks=[])
    may(world, "VM.Audit")
    await world.run((await region(world))["id"])
    assert (await region(world))["health"] == "degraded"
    before = len(world.writes())
    for _ in range(3):
        await world.run(answer.resource)
        await world.pass_time(60)

    found, job = await world.row(answer.resource), await world.job(answer.job)
    assert len(world.writes()) == before
    assert (job["status"], job["error"]["code"]) == ("waiting", "region_wanting")
    assert "VM.Audit" in job["error"]["text"]
    assert found["applied_version"] is None

    may(world)
    await world.run((await region(world))["id"])
    assert (await world.settle(answer.resource))["convergence"] == "applied"


async def test_a_server_that_is_refused_makes_its_region_look_at_itself(world: World) -> None:
    answer = await world.server(networks=[])
    await world.settle(answer.resource)
    may(world, "VM.Audit", "VM.PowerMgmt")
    seen = (await region(world))["wake_seq"]
    await world.run(answer.resource)
    assert (await region(world))["wake_seq"] == seen + 1


async def test_a_hidden_canary_stops_writes_too(world: World) -> None:
    await world.change("region", "r1", patch={"canary": 9000})
    found = await world.settle((await region(world))["id"])
    assert found["convergence"] == "applied"
    await world.change("region", "r1", patch={"canary": 4711})
    await world.run((await region(world))["id"])
    assert (await region(world))["health"] == "degraded"
    before = len(world.writes())
    answer = await world.server(networks=[])
    await world.run(answer.resource)
    assert len(world.writes()) == before
    assert "canary" in (await world.job(answer.job))["error"]["text"]


async def test_what_is_wanting_is_no_obstacle_to_looking(world: World) -> None:
    """A server that is as it was asked for stays green and is measured anew."""
    answer = await world.server(networks=[])
    before = await world.settle(answer.resource)
    may(world, "VM.Clone")
    await world.run((await region(world))["id"])
    assert (await region(world))["health"] == "degraded"
    await world.run(answer.resource)
    after = await world.row(answer.resource)
    assert (after["convergence"], after["health"]) == ("applied", before["health"])
    assert after["measured_at"] > before["measured_at"]
