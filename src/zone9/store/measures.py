"""What a measuring job may write: its own row, and a verdict that replaces only an older one."""

from collections.abc import Mapping
from typing import Any

from zone9.model.facts import Intent, Message, Verdict
from zone9.store.database import Database, as_json, row, run
from zone9.store.rows import INTENT_COLUMNS, intent_of
from zone9.store.runs import store_verdict
from zone9.store.waking import emit, wake


async def begin(database: Database, job: str) -> Intent | None:
    """Marks the job as running and returns the newest intent; None when there is nothing to measure."""
    async with database.begin() as connection:
        found = await row(
            connection,
            """
            UPDATE jobs SET status = 'running', started_at = coalesce(started_at, z9_now()), attempt = attempt + 1
            WHERE id = :id AND kind = 'verify' AND status IN ('queued', 'running') RETURNING resource
            """,
            id=job,
        )
        if found is None:
            return None
        loaded = await row(
            connection, f"SELECT {INTENT_COLUMNS} FROM resources WHERE id = :id", id=found["resource"]
        )
        if loaded is None or loaded["phase"] == "deleted":
            await run(
                connection,
                "UPDATE jobs SET status = 'canceled', finished_at = z9_now() WHERE id = :id",
                id=job,
            )
            return None
        return intent_of(loaded)


async def fail(database: Database, job: str, error: Message, reads: list[str]) -> None:
    """Ends the job as failed: nothing was measured, so no verdict changes."""
    async with database.begin() as connection:
        ended = await row(
            connection,
            """
            UPDATE jobs SET status = 'failed', finished_at = z9_now(), error = CAST(:error AS jsonb),
                evidence = CAST(:evidence AS jsonb)
            WHERE id = :id AND status = 'running' RETURNING resource, project
            """,
            id=job,
            error=as_json(error.as_json()),
            evidence=as_json({"reads": reads}),
        )
        if ended is not None:
            data: dict[str, object] = {"job": job, "status": "failed"}
            await emit(connection, "job", project=ended["project"], resource=ended["resource"], data=data)


async def conclude(
    database: Database,
    job: str,
    intent: Intent,
    verdict: Verdict,
    observed: Mapping[str, Any],
    reads: list[str],
    *,
    wake: bool,
) -> None:
    """Stores the verdict (if none is younger) and ends the job with the calls that it made, all reads."""
    async with database.begin() as connection:
        await store_verdict(connection, intent, verdict, observed)
        evidence = {**verdict.as_json(), "reads": reads}
        await run(
            connection,
            """
            UPDATE jobs SET status = 'succeeded', finished_at = z9_now(), evidence = CAST(:evidence AS jsonb)
            WHERE id = :id AND status = 'running'
            """,
            id=job,
            evidence=as_json(evidence),
        )
        data: dict[str, object] = {"job": job, "status": "succeeded"}
        await emit(connection, "job", project=intent.project, resource=intent.id, data=data)
        if wake:
            await _wake(connection, [intent.id])


_wake = wake
