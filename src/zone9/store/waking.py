"""Waking a resource: raise `wake_seq` and defer a fresh, short run, in the caller's own transaction.

A run may end only if `wake_seq` is what it was when it began, so a wake-up is never lost. Arguments of a task
are ids alone. Tasks never carry a time: an older scheduled task would block every newer one with its lock.
"""

from collections.abc import Iterable

from zone9.store.database import Connection, as_json, rows, run

RECONCILE = "zone9.reconcile"
VERIFY = "zone9.verify"
QUEUE = "zone9"

DEFER = """
SELECT procrastinate_defer_jobs_v1(ARRAY(
    SELECT ROW(:queue, :task, 0, CASE WHEN :locked THEN :prefix || one END, NULL,
               jsonb_build_object(CAST(:name AS text), one), NULL)::procrastinate_job_to_defer_v1
    FROM unnest(CAST(:ids AS text[])) AS one
    WHERE NOT :locked OR NOT EXISTS (SELECT FROM procrastinate_jobs AS waiting
                                     WHERE waiting.lock = :prefix || one AND waiting.status = 'todo')))
"""


async def defer_reconcile(connection: Connection, ids: Iterable[str]) -> None:
    """Defers one run for each resource; `lock` gives each resource one running task at a time.

    Where a task is waiting already, that one will see what is new. To be safe the caller has raised `wake_seq` in
    this transaction: a run that ended before that had taken its task out of the queue, and any later one sees it.
    """
    if listed := list(ids):
        await rows(
            connection,
            DEFER,
            queue=QUEUE,
            task=RECONCILE,
            locked=True,
            prefix="resource:",
            name="resource",
            ids=listed,
        )


async def defer_verify(connection: Connection, job: str) -> None:
    """Defers a measuring job: it takes no lock of the resource, since it only looks."""
    await rows(connection, DEFER, queue=QUEUE, task=VERIFY, locked=False, prefix="", name="job", ids=[job])


async def wake(connection: Connection, ids: Iterable[str]) -> None:
    """Wakes resources: whoever is in the middle of a run goes round once more, all others start one."""
    if listed := sorted(set(ids)):
        await run(
            connection,
            "UPDATE resources SET wake_seq = wake_seq + 1 WHERE id = ANY(CAST(:ids AS text[]))",
            ids=listed,
        )
        await defer_reconcile(connection, listed)


async def claim_due(connection: Connection, *, limit: int = 200, ahead_seconds: float = 60.0) -> list[str]:
    """Claims what is due and defers it; moving the time in the same transaction keeps others from doing so too.

    `SKIP LOCKED` lets several sweepers share the work.
    """
    due = await rows(
        connection,
        """
        UPDATE resources SET next_reconcile_at = z9_now() + make_interval(secs => :ahead), wake_seq = wake_seq + 1
        WHERE id IN (SELECT id FROM resources
                     WHERE phase <> 'deleted' AND next_reconcile_at IS NOT NULL AND next_reconcile_at <= z9_now()
                     ORDER BY next_reconcile_at LIMIT :limit FOR UPDATE SKIP LOCKED)
        RETURNING id
        """,
        ahead=ahead_seconds,
        limit=limit,
    )
    ids = [str(one["id"]) for one in due]
    await defer_reconcile(connection, ids)
    return ids


async def emit(
    connection: Connection,
    kind: str,
    *,
    project: str | None,
    resource: str | None,
    data: dict[str, object],
) -> None:
    """Appends to the change sequence; listeners get an empty notification and read the rows themselves."""
    await run(
        connection,
        """
        WITH appended AS (
            INSERT INTO events (kind, project, resource, data) VALUES (:kind, :project, :resource, CAST(:data AS jsonb)))
        SELECT pg_notify('z9_events', '')
        """,
        kind=kind,
        project=project,
        resource=resource,
        data=as_json(data),
    )
