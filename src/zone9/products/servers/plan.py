"""What to do about a server. Pure, and tested as tables: (intent, truth) -> the next steps, or why to wait.

The order is the safety: what is unknown is waited for, what is not ours is left alone, what has failed is
said; only then is anything written. A VM's identity is set and read back before its first start.
"""

from typing import Any

from zone9.model.facts import FieldDiff, Intent, Message
from zone9.model.plans import Plan, Step, Wait
from zone9.model.states import ChangeClass, Health, Phase
from zone9.products.servers.fields import traced
from zone9.products.servers.truth import ServerTruth
from zone9.products.servers.upkeep import asked_of_ha, resting, upkeep

TAKEN = "taken by somebody else"
RECREATED = "made anew on request"
LOOK_AGAIN_SECONDS = 5.0  # while an absence is not proven: half a pass


def plan(intent: Intent, truth: ServerTruth) -> Plan:
    """Returns the next steps for a server; an empty plan means that the truth equals the intent."""
    if _deleting(intent) and intent.spec.get("forget"):
        return Plan(gone=True, left=truth.place is not None and intent.health is not Health.MISSING)
    blocked = _blocked(intent, truth)
    if blocked is not None:
        return blocked
    if truth.place is None:
        return _unplaced(intent)
    if truth.vm == "absent":
        return _when_absent(intent, truth)
    if truth.vm == "foreign":
        return _when_foreign(intent, truth)
    if truth.vm == "placeholder":
        return _wait("clone_running", "the VM is being made", 1.0)
    if truth.twins:
        return _when_doubled(truth)
    if truth.lock is not None:
        return _wait("locked", f"the VM is locked in Proxmox ({truth.lock})", 5.0, lock=truth.lock)
    if truth.foreign_task is not None:
        return _wait(
            "foreign_task", f"a task of somebody else is at work on the VM ({truth.foreign_task})", 3.0
        )
    return _deletion(truth) if _deleting(intent) else upkeep(intent, truth)


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


def _unplaced(intent: Intent) -> Plan:
    if _deleting(intent):
        return Plan(gone=True)
    link = intent.spec.get("link")
    if link is None:
        return Plan(steps=(Step("place"),), diffs=_all_missing())
    return Plan(steps=_linking(link), diffs=_all_missing())


def _linking(link: Any) -> tuple[Step, ...]:
    """Taking a VM over writes nothing, but for an identity of its own where it has none."""
    step = Step("link", {"vmid": link["vmid"]})
    return (
        (step,) if link["uuid"] else (step, Step("configure", {"uuid": "new"}, ChangeClass.PENDING_RESTART))
    )


def _when_absent(intent: Intent, truth: ServerTruth) -> Plan:
    assert truth.place is not None
    vmid = truth.place.vmid
    if truth.never_was:
        if _deleting(intent):
            return Plan(gone=True)
        link = intent.spec.get("link")
        if link is not None and link["vmid"] != vmid:
            # Decided while another was about to be made.
            return Plan(steps=_linking(link)[:1], diffs=_all_missing())
        return Plan(steps=(Step("clone", {"vmid": vmid}),), diffs=_all_missing())
    if _deleting(intent) and truth.deleted_by_us:
        return Plan(gone=True)
    if truth.absence != "proven":
        why = truth.absence_why or "a second look and a complete pass of the region are due"
        sentence = f"VM {vmid} is not where it was; whether it is gone is not proven yet: {why}"
        message = Message("absence_unproven", sentence, {"vmid": vmid, "why": why})
        return Plan(wait=Wait(message, LOOK_AGAIN_SECONDS), diffs=_all_missing(), health="degraded")
    if _deleting(intent):
        return Plan(gone=True)
    if (step := _decided(intent, truth, vmid)) is not None:
        return Plan(steps=(step,), diffs=_all_missing())
    sentence = (
        f"the VM {vmid} that zone9 made is not there any more; it is not made again unasked: "
        "recreate it, forget it, or link it to another VM"
    )
    message = Message("vm_missing", sentence, {"vmid": vmid})
    return Plan(
        refusal=message, health="missing", health_message=message, diffs=_all_missing(), standing=True
    )


def _decided(intent: Intent, truth: ServerTruth, vmid: int) -> Step | None:
    """Returns what a person has decided about this loss of the VM; what was decided about another one is over."""
    if truth.lost_at is None or intent.spec.get("loss") != truth.lost_at:
        return None
    link = intent.spec.get("link")
    if link is not None and link["vmid"] != vmid:
        return _linking(link)[0]
    if intent.spec.get("recreate") == vmid:
        return Step("burn", {"vmid": vmid, "why": RECREATED})
    return None


def _when_foreign(intent: Intent, truth: ServerTruth) -> Plan:
    assert truth.place is not None
    vmid = truth.place.vmid
    if truth.never_was:
        return Plan(steps=(Step("burn", {"vmid": vmid, "why": TAKEN}),))
    if not _deleting(intent) and (step := _decided(intent, truth, vmid)) is not None:
        return Plan(steps=(step,), diffs=_all_missing())
    message = Message(
        "identity_mismatch",
        f"VM {vmid} is not the machine that zone9 made or took over (it has not its uuid); nothing was written to it: "
        "recreate it, forget it, or link it to another VM",
        {"vmid": vmid},
    )
    return Plan(
        refusal=message, health="degraded", health_message=message, diffs=_all_missing(), standing=True
    )


def _when_doubled(truth: ServerTruth) -> Plan:
    assert truth.place is not None
    others = ", ".join(str(vmid) for vmid in truth.twins)
    message = Message(
        "duplicate",
        f"VM {others} has the same identity as VM {truth.place.vmid}; nothing is written to either. "
        "Delete one in Proxmox, or give it a uuid of its own",
        {"vmid": truth.place.vmid, "others": others},
    )
    return Plan(wait=Wait(message, None, needs="decision"), health="duplicate", health_message=message)


def _deletion(truth: ServerTruth) -> Plan:
    if truth.status == "running":
        step = Step("stop", effect=("status",))
        if (waiting := asked_of_ha(step, truth)) is not None:
            return Plan(wait=waiting, diffs=_present())
        return Plan(steps=(step,), diffs=_present())
    if (rest := resting(truth)) is not None:
        return Plan(wait=rest)
    return Plan(steps=(Step("delete"),), diffs=_present())


def _wait(code: str, text: str, delay: float, **words: Any) -> Plan:
    return Plan(wait=Wait(Message(code, text, words), delay))


def _all_missing() -> tuple[FieldDiff, ...]:
    return traced([FieldDiff("vm", "present", "absent", ChangeClass.NEVER)])


def _present() -> tuple[FieldDiff, ...]:
    return (FieldDiff("vm", "absent", "present"),)


def _deleting(intent: Intent) -> bool:
    return intent.phase is Phase.DELETING
