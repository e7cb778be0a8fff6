"""The one loop that serves every product: level-triggered, and without any input about what changed.

    load newest intent -> observe -> plan -> nothing to do: record applied, stop
                                          -> else do the first step, read back, store the proof, go round again

A run is short. What must be waited for ends it: the job waits, a time is written down, and nothing holds a
row, a slot or a lock. An exception that is not one of ours leaves everything as it is for the next run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import structlog

from zone9.base.backoff import delay as backoff
from zone9.base.backoff import jittered
from zone9.base.errors import Later, Never, Problem
from zone9.model import drift
from zone9.model.facts import Message
from zone9.model.plans import Plan, Step
from zone9.model.ports import Product
from zone9.model.states import Phase
from zone9.pve.errors import Denied, Unauthenticated
from zone9.reconcile import verdicts
from zone9.reconcile.children import Children, waiting_for
from zone9.reconcile.work import Drivers, LoopWork
from zone9.store import runs
from zone9.store.runs import FenceLost, Run, RunStore
from zone9.store.writes import LeaseTaken

log = structlog.get_logger("zone9.reconcile")

ROUNDS = 60  # a run that goes round more often than this has a plan that never ends
READ_BACKS = (0.0, 0.1, 0.3, 1.0, 2.0)  # seconds: Proxmox's own lag between a task's end and what it shows


@dataclass(frozen=True, slots=True)
class Measured:
    """Is one look: what was read, when it began, and what follows from it."""

    at: datetime
    truth: Any
    plan: Plan


class Loop:
    """Runs the loop for one resource at a time; a process may hold many of them at once."""

    def __init__(
        self,
        store: RunStore,
        registry: Mapping[str, Product],
        drivers: Drivers,
        children: Children,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.store = store
        self.registry = registry
        self.drivers = drivers
        self.children = children
        self._sleep = sleep

    async def run(self, resource: str) -> None:
        """Brings a resource as near to its newest intent as can be without waiting."""
        try:
            run = await self.store.begin(resource)
            while run is not None and not await self._until_concluded(run):
                run = await self.store.refresh(run)
        except FenceLost:
            log.info("run was taken over", resource=resource)

    async def _until_concluded(self, run: Run) -> bool:
        """Goes round until there is something to conclude; False when the intent or a wake-up is newer."""
        product = self.registry[run.intent.kind]
        if not product.outside:
            return True  # it exists nowhere but here: there is nothing to look at
        work = LoopWork(self.store, self.drivers, run)
        bound = log.bind(resource=run.intent.id, job=run.job, version=run.intent.version)
        measured: Measured | None = None
        try:
            done: Step | None = None
            for _round in range(ROUNDS):
                measured = None
                measured = await self._measure(product, run, work)
                plan = measured.plan
                if done is not None and plan.steps and repeats(done, plan.steps[0]):
                    measured = await self._read_back(product, run, work, done)
                    plan = measured.plan
                if (parts := await self._parts(run, work, plan)) is not None:
                    return await self._conclude(product, work.run, work, replace(measured, plan=parts))
                if not plan.steps or run.intent.given_up_version == run.intent.version:
                    return await self._conclude(product, work.run, work, measured)
                step = plan.steps[0]
                bound.info("step", step=step.name, job=run.job)
                work.begin(job_kind(run), step)
                try:
                    await product.apply(step, run.intent, measured.truth, work)
                except Exception:
                    await work.begun()  # also a fault of ours is to be said on a job
                    raise
                await work.begun()
                done = step
            raise Never("the plan does not come to an end", code="endless_plan")
        except FenceLost:
            raise
        except Later as error:
            return await self._come_back(product, work.run, measured, error)
        except Never as error:
            bound.warning("given up", code=error.code, why=error.internal)
            return await self._give_up(product, work.run, measured, error)
        except Exception as error:  # noqa: BLE001 - the job must say it, whatever it is
            # A fault of ours: it is said on the job, and tried again like any other that may pass.
            bound.exception("fault of our own")
            ours = Later(
                "zone9 has a fault here; its log says more", code="internal_error", internal=repr(error)
            )
            return await self._come_back(product, work.run, measured, ours)

    async def _parts(self, run: Run, work: LoopWork, plan: Plan) -> Plan | None:
        """Brings the children to what the plan wants; returns a plan that waits for them where nothing else is to do.

        A plan that is refused or waits for something else leaves them alone; a deletion removes them first.
        """
        if not (plan.children or work.children) or plan.refusal is not None or plan.wait is not None:
            return None
        there = await self.children.sync(self.store, run, plan.children)
        if plan.steps:
            return None
        wait = waiting_for(run.intent, plan.children, there)
        if wait is None:
            wanting = next((one for one in there if one.health not in {"ok", "unknown"}), None)
            if wanting is None:
                return None
            message = Message(
                "child_wanting", f"its part {wanting.name} is {wanting.health}", {"name": wanting.name}
            )
            return replace(plan, health="degraded", health_message=message)
        return replace(plan, wait=wait, gone=False)

    async def _measure(self, product: Product, run: Run, work: LoopWork) -> Measured:
        at = await work.look()
        truth = await product.observe(run.intent, work)
        document, digest = product.proof_of(truth)
        await work.flush(document, digest, at)
        plan = drift.mark(run.intent, product.plan(run.intent, truth), work.evidence)
        opened, closed = drift.opened(plan, work.evidence), drift.closed(plan, work.evidence)
        if opened or closed:
            await self.store.keep_drift(run, opened, closed, at)
        return Measured(at, truth, plan)

    async def _read_back(self, product: Product, run: Run, work: LoopWork, done: Step) -> Measured:
        """Looks again a few times: a step that is wanted once more after its task said OK did nothing."""
        for pause in READ_BACKS:
            await self._sleep(pause)
            measured = await self._measure(product, run, work)
            if not measured.plan.steps or not repeats(done, measured.plan.steps[0]):
                return measured
        differing = ", ".join(
            f"{diff.field}: asked {diff.asked}, read {diff.read}" for diff in measured.plan.diffs
        )
        raise ReadBackDiffers(
            f"Proxmox said the step {done.name} was done, but what was read back differs ({differing})",
            step=done.name,
            diff=differing,
            measured=measured,
        )

    # -- endings -------------------------------------------------------------------------------------

    async def _conclude(self, product: Product, run: Run, work: LoopWork, measured: Measured) -> bool:
        plan, intent = measured.plan, run.intent
        verdict = verdicts.judge(intent, plan, measured.at, product.witness(intent))
        observed = product.as_observed(measured.truth)
        if plan.gone:
            return await self.store.conclude(
                run, verdict, observed=observed, job_status="succeeded", delay=None, gone=True, left=plan.left
            )
        if plan.refusal is not None:
            return await self.store.conclude(
                run,
                verdict,
                observed=observed,
                job_status="failed",
                error=plan.refusal,
                delay=jittered(product.budget_seconds * 0.6),
                given_up=not plan.standing,
            )
        if plan.wait is not None:
            wait = plan.wait
            regular = jittered(product.budget_seconds * 0.6)
            pause = backoff(run.failures) if wait.failed else regular
            return await self.store.conclude(
                run,
                verdict,
                observed=observed,
                job_status="waiting",
                needs=wait.needs,
                error=wait.message,
                delay=pause if wait.delay is None else max(wait.delay, pause if wait.failed else 0.0),
                failed=wait.failed,
            )
        if intent.given_up_version == intent.version and plan.steps:
            return await self.store.conclude(
                run, verdict, observed=observed, job_status=None, delay=jittered(product.budget_seconds * 0.6)
            )
        return await self.store.conclude(
            run,
            verdict,
            observed=observed,
            job_status="succeeded",
            delay=jittered(product.budget_seconds * 0.6),
            values=plan.values,
        )

    async def _come_back(self, product: Product, run: Run, measured: Measured | None, error: Later) -> bool:
        """A passing fault: the job waits, and somebody comes back; without end, at most ten minutes apart."""
        pause = backoff(run.failures) if error.delay is None else error.delay
        message = message_of(error)
        verdict = observed = None
        if measured is not None:
            verdict = verdicts.in_flight(
                run.intent, measured.plan, measured.at, product.witness(run.intent), message
            )
            observed = product.as_observed(measured.truth)
        if isinstance(error, Denied | Unauthenticated):
            await self.store.wake_region(run.intent.id)
        log.info("comes back later", resource=run.intent.id, code=error.code, why=error.internal, delay=pause)
        return await self.store.conclude(
            run,
            verdict,
            observed=observed,
            job_status="waiting",
            error=message,
            delay=pause,
            failed=True,
            waiting_for=error.lease if isinstance(error, LeaseTaken) else None,
        )

    async def _give_up(self, product: Product, run: Run, measured: Measured | None, error: Never) -> bool:
        if isinstance(error, ReadBackDiffers):
            measured = error.measured
        at = measured.at if measured is not None else await runs.now(self.store.database)
        message = message_of(error)
        plan = measured.plan if measured is not None else Plan()
        verdict = verdicts.given_up(run.intent, plan, at, product.witness(run.intent), message)
        return await self.store.conclude(
            run,
            verdict,
            observed=None if measured is None else product.as_observed(measured.truth),
            job_status="failed",
            error=message,
            delay=jittered(product.budget_seconds * 0.6),
            given_up=True,
        )


class ReadBackDiffers(Never):
    """Means that a task said OK and the read-back says otherwise: the applied version stays where it was."""

    code = "read_back_differs"

    def __init__(self, public: str, *, measured: Measured, **words: Any) -> None:
        super().__init__(public, **words)
        self.measured = measured


def repeats(done: Step, planned: Step) -> bool:
    """Tells whether a plan wants the very step that was just done."""
    return (done.name, dict(done.args)) == (planned.name, dict(planned.args))


def job_kind(run: Run) -> str:
    """Returns the kind of job that works for this run's phase."""
    return "delete" if run.intent.phase is Phase.DELETING else "apply"


def message_of(error: Problem) -> Message:
    """Returns an error's public half as a message that can be shown in either language."""
    return Message(
        error.code, error.public, {key: value for key, value in error.words.items() if key != "measured"}
    )
