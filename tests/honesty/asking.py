"""What people ask of zone9, and what of it the book has to know."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from honesty.book import Wanted
from honesty.scene import Scene
from world import ADMIN
from zone9.base.errors import Problem, Refused
from zone9.products.servers.adopting import as_asked
from zone9.sandbox.state import Vm

SPEC = {"region": "r1", "plan": "small", "image": "tiny"}


async def create(scene: Scene, name: str, *, power: str = "on", network: bool = False) -> None:
    networks = [{"network": "lan"}] if network else []
    with suppress(Refused):
        made = await scene.world.create("server", name, {**SPEC, "power": power, "networks": networks})
        scene.book.wanted[made.resource] = Wanted(power={power})


async def change(
    scene: Scene, server: str, patch: Mapping[str, Any] | None = None, name: str | None = None
) -> None:
    with suppress(Refused):
        await scene.world.change("server", server, patch=patch, name=name)


async def power(scene: Scene, server: str, action: str) -> None:
    """Starts, stops, shuts down or restarts; what was asked before may still be under way."""
    wanted = scene.book.wanted[server]
    with suppress(Refused):
        await scene.world.act(server, action)
        if action == "restart":
            wanted.restarts += 1
        wanted.power.add("on" if action in {"start", "restart"} else "off")


async def delete(scene: Scene, server: str) -> None:
    with suppress(Refused):
        await scene.world.delete("server", server)
        scene.book.wanted[server].deleting = True


async def decide(scene: Scene, server: str, action: str, vm: Vm | None = None) -> None:
    """Decides about a lost server: recreate, forget, or link to a VM that was given to the project."""
    with suppress(Refused):
        if action != "link":
            await scene.world.act(server, action)
            scene.book.take(server)  # what was pointed at before, if anything
        elif vm is not None:
            await scene.world.attribute(vm.vmid)
            await scene.world.act(server, "link", vmid=vm.vmid)
            scene.book.take(server)  # what was pointed at before, if anything
            scene.book.give(vm, server)


async def take_over(scene: Scene, vm: Vm, name: str) -> None:
    """Takes a VM under management as passes have seen it."""
    await scene.sweep()
    await scene.sweep()
    await scene.world.attribute(vm.vmid)
    on = vm.running is not None
    with suppress(Refused):
        made = await scene.world.create("server", name, as_asked(scene.region, vm.vmid, running=on))
        scene.book.wanted[made.resource] = Wanted(power={"on" if on else "off"})
        scene.book.give(vm, made.resource)


async def release(scene: Scene, server: str) -> None:
    with suppress(Refused):
        await scene.world.act(server, "release")
        scene.book.take(server)


async def reconcile(scene: Scene, server: str) -> None:
    with suppress(Refused):
        async with scene.world.zone9.database.begin() as connection:
            await scene.world.zone9.asking.reconcile(connection, ADMIN, "server", server)


async def verify(scene: Scene, server: str, *, opened: bool = False) -> None:
    """Measures because a person says so, or because a page was opened."""
    asking = scene.world.zone9.asking
    with suppress(Problem):
        async with scene.world.zone9.database.begin() as connection:
            if opened:
                await asking.verify_stale(connection, "server", server)
            else:
                await asking.verify(connection, ADMIN, "server", server)
