"""What a run lends to a product: its store, its driver, and the one way to write to the world.

`write` keeps the order on which everything rests: commit a record; take the node's turn; read the fence and
the machine's identity again; send not more than a second after; keep the record open until somebody knows
what came of it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from zone9.base.errors import Later, Never, Problem
from zone9.model.evidence import Evidence
from zone9.model.facts import ChildState, Recorded, WriteRecord
from zone9.model.plans import Step
from zone9.model.ports import Permit
from zone9.pve.errors import HotplugProblem, NotConnected, UnknownOutcome
from zone9.store import runs
from zone9.store.runs import Run, RunStore
from zone9.store.starting import Starting
from zone9.store.writes import Settled

FRESH_SECONDS = 1.0
WANTING_SECONDS = 20.0  # as often as a wanting region looks at itself again


class Stale(Later):
    """Means that too much time passed between the last look and the send: nothing was sent."""

    code = "stale_permit"


class Drivers(Protocol):
    """Hands out a region's driver; `wiring` builds it from the region's intent and its sealed token."""

    async def of(self, region: str) -> Any: ...


class FencedPermit:
    """Is the right to send one write, for one second after it was confirmed."""

    def __init__(self, confirm: Callable[[], Awaitable[None]]) -> None:
        self._confirm = confirm
        self._confirmed_at: float | None = None

    async def confirm(self) -> None:
        began = time.monotonic()
        await self._confirm()
        self._confirmed_at = began

    def still_fresh(self) -> None:
        if self._confirmed_at is None or time.monotonic() - self._confirmed_at > FRESH_SECONDS:
            raise Stale("the look before the write is too old; nothing was sent", delay=0.2)


@dataclass
class LoopWork:
    """Is `model.ports.Work` for one run that may write."""

    store: RunStore
    drivers: Drivers
    run: Run
    settled: list[tuple[WriteRecord, str, str | None]] = field(default_factory=list)
    learnt: dict[str, Any] = field(default_factory=dict)
    receipts: dict[str, Any] = field(default_factory=dict)
    measuring: bool = False
    starting: Starting | None = None
    _recorded: Recorded | None = None
    _drivers: dict[str, Any] = field(default_factory=dict)

    async def driver(self, region: str, *, writing: bool = False) -> Any:
        if region not in self._drivers:
            self._drivers[region] = await self.drivers.of(region)
        driver = self._drivers[region]
        if writing and driver.wanting:
            raise Later(
                f"nothing is written to the region while it is wanting: {driver.wanting}",
                code="region_wanting",
                delay=WANTING_SECONDS,
                what=driver.wanting,
            )
        return driver

    async def look(self) -> datetime:
        """Begins a look: loads what is known of our own work; returns the database's time before the first read."""
        self._recorded = await self.store.recorded(self.run.intent.id)
        return self._recorded.at

    @property
    def at(self) -> datetime:
        assert self._recorded is not None, "a look begins with look()"
        return self._recorded.at

    @property
    def evidence(self) -> Evidence:
        assert self._recorded is not None, "a look begins with look()"
        return self._recorded.evidence

    @property
    def facts(self) -> Mapping[str, Any]:
        assert self._recorded is not None, "a look begins with look()"
        return self._recorded.facts

    @property
    def open_writes(self) -> tuple[WriteRecord, ...]:
        assert self._recorded is not None, "a look begins with look()"
        known = {write.id for write, _outcome, _text in self.settled}
        return tuple(write for write in self._recorded.open_writes if write.id not in known)

    @property
    def children(self) -> tuple[ChildState, ...]:
        assert self._recorded is not None, "a look begins with look()"
        return self._recorded.children

    def last_write(self, *steps: str) -> WriteRecord | None:
        assert self._recorded is not None, "a look begins with look()"
        found = [self._recorded.last[step] for step in steps if step in self._recorded.last]
        return min(found, key=lambda one: one.closed_age_seconds or 0.0, default=None)

    async def record(self, **facts: Any) -> None:
        await self.store.record(self.run.intent.id, self.run.fence, facts)

    def learn(self, **facts: Any) -> None:
        self.learnt.update(facts)

    async def sent(self, write: WriteRecord, upid: str) -> None:
        await self.store.write_sent(write.id, upid)

    def settle(self, write: WriteRecord, outcome: str, exit_text: str | None = None) -> None:
        self.settled.append((write, outcome, exit_text))

    async def flush(self, read_back: Mapping[str, Any], digest: str | None, read_at: datetime) -> None:
        """Keeps what this look learnt, and closes what is settled, each with the document read back after it."""
        if not self.settled and not self.learnt:
            return
        settlements = [
            (write, Settled(outcome, exit_text, read_back, digest, read_at))
            for write, outcome, exit_text in self.settled
        ]
        await self.store.keep(self.run.intent.id, self.run.fence, self.learnt, settlements)
        self.settled.clear()
        self.learnt.clear()

    def begin(self, kind: str, step: Step) -> None:
        """Says which step comes next; it is shown with the first thing that it writes down."""
        self.starting = Starting(kind, step.name, self.run.intent.project)

    async def begun(self) -> None:
        """Shows the step as begun if it was not shown yet."""
        if self.starting is not None:
            self._started(await self.store.start_job(self.run, self.starting))

    def _started(self, job: str | None) -> None:
        self.starting, self.run = None, replace(self.run, job=job)

    async def write(
        self,
        step: Step,
        *,
        target: str,
        node: str,
        request: Mapping[str, Any],
        send: Callable[[Permit], Awaitable[str | None]],
        confirm: Callable[[], Awaitable[None]],
        lease: tuple[str, int] | None = None,
    ) -> tuple[WriteRecord, str | None]:
        """Sends one write and returns its record with Proxmox's task id, if it answered with one.

        Raises what the driver raised; by then the record is closed when the outcome is known, and open when not.
        """
        intent = self.run.intent
        record = await self.store.open_write(
            resource=intent.id,
            fence=self.run.fence,
            job=self.run.job,
            version=intent.version,
            step=step.name,
            target=target,
            node=node,
            request=request,
            lease=lease,
            starting=self.starting,
        )
        self._started(record.job)

        async def confirmed() -> None:
            await confirm()
            await self.store.check_fence(intent.id, self.run.fence)

        try:
            upid = await send(FencedPermit(confirmed))
        except UnknownOutcome:
            raise
        except HotplugProblem as error:
            # Part of it was done and the rest is pending: the read-back says which.
            await self.store.note(self.run.job, error.internal)
            self.settle(record, "done", error.internal)
            return record, None
        except (NotConnected, Stale, runs.FenceLost) as error:
            await self.store.settle(record, Settled("not_sent", error.internal))
            raise
        except Problem as error:
            await self.store.settle(record, Settled("refused", error.internal))
            raise
        if upid is not None:
            await self.store.write_sent(record.id, upid)
        return record, upid

    async def place(self, *, region: str, first: int, last: int, facts: Mapping[str, Any]) -> int:
        return await self.store.place(
            self.run.intent.id, self.run.fence, region=region, first=first, last=last, facts=facts
        )

    async def burn(self, *, region: str, vmid: int, why: str) -> None:
        await self.store.burn(self.run.intent.id, self.run.fence, region=region, vmid=vmid, why=why)

    async def link(self, *, region: str, vmid: int, facts: Mapping[str, Any]) -> None:
        await self.store.link(self.run.intent.id, self.run.fence, region=region, vmid=vmid, facts=facts)

    async def burn_foreign(self, region: str, vmids: tuple[int, ...]) -> None:
        await self.store.burn_foreign(self.run.intent.id, self.run.fence, region=region, vmids=vmids)

    async def change_spec(self, patch: Mapping[str, Any], *, actor: str, cause: str) -> None:
        await self.begun()
        await self.store.change_spec(self.run.intent.id, self.run.fence, patch, actor=actor, cause=cause)

    async def note(self, text: str) -> None:
        await self.begun()
        await self.store.note(self.run.job, text)

    async def progress(self, percent: float | None) -> None:
        await self.begun()
        await self.store.progress(self.run.job, percent)


@dataclass
class MeasuringWork(LoopWork):
    """Is a `verify` job's work: it looks, and keeps a list of what it asked. Every way to write is shut."""

    measuring: bool = True
    reads: list[str] = field(default_factory=list)

    async def driver(self, region: str, *, writing: bool = False) -> Any:
        driver = await self.drivers.of(region)
        return driver.recording(lambda method, path: self.reads.append(f"{method} {path}"))

    async def record(self, **facts: Any) -> None:
        """Writes nothing down: facts are the loop's."""

    def learn(self, **facts: Any) -> None:
        """Keeps nothing: the loop does."""

    async def burn_foreign(self, region: str, vmids: tuple[int, ...]) -> None:
        """Burns nothing: the loop does."""

    async def link(self, *, region: str, vmid: int, facts: Mapping[str, Any]) -> None:
        raise Never("a measuring job takes nothing over", code="verify_writes_nothing")

    async def note(self, text: str) -> None:
        """Notes nothing: the job that wrote does."""

    async def sent(self, write: WriteRecord, upid: str) -> None:
        """Writes nothing down."""

    def settle(self, write: WriteRecord, outcome: str, exit_text: str | None = None) -> None:
        """Closes nothing: the loop does."""

    async def write(self, step: Step, **_: Any) -> tuple[WriteRecord, str | None]:
        raise Never("a measuring job writes nothing", code="verify_writes_nothing")
