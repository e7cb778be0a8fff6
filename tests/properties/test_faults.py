"""Each answer lost once after it was applied, and each class of failure once, at each write of every flow."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from test_cuts import FLOWS
from world import World
from zone9.sandbox.faults import NAMED

# Hundreds of servers each: longer than a single test may take, above all on a busy machine.
pytestmark = pytest.mark.timeout(400)

PASSING = sorted(set(NAMED) - {"bad_parameter"})


async def made(world: World, name: str) -> None:
    answer = await world.server(name, networks=[])
    assert (await world.settle(answer.resource))["convergence"] == "applied"


async def writes_of(world: World, ask: Callable[[], Awaitable[Any]]) -> int:
    """Counts the writes of a clean run."""
    before = len(world.writes())
    await world.settle((await ask()).resource)
    return len(world.writes()) - before


def check(world: World, found: Any, end: str, *, starts: int | None = None) -> None:
    mine = [vm for vm in world.sandbox.vms.values() if found["id"] in vm.config.get("description", "")]
    if end == "gone":
        assert found["phase"] == "deleted"
        assert not mine
        return
    assert found["convergence"] in {"applied", "pending_restart"}, found["message"]
    assert [vm.vmid for vm in mine] == [found["facts"]["vmid"]]
    assert (mine[0].running is not None) == (end == "on")
    if starts is not None:
        assert mine[0].starts == starts


async def each_write_meets(
    world: World,
    flow: str,
    fault: Callable[[int], dict[str, Any]],
    *,
    prefix: str = "s",
    after: Callable[[str, Any], Awaitable[Any]] | None = None,
) -> int:
    """Runs a flow as often as it has writes, each time with the fault at another of them."""
    if flow == "create":
        prepare, end = None, "on"

        async def ask(name: str) -> Any:
            return await world.server(name, networks=[])
    else:
        before, asked, end = FLOWS[flow]

        async def prepare(name: str) -> None:
            await made(world, name)
            await before(world, name)

        async def ask(name: str) -> Any:
            return await asked(world, name)

    async def ready(name: str) -> None:
        if prepare is not None:
            await prepare(name)

    await ready(f"{prefix}-clean")
    count = await writes_of(world, lambda: ask(f"{prefix}-clean"))
    assert count
    for number in range(count):
        name = f"{prefix}{number}"
        await ready(name)
        rule = world.sandbox.faults.add(**fault(number))
        answer = await ask(name)
        found = await world.settle(answer.resource)
        assert rule.hits == 1, f"the fault did not strike at write {number}"
        world.sandbox.faults.clear()
        if after is not None:
            found = await world.settle((await after(name, found)).resource)
        check(world, found, end, starts=2 if flow == "restart" else None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["create", *FLOWS])
async def test_an_answer_lost_after_it_was_applied_changes_nothing_in_the_end(
    world: World, flow: str
) -> None:
    await each_write_meets(
        world, flow, lambda n: {"kind": "lose_answer", "method": "write", "times": 1, "after": n}
    )


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["create", *FLOWS])
async def test_each_passing_failure_at_each_write_changes_nothing_in_the_end(world: World, flow: str) -> None:
    for name in PASSING:
        await each_write_meets(
            world,
            flow,
            lambda n, name=name: {"kind": name, "method": "write", "times": 1, "after": n},
            prefix=name.replace("_", "-"),
        )


@pytest.mark.slow
@pytest.mark.parametrize("flow", ["create", *FLOWS])
async def test_a_refused_parameter_ends_the_job_and_a_new_version_goes_on(world: World, flow: str) -> None:
    """What Proxmox will never take is not sent again and again; what was asked stands, and can be asked anew."""

    async def again(name: str, found: Any) -> Any:
        assert found["convergence"] == "failed"
        assert found["message"]["code"] == "pve_rejected"
        sent = len(world.writes())
        await world.run(found["id"])
        assert len(world.writes()) == sent, "given up means given up"
        if found["phase"] == "deleting":
            return await world.delete("server", name)
        return await world.change("server", found["id"], patch={"tags": ["again"]})

    await each_write_meets(
        world,
        flow,
        lambda n: {"kind": "bad_parameter", "method": "write", "times": 1, "after": n},
        after=again,
    )
