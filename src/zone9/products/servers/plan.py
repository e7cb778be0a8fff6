"""What to do about a server. Pure, and tested as tables: (intent, truth) -> the next steps, or why to wait.

The order is the safety: what is unknown is waited for, what is not ours is left alone, what has failed is
said; only then is anything written. A VM's identity is set and read back before its first start.
"""

from collections.abc import Mapping
from typing import Any

from zone9.model.facts import FieldDiff, Intent, Message
from zone9.model.plans import Plan, Step, Wait
from zone9.model.states import ChangeClass, Phase
from zone9.products.servers.truth import Nic, ServerTruth, Settings

NEVER_CLONED = (None, "refused", "not_sent", "not_applied")
REST_SECONDS = 2.0  # between a stop and the next act: Proxmox's own clean-up holds the lock
HA_GRACE_SECONDS = 120.0  # the HA manager works in rounds of 10 s, and later while it fences a node

# Live at once on a running VM; the others wait for a restart unless hot-plugged (recorded from 9.2).
HOT = {"name", "tags", "marker"}


def plan(intent: Intent, truth: ServerTruth) -> Plan:
    """Returns the next steps for a server; an empty plan means that the truth equals the intent."""
    blocked = _blocked(intent, truth)
    if blocked is not None:
        return blocked
    if truth.place is None:
        return Plan(gone=True) if _deleting(intent) else Plan(steps=(Step("place"),), diffs=_all_missing())
    if truth.vm == "absent":
        return _when_absent(intent, truth)
    if truth.vm == "foreign":
        return _when_foreign(intent, truth)
    if truth.vm == "placeholder":
        return _wait("clone_running", "the VM is being made", 1.0)
    if truth.lock is not None:
        return _wait("locked", f"the VM is locked in Proxmox ({truth.lock})", 5.0, lock=truth.lock)
    if truth.foreign_task is not None:
        return _wait(
            "foreign_task", f"a task of somebody else is at work on the VM ({truth.foreign_task})", 3.0
        )
    return _deletion(truth) if _deleting(intent) else _upkeep(intent, truth)


def _blocked(intent: Intent, truth: ServerTruth) -> Plan | None:
    unsettled, failed = truth.unsettled, truth.failed
    if unsettled is not None:
        if _deleting(intent) and unsettled.step == "clone" and unsettled.running and unsettled.upid:
            return Plan(steps=(Step("stop_clone", {"upid": unsettled.upid}),))
        return _wait("task_running", unsettled.text, 1.0 if unsettled.running else 2.0, step=unsettled.step)
    if truth.clone_outcome == "failed" and truth.place is not None:
        why = failed.text if failed is not None else "the clone failed"
        return Plan(steps=(Step("burn", {"vmid": truth.place.vmid, "why": why}),))
    if failed is not None:
        message = Message(failed.code, f"Proxmox: {failed.text}", {"step": failed.step, "text": failed.text})
        if failed.passing:
            return Plan(wait=Wait(message, failed.delay, failed=True))
        return Plan(refusal=message, health="degraded", health_message=message)
    return None


def _when_absent(intent: Intent, truth: ServerTruth) -> Plan:
    assert truth.place is not None
    never_was = truth.clone_outcome in NEVER_CLONED
    if _deleting(intent):
        return Plan(gone=True)
    if never_was:
        return Plan(steps=(Step("clone", {"vmid": truth.place.vmid}),), diffs=_all_missing())
    sentence = (
        f"the VM {truth.place.vmid} that zone9 made is not there any more; it is not made again unasked"
    )
    message = Message("vm_missing", sentence, {"vmid": truth.place.vmid})
    return Plan(refusal=message, health="missing", health_message=message)


def _when_foreign(intent: Intent, truth: ServerTruth) -> Plan:
    assert truth.place is not None
    vmid = truth.place.vmid
    if truth.clone_outcome in NEVER_CLONED:
        return Plan(steps=(Step("burn", {"vmid": vmid, "why": "taken by somebody else"}),))
    message = Message(
        "identity_mismatch",
        f"VM {vmid} is not the machine that zone9 made (its uuid differs); nothing was written to it",
        {"vmid": vmid},
    )
    return Plan(refusal=message, health="degraded", health_message=message)


def _deletion(truth: ServerTruth) -> Plan:
    if truth.status == "running":
        step = Step("stop", effect=("status",))
        if (waiting := _asked_of_ha(step, truth)) is not None:
            return Plan(wait=waiting, diffs=_present())
        return Plan(steps=(step,), diffs=_present())
    if _resting(truth):
        return _wait("resting", "Proxmox is still cleaning up after the stop", REST_SECONDS)
    return Plan(steps=(Step("delete"),), diffs=_present())


def _upkeep(intent: Intent, truth: ServerTruth) -> Plan:
    assert truth.now is not None
    assert truth.after_restart is not None
    spec, running = intent.spec, truth.status == "running"
    asked = wanted(intent, truth)
    to_write = differences(asked, truth.after_restart, running=running)
    diffs = list(to_write)
    steps: list[Step] = []
    if to_write:
        values = {diff.field: diff.asked for diff in to_write}
        steps.append(Step("configure", values, _worst(to_write), tuple(values)))
    asked_disk = int(intent.resolved.get("disk_gib", 0)) * 1024**3
    if truth.disk_bytes is not None and truth.disk_bytes < asked_disk:
        diffs.append(FieldDiff("disk_bytes", asked_disk, truth.disk_bytes))
        steps.append(Step("resize", {"bytes": asked_disk}, effect=("disk_bytes",)))
    power, waiting = _power(spec, truth)
    if power is not None and waiting is None:
        waiting = _asked_of_ha(power, truth)
    if power is not None:
        diffs.append(FieldDiff("power", spec["power"], truth.status))
        steps.append(power)
    if steps and not (steps[0] is power and waiting is not None):
        return Plan(steps=tuple(steps), diffs=tuple(diffs))
    if waiting is not None:
        return Plan(wait=waiting, diffs=tuple(diffs))
    if running and (late := differences(asked, truth.now, running=True)):
        fields = ", ".join(diff.field for diff in late)
        message = Message(
            "needs_restart", f"written, but the running guest still has the old {fields}", {"fields": fields}
        )
        return Plan(wait=Wait(message, None, needs="restart"), diffs=tuple(late))
    return Plan()


def _power(spec: Mapping[str, Any], truth: ServerTruth) -> tuple[Step | None, Wait | None]:
    running = truth.status == "running"
    if spec["power"] == "off":
        if not running:
            return None, None
        if spec["stop"]["mode"] == "hard":
            return Step("stop", effect=("status",)), None
        return Step("shutdown", {"timeout": spec["stop"]["timeout"]}, effect=("status",)), None
    if running:
        if spec["restart_count"] > truth.restarts_done:
            return Step("restart", {"count": spec["restart_count"], "timeout": spec["stop"]["timeout"]}), None
        return None, None
    step = Step("start", {"restart_count": spec["restart_count"]}, effect=("status",))
    if truth.off_seconds is not None and truth.off_seconds < REST_SECONDS:
        return step, Wait(Message("resting", "Proxmox is still cleaning up after the stop"), REST_SECONDS)
    if truth.booted and spec["guest_shutdown"] == "accept" and truth.off_seconds is None:
        return Step("accept_shutdown"), None
    return step, None


def _asked_of_ha(step: Step, truth: ServerTruth) -> Wait | None:
    """Returns a wait where the HA manager has taken this very request and has not carried it out yet.

    A start or stop of a managed VM only changes what the manager is asked for; its task is over at once
    (pve-facts 6.2, ha).
    """
    if (
        not truth.ha_managed
        or truth.asked_power != step.name
        or truth.asked_power_seconds >= HA_GRACE_SECONDS
    ):
        return None
    message = Message(
        "ha_asked",
        f"the HA manager was asked for it and has not done it yet ({step.name})",
        {"step": step.name},
    )
    return Wait(message, 3.0)


def wanted(intent: Intent, truth: ServerTruth) -> Settings:
    """Returns the settings that the intent asks for; what others wrote beside ours is kept."""
    spec, resolved, place = intent.spec, intent.resolved, truth.place
    assert place is not None
    assert truth.after_restart is not None
    theirs = [tag for tag in truth.after_restart.tags if tag not in truth.tags_ours]
    return Settings(
        name=intent.name,
        cores=spec["cores"] or resolved["cores"],
        memory_mib=spec["memory_mib"] or resolved["memory_mib"],
        nics={
            f"net{number}": Nic(mac=nic["mac"], bridge=nic["bridge"], tag=nic["vlan"])
            for number, nic in enumerate(resolved["networks"])
        },
        ipconfig={f"ipconfig{number}": nic["ipconfig"] for number, nic in enumerate(resolved["networks"])},
        ssh_keys=resolved["ssh_keys"] or None,
        user=resolved["user"],
        nameserver=resolved["nameserver"],
        tags=tuple(sorted({*theirs, *spec["tags"]})),
        uuid=place.uuid,
        marker=f"zone9:{intent.id}:{place.nonce}",
    )


def differences(asked: Settings, read: Settings, *, running: bool) -> list[FieldDiff]:
    """Returns the fields of ours that differ. A key that was not asked for (no user, no keys) is not ours."""
    found = []
    for field in ("name", "cores", "memory_mib", "tags", "uuid", "marker"):
        one, other = getattr(asked, field), getattr(read, field)
        if one != other:
            found.append(FieldDiff(field, _plain(one), _plain(other), _class(field, running=running)))
    for field in ("ssh_keys", "user", "nameserver"):
        one, other = getattr(asked, field), getattr(read, field)
        if one is not None and one != other:
            found.append(FieldDiff(field, one, other))
    for key, nic in asked.nics.items():
        if read.nics.get(key) != nic:
            there = read.nics.get(key)
            found.append(FieldDiff(key, nic.model_dump(), there.model_dump() if there else None))
    for key, line in asked.ipconfig.items():
        if read.ipconfig.get(key) != line:
            found.append(FieldDiff(key, line, read.ipconfig.get(key)))
    return found


def _class(field: str, *, running: bool) -> ChangeClass:
    return ChangeClass.PENDING_RESTART if running and field not in HOT else ChangeClass.HOT


def _worst(diffs: list[FieldDiff]) -> ChangeClass:
    waits = any(diff.change is ChangeClass.PENDING_RESTART for diff in diffs)
    return ChangeClass.PENDING_RESTART if waits else ChangeClass.HOT


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _resting(truth: ServerTruth) -> bool:
    return truth.off_seconds is not None and truth.off_seconds < REST_SECONDS


def _wait(code: str, text: str, delay: float, **words: Any) -> Plan:
    return Plan(wait=Wait(Message(code, text, words), delay))


def _all_missing() -> tuple[FieldDiff, ...]:
    return (FieldDiff("vm", "present", "absent"),)


def _present() -> tuple[FieldDiff, ...]:
    return (FieldDiff("vm", "absent", "present"),)


def _deleting(intent: Intent) -> bool:
    return intent.phase is Phase.DELETING
