"""What became of a write whose outcome is not known: found out, never assumed, and never sent again meanwhile.

With a task id the task says it. Without one (the answer was lost, or the process died between sending and
writing down) the task is searched for; when none can be found for `settle_seconds`, longer than Proxmox's own proxy
would hold a request, the write is known not to have been applied.
"""

from dataclasses import dataclass

from zone9.base.errors import Later
from zone9.model.facts import WriteRecord
from zone9.model.ports import Work
from zone9.products.servers.truth import Failed, Place, Unsettled
from zone9.pve import tasks
from zone9.pve.driver import RegionDriver
from zone9.pve.vm import Absent, Placeholder, read_vm

SKEW_ALLOWANCE = 5
POWER_STEPS = ("start", "stop", "shutdown", "restart")

TASK_TYPES = {
    "clone": "qmclone",
    "start": "qmstart",
    "stop": "qmstop",
    "shutdown": "qmshutdown",
    "restart": "qmreboot",
    "resize": "resize",
    "delete": "qmdestroy",
    "configure": "qmconfig",
}


@dataclass
class Outcome:
    """Is what settling found: at most one write of a resource is open at a time."""

    unsettled: Unsettled | None = None
    failed: Failed | None = None
    clone: str | None = None
    restarts: int = 0
    powered_off: bool = False
    power: str | None = None


async def settle_open(driver: RegionDriver, work: Work, place: Place) -> Outcome:
    """Looks at every open write record and settles those whose outcome can be known."""
    outcome = Outcome()
    for write in work.open_writes:
        if write.upid is not None:
            await _by_task(driver, work, write, write.upid, outcome)
        elif write.step == "clone":
            await _lost_clone(driver, work, write, place, outcome)
        elif (upid := await _search(driver, work, write)) is not None:
            await work.sent(write, upid)
            await _by_task(driver, work, write, upid, outcome)
        elif write.step == "configure" and not write.request.get("task"):
            # A late arrival is refused by its digest, so the read-back alone decides.
            work.settle(write, "replaced")
        elif write.age_seconds < driver.settle_seconds:
            text = f"the outcome of {write.step} is not known yet; its task is searched for"
            outcome.unsettled = Unsettled(step=write.step, text=text)
        else:
            work.settle(write, "not_applied")
    return outcome


async def _by_task(driver: RegionDriver, work: Work, write: WriteRecord, upid: str, outcome: Outcome) -> None:
    result = work.receipts.get(upid) or await tasks.task_status(driver.client, upid)
    if result.status == "running":
        outcome.unsettled = Unsettled(
            step=write.step, upid=upid, running=True, text=f"Proxmox is at work: {TASK_TYPES.get(write.step)}"
        )
        return
    if result.ok:
        if result.warnings:
            await work.note(f"{write.step}: {result.exitstatus}: {' | '.join(result.log_tail[-5:])}")
        _settle(work, write, "done", result.exitstatus, outcome)
        return
    error = result.error
    assert error is not None
    outcome.failed = Failed(
        step=write.step,
        code=error.code,
        text=result.exitstatus or "",
        passing=isinstance(error, Later),
        delay=error.delay if isinstance(error, Later) else None,
    )
    _settle(work, write, "failed", result.exitstatus, outcome)


def _settle(work: Work, write: WriteRecord, what: str, exit_text: str | None, outcome: Outcome) -> None:
    work.settle(write, what, exit_text)
    if what == "done" and write.step in POWER_STEPS:
        outcome.power = write.step
    if write.step == "clone":
        outcome.clone = what
    elif what == "done" and write.step in {"stop", "shutdown"}:
        outcome.powered_off = True
    elif what == "done" and write.step == "restart":
        outcome.restarts = int(write.request.get("count", 0))
        outcome.powered_off = True


async def _search(driver: RegionDriver, work: Work, write: WriteRecord) -> str | None:
    """Finds the task of a write whose answer was lost: ours, of its type, on this VM, begun since."""
    kind = TASK_TYPES.get(write.step)
    if kind is None:
        return None
    rows = await tasks.find(
        driver.client,
        write.node,
        since=_since(driver, write),
        typefilter=kind,
        vmid=int(write.target),
        user=driver.token_id,
    )
    known = work.last_write(write.step)
    if known is not None and known.upid is not None:
        # A task of an earlier write of the same step, a moment ago, is not this one's.
        before = tasks.Upid.parse(known.upid)
        rows = tuple(
            row for row in rows if row.upid.text != before.text and row.upid.starttime >= before.starttime
        )
    return rows[-1].upid.text if rows else None


async def _lost_clone(
    driver: RegionDriver, work: Work, write: WriteRecord, place: Place, outcome: Outcome
) -> None:
    """A clone's task is filed under its template, so several may look alike: the VMID and the nonce decide.

    Where nothing is there, and a clone of ours has ended meanwhile, it may have been this one and its VM is gone again:
    its number counts as used.
    """
    if write.target != str(place.vmid):
        work.settle(write, "not_applied")
        return
    reading = await read_vm(driver.client, place.node, place.vmid)
    clones = await tasks.find(
        driver.client,
        place.template_node,
        since=_since(driver, write),
        typefilter="qmclone",
        vmid=place.template,
        user=driver.token_id,
    )
    cloning = [row for row in clones if row.running]
    waiting = Unsettled(
        step="clone", running=bool(cloning), text="the clone's answer was lost; the VM is looked for"
    )
    if isinstance(reading, Absent):
        if cloning or write.age_seconds < driver.settle_seconds:
            outcome.unsettled = waiting
        elif clones:
            _settle(work, write, "failed", "the clone's answer was lost, and its VM is not there", outcome)
        else:
            _settle(work, write, "not_applied", None, outcome)
    elif isinstance(reading, Placeholder):
        if cloning or write.age_seconds < driver.settle_seconds:
            outcome.unsettled = waiting
        else:
            _settle(work, write, "failed", "the clone was left unfinished", outcome)
    elif not (reading.marker or "").endswith(f":{place.nonce}"):
        _settle(work, write, "refused", "the id is taken by somebody else", outcome)
    elif reading.lock == "clone":
        if cloning or write.age_seconds < driver.settle_seconds:
            outcome.unsettled = waiting
        else:
            _settle(work, write, "failed", "the clone was left unfinished", outcome)
    else:
        _settle(work, write, "done", None, outcome)


def _since(driver: RegionDriver, write: WriteRecord) -> int:
    """Returns when the write was opened, by the node's clock, with room for whole seconds.

    The age is by the database's clock alone and "now" by the node's: no two clocks are ever mixed.
    """
    return int(driver.client.node_now() - write.age_seconds) - SKEW_ALLOWANCE
