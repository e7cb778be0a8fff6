"""What to do about a VM that is ours and free: its settings in one write, its disk, its power. Pure."""

from collections.abc import Mapping
from typing import Any

from zone9.model.facts import FieldDiff, Intent, Message
from zone9.model.plans import Plan, Step, Wait
from zone9.model.states import ChangeClass
from zone9.products.servers.fields import differences, traced, values, wanted
from zone9.products.servers.truth import ServerTruth

REST_SECONDS = 2.0  # between a stop and the next act: Proxmox's own clean-up holds the lock
HA_GRACE_SECONDS = 120.0  # the HA manager works in rounds of 10 s, and later while it fences a node


def upkeep(intent: Intent, truth: ServerTruth) -> Plan:
    """Returns what brings the VM to its intent; no steps and no wait: it is there."""
    assert truth.now is not None
    assert truth.after_restart is not None
    spec, running = intent.spec, truth.status == "running"
    asked = wanted(intent, truth)
    to_write = differences(asked, truth.after_restart, running=running)
    written = {diff.field for diff in to_write}
    late = differences(asked, truth.now, running=True) if running else []
    diffs = [*to_write, *(diff for diff in late if diff.field not in written)]
    steps: list[Step] = []
    if to_write:
        settings = {diff.field: diff.asked for diff in to_write}
        steps.append(Step("configure", settings, _worst(to_write), tuple(settings)))
    asked_disk = int(intent.resolved.get("disk_gib") or 0) * 1024**3
    if truth.disk_bytes is not None and truth.disk_bytes < asked_disk:
        diffs.append(FieldDiff("disk_bytes", asked_disk, truth.disk_bytes))
        steps.append(Step("resize", {"bytes": asked_disk}, effect=("disk_bytes",)))
    power, waiting = _power(spec, truth)
    if power is not None and waiting is None:
        waiting = asked_of_ha(power, truth)
    if power is not None:
        if power.name != "accept_shutdown":  # which makes what is read what is asked
            diffs.append(FieldDiff("power", spec["power"], truth.status))
        steps.append(power)
    known = Plan(diffs=traced(diffs), compared=True, values=values(truth))
    if steps and not (steps[0] is power and waiting is not None):
        return known.having(steps=tuple(steps))
    if waiting is not None:
        return known.having(wait=waiting)
    if late:
        fields = ", ".join(diff.field for diff in late)
        message = Message(
            "needs_restart", f"written, but the running guest still has the old {fields}", {"fields": fields}
        )
        return known.having(wait=Wait(message, None, needs="restart"))
    return known


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
    if (rest := resting(truth)) is not None:
        return step, rest
    if truth.booted and spec["guest_shutdown"] == "accept" and truth.off_seconds is None:
        return Step("accept_shutdown"), None
    return step, None


def resting(truth: ServerTruth) -> Wait | None:
    """Returns a wait while Proxmox may still be cleaning up after our own stop."""
    if truth.off_seconds is None or truth.off_seconds >= REST_SECONDS:
        return None
    return Wait(Message("resting", "Proxmox is still cleaning up after the stop"), REST_SECONDS)


def asked_of_ha(step: Step, truth: ServerTruth) -> Wait | None:
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


def _worst(diffs: list[FieldDiff]) -> ChangeClass:
    waits = any(diff.change is ChangeClass.PENDING_RESTART for diff in diffs)
    return ChangeClass.PENDING_RESTART if waits else ChangeClass.HOT
