"""The end of a scenario: trouble has passed, and all converges without help, except where a decision is due.

Whether one is due is judged by the sandbox's own state. Then it is made, and nothing may be left open.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from honesty import asking
from honesty.scene import Scene
from honesty.truth import uuid_in
from zone9.sandbox.state import Vm

ROUNDS = 60


async def settle(scene: Scene) -> None:
    """Lets everything converge; what does not, and needs nobody, is a lie that is added to the scene's."""
    scene.heal()
    for _decision in range(3):
        await _converge(scene)
        if scene.lies:
            return
        rows = {server: row for server, row in (await scene.servers()).items() if row["phase"] != "deleted"}
        waiting = {server: row for server, row in rows.items() if not _done(row)}
        if not waiting:
            return
        # All are judged before the first is decided, since one decision may be the end of another's reason.
        for server, row in waiting.items():
            if (wrong := _not_due(scene, server, row)) is not None:
                scene.lies.append(f"not converged: {row['name']}: {wrong}")
        if scene.lies:
            return
        for server, row in waiting.items():
            await _decide(scene, server, row)
    left = {row["name"]: _said(row) for row in (await scene.servers()).values() if not _done(row)}
    if left:
        scene.lies.append(f"not converged after decisions: {left}")


async def _converge(scene: Scene) -> None:
    quiet = 0
    for _round in range(ROUNDS):
        await scene.step(scene.sweep)
        await scene.step(lambda: scene.work(20))
        rows = await scene.servers()
        quiet = quiet + 1 if all(_done(row) or _waits(row) for row in rows.values()) else 0
        if quiet == 4 or scene.lies:
            return
        await scene.step(lambda: scene.world.pass_time(31))


def _done(row: Mapping[str, Any]) -> bool:
    if row["phase"] == "deleted":
        return True
    return (row["phase"], row["convergence"], row["health"]) == ("live", "applied", "ok")


def _waits(row: Mapping[str, Any]) -> bool:
    return _said(row) in DECISIONS


def _said(row: Mapping[str, Any]) -> str:
    return str((row["message"] or {}).get("code"))


def _not_due(scene: Scene, server: str, row: Mapping[str, Any]) -> str | None:
    """Returns why no decision is due, by the sandbox's own state; None when one is."""
    code = _said(row)
    if code not in DECISIONS:
        return f"{row['phase']}/{row['convergence']}/{row['health']}: {row['message']}"
    there, vm = scene.book.living(server), scene.sandbox.vms.get(row["facts"].get("vmid") or 0)
    if code == "vm_missing" and there:
        return f"it is called missing, and VM {there[0].vmid} is there"
    if code == "identity_mismatch" and (vm is None or _tells_whose_it_is(vm, row["facts"])):
        return "its VM is called a stranger's"
    if code == "duplicate":
        known = Counter(uuid_in(one) for one in scene.sandbox.vms.values())
        if vm is None or known[uuid_in(vm)] < 2:
            return "it is called a duplicate, and no other VM has its uuid"
    if code == "needs_restart" and (vm is None or not (vm.file.pending or vm.file.deleting)):
        return "a restart is asked for, and nothing waits for one"
    return None


def _tells_whose_it_is(vm: Vm, facts: Mapping[str, Any]) -> bool:
    """Tells that a VM can be known as a server's: an operator may take away all that says so before its uuid is set."""
    marked = bool(facts["nonce"]) and facts["nonce"] in vm.file.values.get("description", "")
    unset = not facts.get("identified") and (marked or vm.file.digest == facts.get("link_digest"))
    return unset or facts["uuid"] in {uuid_in(vm), uuid_in(vm, waiting=True)}


async def _decide(scene: Scene, server: str, row: Mapping[str, Any]) -> None:
    """Decides as a person would."""
    code, vm = _said(row), scene.sandbox.vms.get(row["facts"].get("vmid") or 0)
    if code == "vm_missing":
        await asking.decide(scene, server, "forget")
    elif code == "identity_mismatch" and vm is not None:
        await scene.sandbox.operator.delete(vm.vmid)
    elif code == "duplicate":
        for other in scene.book.strangers():
            if vm is not None and uuid_in(other) == uuid_in(vm):
                await scene.sandbox.operator.delete(other.vmid)
    elif code == "needs_restart":
        await asking.power(scene, server, "restart")
    elif code in {"link_mismatch", "link_not_there", "link_has_pending"}:
        await asking.release(scene, server)
    else:  # oscillating
        await asking.reconcile(scene, server)


DECISIONS = {
    "vm_missing", "identity_mismatch", "duplicate", "needs_restart", "oscillating", "link_mismatch", "link_not_there",
    "link_has_pending",
}  # fmt: skip
