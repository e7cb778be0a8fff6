"""The loop's own store: what a run begins with, what it may write, and how it ends.

The single writer of truth and verdicts. Each method is one transaction; every one that writes compares the
run's fence first, so that a run that was taken over while it slept changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zone9.base.errors import Later, Never
from zone9.model.facts import FieldDiff, Intent, Message, Verdict
from zone9.model.ports import Resolved
from zone9.model.states import Convergence, Phase
from zone9.store import allocations, drifts
from zone9.store.database import Connection, Database, Row, as_json, row, rows, run
from zone9.store.endings import bury, end_job, store_verdict
from zone9.store.intents import load_for_change, needs_of, open_job, record_version, supersede
from zone9.store.rows import INTENT_COLUMNS, intent_of
from zone9.store.starting import Starting, start
from zone9.store.waking import wake
from zone9.store.writes import Writes, merge_facts

NET_SECONDS = 60.0
RUN_COLUMNS = f"{INTENT_COLUMNS}, fence, wake_seq, failures"


class FenceLost(Later):
    """Means that another run of this resource has begun since: this one must write nothing more."""

    code = "fence_lost"


@dataclass(frozen=True, slots=True)
class Run:
    """Is one run's view: the newest intent, the wake-up it has seen, the fence it holds, and its job."""

    intent: Intent
    fence: int
    wake_seq: int
    job: str | None
    failures: int


class RunStore(Writes):
    """Is everything that a run may do to the database."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)

    async def begin(self, resource: str) -> Run | None:
        """Takes the resource over: raises its fence and its job's attempt. None: it is deleted or unknown."""
        async with self.database.begin() as connection:
            taken = await row(
                connection,
                # The next time is the net below the run: whatever becomes of it, somebody looks again.
                f"""
                UPDATE resources SET fence = fence + 1, next_reconcile_at = z9_now() + make_interval(secs => :net)
                WHERE id = :id AND phase <> 'deleted' RETURNING {RUN_COLUMNS}
                """,
                id=resource,
                net=NET_SECONDS,
            )
            return None if taken is None else await self._run(connection, taken)

    async def refresh(self, run_: Run) -> Run:
        """Loads the newest intent and wake-up; jobs of older versions end `superseded`."""
        async with self.database.begin() as connection:
            found = await row(
                connection,
                f"SELECT {RUN_COLUMNS} FROM resources WHERE id = :id FOR UPDATE",
                id=run_.intent.id,
            )
            if found is None or found["fence"] != run_.fence:
                raise FenceLost("another run has taken over")
            return await self._run(connection, found)

    async def _run(self, connection: Connection, found: Row) -> Run:
        """Builds the view of a row that is held; jobs of older versions end, and this version's gets the fence."""
        intent, fence = intent_of(found), int(found["fence"])
        await supersede(connection, resource=intent.id, below=intent.version)
        job = await row(
            connection,
            """
            UPDATE jobs SET attempt = :fence WHERE id = (
                SELECT id FROM jobs WHERE resource = :id AND kind <> 'verify' AND intent_version = :version
                  AND status IN ('queued', 'running', 'waiting') ORDER BY id DESC LIMIT 1)
            RETURNING id
            """,
            id=intent.id,
            version=intent.version,
            fence=fence,
        )
        return Run(
            intent, fence, found["wake_seq"], None if job is None else str(job["id"]), found["failures"]
        )

    async def check_fence(self, resource: str, fence: int) -> None:
        """Raises FenceLost when another run has begun. No lock: it would end with this statement."""
        async with self.database.single() as connection:
            found = await row(connection, "SELECT fence FROM resources WHERE id = :id", id=resource)
        if found is None or found["fence"] != fence:
            raise FenceLost("another run has taken over")

    async def start_job(self, run_: Run, starting: Starting) -> str:
        """Shows a step as begun that writes nothing by itself; returns its job."""
        intent = run_.intent
        async with self.database.begin() as connection:
            await self.hold(connection, intent.id, run_.fence)
            return await start(
                connection,
                starting,
                resource=intent.id,
                fence=run_.fence,
                job=run_.job,
                version=intent.version,
            )

    async def record(self, resource: str, fence: int, facts: Mapping[str, Any]) -> None:
        """Merges facts in; a value of None stays as null."""
        await self.keep(resource, fence, facts, ())

    async def place(
        self, resource: str, fence: int, *, region: str, first: int, last: int, facts: Mapping[str, Any]
    ) -> int:
        """Takes a VMID and writes the placement down, in one transaction and before anything is sent."""
        async with self.database.begin() as connection:
            await self.hold(connection, resource, fence)
            vmid = await allocations.take_vmid(
                connection, region=region, resource=resource, first=first, last=last
            )
            await merge_facts(connection, resource, {**facts, "vmid": vmid})
            return vmid

    async def burn(self, resource: str, fence: int, *, region: str, vmid: int, why: str) -> None:
        """Burns the VMID and forgets the placement, so that the next plan makes a new one."""
        async with self.database.begin() as connection:
            await self.hold(connection, resource, fence)
            await allocations.burn_vmid(connection, region=region, vmid=vmid, why=why)
            await run(
                connection,
                """
                UPDATE resources SET facts = (facts - ARRAY['vmid', 'node', 'uuid', 'nonce', 'identified', 'absent_at',
                                                            'link_digest', 'tags_ours', 'lost_at'])
                    || jsonb_build_object('burnt', coalesce(facts -> 'burnt', '[]'::jsonb) || to_jsonb(CAST(:vmid AS int)))
                WHERE id = :id AND facts ->> 'vmid' = CAST(CAST(:vmid AS int) AS text)
                """,
                id=resource,
                vmid=vmid,
            )

    async def link(
        self, resource: str, fence: int, *, region: str, vmid: int, facts: Mapping[str, Any]
    ) -> None:
        """Writes down that a VM is this resource's; one that it had before is given up for good.

        Raises Never when another resource has it.
        """
        async with self.database.begin() as connection:
            await self.hold(connection, resource, fence)
            if not await allocations.claim_vmid(connection, region=region, vmid=vmid, resource=resource):
                raise Never(f"VM {vmid} belongs to another server", code="link_taken", vmid=vmid)
            fresh = {"absent_at": None, "lost_at": None, "tags_ours": [], **facts, "vmid": vmid}
            await merge_facts(connection, resource, fresh)

    async def keep_drift(
        self, run_: Run, opened: Sequence[FieldDiff], closed: Sequence[str], at: datetime
    ) -> None:
        """Writes down what a look found of drift."""
        async with self.database.begin() as connection:
            await self.hold(connection, run_.intent.id, run_.fence)
            await drifts.keep(connection, run_.intent, opened, closed, at)

    async def burn_foreign(self, resource: str, fence: int, *, region: str, vmids: tuple[int, ...]) -> None:
        """Burns ids of the range that are in use already and that zone9 never took."""
        async with self.database.begin() as connection:
            await self.hold(connection, resource, fence)
            await run(
                connection,
                """
                INSERT INTO vmids (region, vmid, state, why)
                SELECT :region, one, 'burnt', 'was there before' FROM unnest(CAST(:vmids AS int[])) AS one
                ON CONFLICT DO NOTHING
                """,
                region=region,
                vmids=list(vmids),
            )

    async def change_spec(
        self, resource: str, fence: int, patch: Mapping[str, Any], *, actor: str, cause: str
    ) -> None:
        """Makes a new version for `system` or `guest`, in the transaction that caused it; its job is opened too."""
        async with self.database.begin() as connection:
            await self.hold(connection, resource, fence)
            before = await load_for_change(connection, resource)
            version = await record_version(
                connection,
                before,
                id=resource,
                name=before.name,
                spec={**before.spec, **patch},
                resolved=Resolved(before.resolved, await needs_of(connection, resource)),
                phase=before.phase,
                actor=actor,
                cause=cause,
                applied=False,
            )
            await open_job(
                connection,
                kind="apply",
                resource=resource,
                project=before.project,
                version=version,
                actor=actor,
            )

    async def wake_region(self, resource: str) -> None:
        """Wakes the region that a resource is in: what it was refused may be the region's trouble."""
        async with self.database.begin() as connection:
            found = await rows(
                connection,
                """
                SELECT r.id FROM edges e JOIN resources r ON r.id = e.needs
                WHERE e.resource = :id AND r.kind = 'region' AND r.phase = 'live'
                """,
                id=resource,
            )
            await wake(connection, [str(one["id"]) for one in found])

    async def conclude(
        self,
        run_: Run,
        verdict: Verdict | None,
        *,
        observed: Mapping[str, Any] | None,
        job_status: str | None,
        needs: str | None = None,
        error: Message | None = None,
        delay: float | None,
        failed: bool = False,
        given_up: bool = False,
        waiting_for: str | None = None,
        gone: bool = False,
        left: bool = False,
        values: Mapping[str, Any] | None = None,
    ) -> bool:
        """Ends a run, all in one transaction; False when a wake-up came meanwhile, and nothing was written.

        A verdict replaces only one with an older (intent version, time of measurement), so that a slow green
        never lands on a fast red. No verdict: nothing could be measured, so the old one stands (and ages), and
        only `error` is shown beside it. `delay` is in seconds of the database's clock; None: nothing is due.
        `values` are the fields as they were read, kept when the verdict is that they are as asked.
        """
        async with self.database.begin() as connection:
            held = await self.hold(connection, run_.intent.id, run_.fence)
            if held["wake_seq"] != run_.wake_seq or held["intent_version"] != run_.intent.version:
                return False
            if verdict is not None:
                await store_verdict(connection, run_.intent, verdict, observed, values)
            elif error is not None:
                await run(
                    connection,
                    "UPDATE resources SET message = CAST(:message AS jsonb) WHERE id = :id",
                    id=run_.intent.id,
                    message=as_json(error.as_json()),
                )
            await run(
                connection,
                """
                UPDATE resources SET failures = CASE WHEN :failed THEN failures + 1 ELSE 0 END,
                    given_up_version = CASE WHEN :given_up THEN intent_version WHEN :applied THEN NULL
                                       ELSE given_up_version END,
                    waiting_for = CAST(:waiting_for AS text),
                    next_reconcile_at = CASE WHEN CAST(:delay AS float8) IS NULL THEN NULL
                                        ELSE z9_now() + make_interval(secs => CAST(:delay AS float8)) END
                WHERE id = :id
                """,
                id=run_.intent.id,
                failed=failed,
                given_up=given_up,
                applied=verdict is not None and verdict.convergence is Convergence.APPLIED,
                waiting_for=waiting_for,
                delay=delay,
            )
            if gone:
                await bury(connection, run_.intent, left=left)
            if run_.intent.owner is not None:
                # What its part has come to is news to a composite product.
                await wake(connection, [run_.intent.owner])
            if run_.job is not None and job_status is not None:
                await end_job(
                    connection, run_.job, run_.intent, job_status, needs=needs, error=error, verdict=verdict
                )
            return True


async def now(database: Database) -> datetime:
    """Returns the database's time: the only clock that decides."""
    async with database.begin() as connection:
        found = await row(connection, "SELECT z9_now() AS now")
        assert found is not None
        return found["now"]  # type: ignore[no-any-return]  # a driver value


__all__ = ["FenceLost", "Phase", "Run", "RunStore", "now", "store_verdict"]
