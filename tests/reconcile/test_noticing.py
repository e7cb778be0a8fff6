"""Every change by an operator is noticed within one pass, with the right name beside it; one made in the file, within a round."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from world import World
from zone9.sandbox.operator import Operator

WHO = "ayse@pve"
Change = Callable[[Operator, int], Any]

# What is changed, the field that drifts (None: nothing that was asked for), and what Proxmox's logs call it.
BY_API: dict[str, tuple[Change, str | None, str]] = {
    "name": (lambda operator, vmid: operator.set(vmid, name="other", user=WHO), "name", "update: name"),
    "cores": (lambda operator, vmid: operator.set(vmid, cores=3, user=WHO), "cores", "update: cores"),
    "memory": (
        lambda operator, vmid: operator.set(vmid, memory=768, user=WHO),
        "memory_mib",
        "update: memory",
    ),
    "tags": (lambda operator, vmid: operator.set(vmid, tags="", user=WHO), "tags", "update: tags"),
    "marker": (
        lambda operator, vmid: operator.set(vmid, delete=("description",), user=WHO),
        "marker",
        "update: description",
    ),
    "card": (
        lambda operator, vmid: operator.set(vmid, net0="virtio=02:00:00:00:00:09,bridge=vmbr0", user=WHO),
        "net0",
        "update: net0",
    ),
    "address": (
        lambda operator, vmid: operator.set(vmid, ipconfig0="ip=10.10.0.99/24", user=WHO),
        "ipconfig0",
        "update: ipconfig0",
    ),
    "notes": (lambda operator, vmid: operator.set(vmid, onboot=1, user=WHO), None, "update: onboot"),
    "stop": (lambda operator, vmid: operator.stop(vmid, user=WHO), "power", "qmstop"),
    "move": (lambda operator, vmid: operator.migrate(vmid, "pve2", user=WHO), None, "qmigrate"),
    "delete": (lambda operator, vmid: operator.delete(vmid, user=WHO), "vm", "qmdestroy"),
}
BY_FILE = {
    "name": ("name", "other"),
    "cores": ("cores", 3),
    "memory_mib": ("memory", 768),
    "tags": ("tags", "theirs"),
    "net0": ("net0", "virtio=02:00:00:00:00:09,bridge=vmbr0"),
}


async def made(world: World) -> tuple[str, int]:
    server = (await world.server(tags=["ours"])).resource
    found = await world.settle(server)
    for _ in range(2):
        await world.sweep()
        await world.run(server)
    return server, int(found["facts"]["vmid"])


async def drift(world: World, server: str) -> dict[str, Any]:
    found = await world.all("SELECT field, who, what FROM drifts WHERE resource = :id", id=server)
    return {one["field"]: (one["who"], one["what"]) for one in found}


@pytest.mark.parametrize("name", BY_API)
async def test_a_change_is_noticed_in_one_pass_with_the_right_name(world: World, name: str) -> None:
    change, field, what = BY_API[name]
    server, vmid = await made(world)
    answer = change(world.sandbox.operator, vmid)
    if isinstance(answer, Awaitable):
        await answer
    assert server in await world.sweep()
    acts = await world.all("SELECT who, what FROM acts WHERE vmid = :vmid", vmid=vmid)
    assert (WHO, what) in [(one["who"], one["what"]) for one in acts]
    await world.run(server)
    found = await drift(world, server)
    if field is None:
        assert found == {}
    else:
        assert found[field] == (WHO, what)


@pytest.mark.parametrize("field", BY_FILE)
async def test_a_change_in_the_file_is_found_in_a_round_and_nobody_is_named(world: World, field: str) -> None:
    key, value = BY_FILE[field]
    server, vmid = await made(world)
    world.sandbox.operator.edit_file(vmid, **{key: value})
    assert server in await world.sweep(), "of few VMs a round is one pass"
    await world.run(server)
    found = await drift(world, server)

    assert found == {field: (None, None)}
