"""Every write can be cut anywhere, and the end is the same: one VM, in the wanted state, without help.

The number of cuts is twice the calls traced in a clean run, so that no point is left out.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cutting import Cut, Knife, settle_under
from world import World

# Hundreds of servers each: longer than a single test may take, above all on a busy machine.
pytestmark = pytest.mark.timeout(400)

Ask = Callable[[World, str], Awaitable[Any]]


async def nothing(_world: World, _name: str) -> None:
    """The server as it was made: running."""


async def hard_stop(world: World, name: str) -> Any:
    return await world.act(name, "stop")


async def off(world: World, name: str) -> None:
    await world.settle((await hard_stop(world, name)).resource)


async def restart(world: World, name: str) -> Any:
    return await world.act(name, "restart")


async def shutdown(world: World, name: str) -> Any:
    return await world.act(name, "shutdown", timeout=30)


async def start(world: World, name: str) -> Any:
    return await world.act(name, "start")


async def rename(world: World, name: str) -> Any:
    return await world.change("server", name, name=f"{name}-new")


async def memory(world: World, name: str) -> Any:
    return await world.change("server", name, patch={"memory_mib": 1024})


async def delete(world: World, name: str) -> Any:
    return await world.delete("server", name)


FLOWS: dict[str, tuple[Ask, Ask, str]] = {
    "stop": (nothing, hard_stop, "off"),
    "shutdown": (nothing, shutdown, "off"),
    "start": (off, start, "on"),
    "restart": (nothing, restart, "on"),
    "rename": (nothing, rename, "on"),
    "memory of a running server": (nothing, memory, "on"),
    "memory of a server that is off": (off, memory, "off"),
    "delete": (nothing, delete, "gone"),
    "delete of a server that is off": (off, delete, "gone"),
}


async def cut_everywhere(world: World, prepare: Ask, ask: Ask, check: Callable[[str, Any], None]) -> int:
    """Cuts one flow at each point, each time with a server of its own; returns the number of cuts."""
    clean = Knife()
    points, number = None, 0
    while points is None or number <= points:
        name = f"s{number}"
        await prepare(world, name)
        answer = await ask(world, name)
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
        check(name, found)
        job = await world.job(answer.job)
        done = {"applied": "succeeded", "pending_restart": "waiting", "deleting": "succeeded"}
        assert job["status"] == done[found["convergence"]], (dict(job), knife.calls[-3:])
        number += 1
    assert number - 1 == 2 * len(clean.calls)
    return number - 1


@pytest.mark.slow
async def test_a_create_cut_anywhere_ends_with_one_vm(world: World) -> None:
    async def ask(world: World, name: str) -> Any:
        return await world.server(name, networks=[])

    def check(name: str, found: Any) -> None:
        assert (found["convergence"], found["applied_version"]) == ("applied", 1)
        mine = [vm for vm in world.sandbox.vms.values() if found["id"] in vm.config.get("description", "")]
        assert len(mine) == 1, [vm.vmid for vm in mine]
        assert mine[0].running
        assert mine[0].vmid == found["facts"]["vmid"]
        assert found["facts"]["uuid"] in mine[0].config["smbios1"]

    cuts = await cut_everywhere(world, nothing, ask, check)
    print(f"create: {cuts} cuts")


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS)
async def test_a_change_cut_anywhere_ends_as_asked(world: World, flow: str) -> None:
    before, ask, end = FLOWS[flow]

    async def prepare(world: World, name: str) -> None:
        made = await world.server(name, networks=[])
        assert (await world.settle(made.resource))["convergence"] == "applied"
        await before(world, name)

    def check(_name: str, found: Any) -> None:
        mine = [vm for vm in world.sandbox.vms.values() if found["id"] in vm.config.get("description", "")]
        if end == "gone":
            assert found["phase"] == "deleted"
            assert not mine
            return
        assert found["convergence"] in {"applied", "pending_restart"}, found["message"]
        assert len(mine) == 1
        assert (mine[0].running is not None) == (end == "on")
        if flow == "restart":
            assert mine[0].starts == 2, "made once, restarted once"
        if "memory" not in flow:
            assert found["applied_version"] == found["intent_version"]

    cuts = await cut_everywhere(world, prepare, ask, check)
    print(f"{flow}: {cuts} cuts")
