"""The changes of a server that are cut and disturbed: how one begins, what is asked, and how it must end."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from world import World
from zone9.sandbox.state import Vm

Ask = Callable[[World, str], Awaitable[Any]]


@dataclass(frozen=True)
class Flow:
    """Is one change.

    `back` brings a server to where the change begins, wherever the last change has left it, so that one server
    serves for all cuts; a flow that leaves no server has a new one each time. `end` is `on`, `off` or `gone`.
    """

    back: Ask | None
    ask: Ask
    end: str


async def made(world: World, name: str) -> str:
    answer = await world.server(name, networks=[])
    assert (await world.settle(answer.resource))["convergence"] == "applied"
    return answer.resource


def vms_of(world: World, found: Mapping[str, Any]) -> list[Vm]:
    """Returns the VMs in the sandbox that bear the resource's name."""
    return [vm for vm in world.sandbox.vms.values() if found["id"] in vm.config.get("description", "")]


async def hard_stop(world: World, server: str) -> Any:
    return await world.act(server, "stop")


async def start(world: World, server: str) -> Any:
    return await world.act(server, "start")


async def off(world: World, server: str) -> None:
    await world.settle((await hard_stop(world, server)).resource)


async def running(world: World, server: str) -> None:
    await world.settle((await start(world, server)).resource)


async def small(world: World, server: str) -> None:
    found = await world.settle((await world.change("server", server, patch={"memory_mib": 512})).resource)
    assert found["convergence"] == "applied", "what runs has as much again as was asked"


async def off_and_small(world: World, server: str) -> None:
    await off(world, server)
    await small(world, server)


async def restart(world: World, server: str) -> Any:
    return await world.act(server, "restart")


async def shutdown(world: World, server: str) -> Any:
    return await world.act(server, "shutdown", timeout=30)


async def rename(world: World, server: str) -> Any:
    version = (await world.row(server))["intent_version"]
    return await world.change("server", server, name=f"named-{version}")


async def memory(world: World, server: str) -> Any:
    return await world.change("server", server, patch={"memory_mib": 1024})


async def delete(world: World, server: str) -> Any:
    return await world.delete("server", server)


FLOWS: dict[str, Flow] = {
    "stop": Flow(running, hard_stop, "off"),
    "shutdown": Flow(running, shutdown, "off"),
    "start": Flow(off, start, "on"),
    "restart": Flow(None, restart, "on"),
    "rename": Flow(None, rename, "on"),
    "memory of a running server": Flow(small, memory, "on"),
    "memory of a server that is off": Flow(off_and_small, memory, "off"),
    "delete": Flow(None, delete, "gone"),
    "delete of a server that is off": Flow(off, delete, "gone"),
}


class Beginnings:
    """Hands out a server at the beginning of a flow: the same again, or a new one where none is left."""

    def __init__(self, world: World, flow: Flow) -> None:
        self.world = world
        self.flow = flow
        self._kept: str | None = None
        self._made = 0

    async def next(self) -> str:
        if self._kept is None or self.flow.end == "gone":
            self._made += 1
            self._kept = await made(self.world, f"s{self._made}")
        if self.flow.back is not None:
            await self.flow.back(self.world, self._kept)
        return self._kept
