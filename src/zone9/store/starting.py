"""How a step is shown as begun: on its job, on its resource, and to whoever listens.

It happens in the transaction of whatever the step does first, so that what is shown and what is done agree.
"""

from dataclasses import dataclass

from zone9.base.ids import new_id
from zone9.store.database import Connection, as_json, row, run
from zone9.store.waking import emit


@dataclass(frozen=True, slots=True)
class Starting:
    """Is a step that is about to be done: what kind of job does it, and in which project."""

    kind: str
    step: str
    project: str | None


async def start(
    connection: Connection,
    starting: Starting,
    *,
    resource: str,
    fence: int,
    job: str | None,
    version: int,
) -> str:
    """Marks the job as running, at this step; opens one by `system` when truth changed and nobody had asked."""
    if job is None:
        job = new_id("job")
        await run(
            connection,
            """
            INSERT INTO jobs (id, kind, resource, project, intent_version, actor, attempt)
            VALUES (:id, :kind, :resource, :project, :version, 'system', :fence)
            """,
            id=job,
            kind=starting.kind,
            resource=resource,
            project=starting.project,
            version=version,
            fence=fence,
        )
    began = await _show(connection, job, starting.step)
    if began:
        await run(
            connection,
            """
            UPDATE resources SET convergence = CASE WHEN phase = 'deleting' THEN 'deleting' ELSE 'applying' END
            WHERE id = :id AND convergence <> 'applying'
            """,
            id=resource,
        )
        data: dict[str, object] = {"job": job, "status": "running"}
        await emit(connection, "job", project=starting.project, resource=resource, data=data)
    return job


async def _show(connection: Connection, job: str, step: str) -> bool:
    """Adds a line for the step, and ends the one before; the same step again is one line with its tries.

    Says whether the job was not running before.
    """
    shown = await row(
        connection,
        """
        UPDATE jobs SET status = 'running', needs = NULL, error = NULL, started_at = coalesce(started_at, z9_now()),
            steps = CASE
                WHEN steps -> -1 ->> 'step' = :step THEN jsonb_set(steps, '{-1}', (steps -> -1)
                    || jsonb_build_object('tries', coalesce((steps -> -1 ->> 'tries')::int, 1) + 1))
                WHEN jsonb_array_length(steps) > 0 THEN jsonb_set(steps, '{-1}', (steps -> -1) || '{"status": "done"}')
                    || jsonb_build_array(CAST(:line AS jsonb) || jsonb_build_object('at', z9_now()))
                ELSE jsonb_build_array(CAST(:line AS jsonb) || jsonb_build_object('at', z9_now())) END
        WHERE id = :id AND status IN ('queued', 'running', 'waiting')
        RETURNING (SELECT before.status FROM jobs AS before WHERE before.id = :id) AS was
        """,
        id=job,
        step=step,
        line=as_json({"step": step, "status": "running", "percent": None}),
    )
    return shown is not None and shown["was"] != "running"
