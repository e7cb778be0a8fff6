"""Every write can be cut anywhere, and the end is the same: one VM, in the wanted state, without help.

The number of cuts is twice the calls traced in a clean run, so that no point is left out.
"""

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cutting import Cut, Knife, settle_under
from flows import FLOWS, Beginnings, vms_of
from world import World

# Hundreds of changes each: longer than a single test may take, above all on a busy machine.
pytestmark = pytest.mark.timeout(400)

Next = Callable[[], Awaitable[str]]


async def cut_everywhere(
    world: World, subject: Next, ask: Callable[[World, str], Awaitable[Any]], check: Callable[[Any], None]
) -> int:
    """Cuts one flow at each point, with the server that `subject` names; returns the number of cuts."""
    clean = Knife()
    points, number = None, 0
    while points is None or number <= points:
        answer = await ask(world, await subject())
        knife = clean if points is None else Knife(at=number - 1)
        try:
            found = await settle_under(world, answer.resource, knife)
        except Cut:
            found = await world.settle(answer.resource)
        if points is None:
            points = 2 * len(clean.calls)
        else:
            assert knife.fell, (
                f"point {number - 1} was never reached: the flow is not the one that was traced"
            )
        check(found)
        job = await world.job(answer.job)
        done = {"applied": "succeeded", "pending_restart": "waiting", "deleting": "succeeded"}
        assert job["status"] == done[found["convergence"]], (dict(job), knife.calls[-3:])
        number += 1
    assert number - 1 == 2 * len(clean.calls)
    return number - 1


@pytest.mark.slow
async def test_a_create_cut_anywhere_ends_with_one_vm(world: World) -> None:
    names = (f"s{number}" for number in itertools.count())

    async def subject() -> str:
        return next(names)

    async def ask(world: World, name: str) -> Any:
        return await world.server(name, networks=[])

    def check(found: Any) -> None:
        assert (found["convergence"], found["applied_version"]) == ("applied", 1)
        mine = vms_of(world, found)
        assert len(mine) == 1, [vm.vmid for vm in mine]
        assert mine[0].running
        assert mine[0].vmid == found["facts"]["vmid"]
        assert found["facts"]["uuid"] in mine[0].config["smbios1"]

    cuts = await cut_everywhere(world, subject, ask, check)
    print(f"create: {cuts} cuts")


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWS)
async def test_a_change_cut_anywhere_ends_as_asked(world: World, name: str) -> None:
    flow = FLOWS[name]
    starts = 1

    def check(found: Any) -> None:
        nonlocal starts
        mine = vms_of(world, found)
        if flow.end == "gone":
            assert found["phase"] == "deleted"
            assert not mine
            return
        assert found["convergence"] in {"applied", "pending_restart"}, found["message"]
        assert len(mine) == 1
        assert (mine[0].running is not None) == (flow.end == "on")
        if name == "restart":
            starts += 1
            assert mine[0].starts == starts, "restarted once"
        if "memory" not in name:
            assert found["applied_version"] == found["intent_version"]

    cuts = await cut_everywhere(world, Beginnings(world, flow).next, flow.ask, check)
    print(f"{name}: {cuts} cuts")
