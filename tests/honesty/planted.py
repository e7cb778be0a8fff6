"""Ten faults that a control plane like this one could have, each put in on purpose, and a script that meets it.

A script is played twice: as it is, when nothing may be found, and with its fault, when something must be.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from honesty import asking, operators
from honesty.scene import Scene
from zone9.model import words
from zone9.model.plans import Plan
from zone9.products.servers import apply as applying
from zone9.products.servers import observe as observing
from zone9.products.servers.outcomes import Outcome
from zone9.pve import vm as reading
from zone9.pve.client import Client
from zone9.pve.errors import Denied
from zone9.pve.vm import Absent
from zone9.reconcile import sweeping
from zone9.reconcile.loop import Loop
from zone9.reconcile.passes import Passes
from zone9.reconcile.work import FencedPermit
from zone9.sandbox.state import Vm
from zone9.store import allocations
from zone9.store.database import row, run
from zone9.store.runs import RunStore

Patch = pytest.MonkeyPatch
Plant = Callable[[], None]
Script = Callable[[Scene, Plant], Awaitable[None]]


@dataclass(frozen=True)
class Planted:
    """Is one fault: how it is put in, the script that meets it, and what is found then."""

    plant: Callable[[Patch, Scene], None]
    script: Script
    found: str


PLANTED: dict[str, Planted] = {}


def planted(name: str, script: Script, found: str) -> Callable[[Any], Any]:
    def enter(plant: Callable[[Patch, Scene], None]) -> Callable[[Patch, Scene], None]:
        PLANTED[name] = Planted(plant, script, found)
        return plant

    return enter


# -- scripts -------------------------------------------------------------------------------------------


async def rest(scene: Scene, *, rounds: int = 4, seconds: float = 40) -> None:
    """Lets zone9 work for a while, and looks after each thing it does."""
    for _round in range(rounds):
        await scene.step(lambda: scene.work(10))
        await scene.step(scene.sweep)
        await scene.step(lambda: scene.world.pass_time(seconds))
    await scene.step(lambda: scene.work(10))


async def made(scene: Scene, name: str = "s1", **asked: Any) -> tuple[str, Vm]:
    await scene.step(lambda: asking.create(scene, name, **asked))
    await rest(scene, rounds=2)
    [server] = [one for one, found in scene.told.items() if found["name"] == name]
    [vm] = scene.book.living(server)
    return server, vm


async def changed(scene: Scene, plant: Plant) -> None:
    server, _vm = await made(scene)
    plant()
    await scene.step(lambda: asking.change(scene, server, {"memory_mib": 1024, "tags": ["new"]}))
    await rest(scene)


async def replaced_by_a_stranger(scene: Scene, plant: Plant) -> None:
    _server, vm = await made(scene)
    plant()
    await scene.step(lambda: operators.take_number(scene, vm))
    await rest(scene)


async def made_invisible(scene: Scene, plant: Plant) -> None:
    await made(scene)
    plant()
    operators.lose_audit(scene)
    scene.healing.clear()  # for good
    await rest(scene)


async def one_is_hidden(scene: Scene, plant: Plant) -> None:
    _server, vm = await made(scene)
    plant()
    scene.sandbox.accounts.grant(f"/vms/{vm.vmid}", "zone9@pve!ctl", "NoAccess")
    scene.sandbox.accounts.changed()
    await rest(scene)


async def asked_in_the_middle(scene: Scene, plant: Plant) -> None:
    server, _vm = await made(scene)
    plant()
    for at in range(2, 26):
        await scene.step(lambda: asking.change(scene, server, {"tags": ["one"]}))
        other = lambda: asking.change(scene, server, {"tags": [f"other{at}"]})  # noqa: E731, B023
        await scene.step(lambda: scene.work(1, at=at, act=other))  # noqa: B023
        await rest(scene, rounds=1, seconds=1)


async def left_alone(scene: Scene, plant: Plant) -> None:
    await made(scene)
    plant()
    await scene.step(lambda: scene.world.pass_time(61))


async def others_are_there(scene: Scene, plant: Plant) -> None:
    await made(scene)
    operators.stranger(scene, 300)
    plant()
    await rest(scene)


async def a_restart_loses_its_answer(scene: Scene, plant: Plant) -> None:
    server, _vm = await made(scene)
    plant()
    scene.sandbox.faults.add("lose_answer", "POST", "*/status/reboot", times=1)
    await scene.step(lambda: asking.power(scene, server, "restart"))
    await rest(scene, rounds=6)


async def one_after_the_other(scene: Scene, plant: Plant) -> None:
    server, _vm = await made(scene)
    await scene.step(lambda: asking.delete(scene, server))
    await rest(scene)
    plant()
    await made(scene, "s2")


# -- faults --------------------------------------------------------------------------------------------


@planted("the read-back is skipped", changed, "was not read after the last write")
def _skip_read_back(patch: Patch, _scene: Scene) -> None:
    measure = Loop._measure

    async def once(self: Loop, product: Any, run_: Any, work: Any) -> Any:
        kept = work.__dict__.get("kept")
        if kept is not None and kept.plan.steps:
            return replace(kept, plan=Plan(compared=True))
        work.__dict__["kept"] = found = await measure(self, product, run_, work)
        return found

    patch.setattr(Loop, "_measure", once)


@planted("the config is trusted as it will be after a restart", changed, "still waiting: memory")
def _plain_config(patch: Patch, _scene: Scene) -> None:
    get = Client.get

    async def plain(self: Client, path: str, /, **params: Any) -> Any:
        params.pop("current", None)
        return await get(self, path, **params)

    patch.setattr(Client, "get", plain)
    patch.setattr(reading, "_pending", lambda _rows: {})


@planted("the uuid is not looked at", replaced_by_a_stranger, "the VM is not zone9's")
def _ignore_uuid(patch: Patch, _scene: Scene) -> None:
    for module in (observing, applying):
        patch.setattr(module, "is_ours", lambda _place, _reading: True)


@planted("a refusal is taken for an absence", made_invisible, "false absence")
def _denied_is_gone(patch: Patch, _scene: Scene) -> None:
    config = reading._config

    async def gone_when_denied(client: Client, node: str, vmid: int, **more: Any) -> Any:
        try:
            return await config(client, node, vmid, **more)
        except Denied:
            return Absent(node, vmid, "denied")

    patch.setattr(reading, "_config", gone_when_denied)
    patch.setattr(sweeping, "_frozen", lambda _state, _swept, rights: ((), rights, None))


@planted("the version that was fetched is reported as applied", asked_in_the_middle, "is applied, but tags")
def _report_fetched(patch: Patch, _scene: Scene) -> None:
    conclude = RunStore.conclude

    async def newest(self: RunStore, run_: Any, verdict: Any, **more: Any) -> bool:
        async with self.database.begin() as connection:
            found = await row(
                connection,
                "SELECT intent_version, wake_seq FROM resources WHERE id = :id",
                id=run_.intent.id,
            )
        assert found is not None
        version = int(found["intent_version"])
        intent = replace(run_.intent, version=version)
        if verdict is not None:
            verdict = replace(verdict, observed_intent_version=version)
        return await conclude(self, replace(run_, intent=intent, wake_seq=found["wake_seq"]), verdict, **more)

    patch.setattr(RunStore, "conclude", newest)


@planted("a verdict is kept for ever", left_alone, "is shown applied, measured ")
def _keep_verdict(patch: Patch, _scene: Scene) -> None:
    patch.setattr(words, "fresh_health", lambda health, _at, _now, _budget: health)


@planted("an adopted VM is written to", others_are_there, "the VM is not zone9's")
def _write_to_adopted(patch: Patch, scene: Scene) -> None:
    audit = Passes.audit

    async def and_tag(self: Passes, region: str, driver: Any) -> Any:
        found = await audit(self, region, driver)
        for vm in scene.book.strangers():
            path = f"/nodes/{vm.node}/qemu/{vm.vmid}/config"
            await driver.client.write(
                "PUT", path, {"tags": "seen"}, node=vm.node, permit=FencedPermit(_nothing)
            )
        return found

    patch.setattr(Passes, "audit", and_tag)


@planted(
    "a write whose outcome is unknown is sent again", a_restart_loses_its_answer, "restarted 2 times, asked 1"
)
def _send_again(patch: Patch, _scene: Scene) -> None:
    async def never_applied(_driver: Any, work: Any, _place: Any) -> Outcome:
        for write in work.open_writes:
            work.settle(write, "not_applied")
        return Outcome()

    patch.setattr(observing, "settle_open", never_applied)


@planted("a row that is not listed is taken for a deletion", one_is_hidden, "false absence")
def _unlisted_is_gone(patch: Patch, _scene: Scene) -> None:
    async def all_of_them(_driver: Any, rows: Any) -> set[int]:
        return {one.vmid for one in rows}

    patch.setattr(sweeping, "_gone", all_of_them)


@planted("a number is used again", one_after_the_other, "uses the number")
def _use_again(patch: Patch, _scene: Scene) -> None:
    take = allocations.take_vmid

    async def take_old(connection: Any, **where: Any) -> int:
        await run(connection, "DELETE FROM vmids WHERE state = 'burnt'")
        return await take(connection, **where)

    patch.setattr(allocations, "take_vmid", take_old)


async def _nothing() -> None:
    """Is no look at all before a write."""
