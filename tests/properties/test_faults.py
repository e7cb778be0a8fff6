"""Each answer lost once after it was applied, and each class of failure once, at each write of every flow."""

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from flows import FLOWS, Beginnings, Flow, vms_of
from world import World
from zone9.sandbox.faults import NAMED

# Hundreds of changes each: longer than a single test may take, above all on a busy machine.
pytestmark = pytest.mark.timeout(400)

PASSING = sorted(set(NAMED) - {"bad_parameter"})


async def writes_of(world: World, ask: Callable[[], Awaitable[Any]]) -> int:
    """Counts the writes of a clean run."""
    before = len(world.writes())
    await world.settle((await ask()).resource)
    return len(world.writes()) - before


def check(world: World, found: Any, end: str) -> None:
    mine = vms_of(world, found)
    if end == "gone":
        assert found["phase"] == "deleted"
        assert not mine
        return
    assert found["convergence"] in {"applied", "pending_restart"}, found["message"]
    assert [vm.vmid for vm in mine] == [found["facts"]["vmid"]]
    assert (mine[0].running is not None) == (end == "on")


async def each_write_meets(
    world: World,
    name: str,
    faults: Sequence[Callable[[int], dict[str, Any]]],
    *,
    after: Callable[[Any], Awaitable[Any]] | None = None,
) -> None:
    """Runs a flow for each fault as often as it has writes, each time with the fault at another of them."""
    names = (f"n{number}" for number in itertools.count())
    flow = FLOWS.get(name, Flow(None, lambda world, _: world.server(next(names), networks=[]), "on"))
    beginnings = Beginnings(world, flow)

    async def ready() -> str:
        return "" if name == "create" else await beginnings.next()

    server = await ready()
    count = await writes_of(world, lambda: flow.ask(world, server))
    assert count
    for fault, number in itertools.product(faults, range(count)):
        server = await ready()
        starts = sum(vm.starts for vm in world.sandbox.vms.values())
        rule = world.sandbox.faults.add(**fault(number))
        answer = await flow.ask(world, server)
        found = await world.settle(answer.resource)
        assert rule.hits == 1, f"{rule.kind} did not strike at write {number}"
        world.sandbox.faults.clear()
        if after is not None:
            found = await world.settle((await after(found)).resource)
        check(world, found, flow.end)
        if name in {"create", "restart"}:
            assert sum(vm.starts for vm in world.sandbox.vms.values()) == starts + 1, "started once"


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["create", *FLOWS])
async def test_an_answer_lost_after_it_was_applied_changes_nothing_in_the_end(
    world: World, flow: str
) -> None:
    await each_write_meets(
        world, flow, [lambda n: {"kind": "lose_answer", "method": "write", "times": 1, "after": n}]
    )


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["create", *FLOWS])
async def test_each_passing_failure_at_each_write_changes_nothing_in_the_end(world: World, flow: str) -> None:
    faults = [
        lambda n, kind=kind: {"kind": kind, "method": "write", "times": 1, "after": n} for kind in PASSING
    ]
    await each_write_meets(world, flow, faults)


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["create", *FLOWS])
async def test_a_refused_parameter_ends_the_job_and_a_new_version_goes_on(world: World, flow: str) -> None:
    """What Proxmox will never take is not sent again and again; what was asked stands, and can be asked anew."""

    async def again(found: Any) -> Any:
        assert found["convergence"] == "failed"
        assert found["message"]["code"] == "pve_rejected"
        sent = len(world.writes())
        await world.run(found["id"])
        assert len(world.writes()) == sent, "given up means given up"
        if found["phase"] == "deleting":
            return await world.delete("server", found["id"])
        return await world.change("server", found["id"], patch={"tags": ["again"]})

    await each_write_meets(
        world,
        flow,
        [lambda n: {"kind": "bad_parameter", "method": "write", "times": 1, "after": n}],
        after=again,
    )
