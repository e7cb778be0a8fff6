"""`verify`: a job that creates nothing, changes nothing, only looks, and keeps the list of what it asked.

It takes no lock and raises no fence, so it may run beside the loop; its verdict replaces only an older one.
"""

from collections.abc import Mapping

import structlog

from zone9.base.errors import Problem
from zone9.model import drift
from zone9.model.evidence import Evidence
from zone9.model.facts import Intent
from zone9.model.plans import Plan
from zone9.model.ports import Product
from zone9.reconcile import verdicts
from zone9.reconcile.loop import message_of
from zone9.reconcile.work import Drivers, MeasuringWork
from zone9.store import measures
from zone9.store.runs import Run, RunStore

log = structlog.get_logger("zone9.verify")


class Measuring:
    """Runs measuring jobs."""

    def __init__(self, store: RunStore, registry: Mapping[str, Product], drivers: Drivers) -> None:
        self.store = store
        self.registry = registry
        self.drivers = drivers

    async def run(self, job: str) -> None:
        """Measures once. What cannot be measured fails the job and leaves the old verdict to age."""
        begun = await measures.begin(self.store.database, job)
        if begun is None:
            return
        intent, product = begun, self.registry[begun.kind]
        work = MeasuringWork(self.store, self.drivers, Run(intent, 0, 0, job, 0))
        at = await work.look()
        try:
            truth = await product.observe(intent, work)
        except Problem as error:
            log.info("could not measure", job=job, resource=intent.id, why=error.internal)
            await measures.fail(self.store.database, job, message_of(error), work.reads)
            return
        plan = drift.mark(intent, product.plan(intent, truth), work.evidence)
        verdict = verdicts.judge(intent, plan, at, product.witness(intent))
        await measures.conclude(
            self.store.database,
            job,
            intent,
            verdict,
            product.as_observed(truth),
            work.reads,
            wake=_moved(intent, plan, work.evidence),
        )


def _moved(intent: Intent, plan: Plan, evidence: Evidence) -> bool:
    """Tells whether the loop has to look: the truth no longer equals what was applied, or does so again."""
    if drift.opened(plan, evidence) or drift.closed(plan, evidence):
        return True
    return bool(plan.steps) and intent.given_up_version != intent.version
