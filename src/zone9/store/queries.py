"""Reading for people: resources, their history and proofs, jobs. Nothing here writes.

Every query takes a scope: another project's rows do not exist for it. Lists go by id, which sorts by age, so a
page begins after the last id of the one before and nothing is skipped or shown twice. `now` is the database's
time, since the age of a reading is judged by that clock alone.
"""

from zone9.base.ids import is_id
from zone9.model.asking import Scope
from zone9.store.database import Connection, Row, row, rows

RESOURCE = """
SELECT r.id, r.kind, r.name, r.project, p.name AS project_name, r.spec, r.intent_version, r.applied_version, r.phase,
       r.owner, r.created_at, r.changed_at, r.deleted_at, r.applied_at, r.origin, r.observed, r.convergence, r.health,
       r.observed_intent_version, r.measured_at, r.witness, r.message, r.diffs, r.facts, z9_now() AS now
FROM resources r LEFT JOIN projects p ON p.id = r.project
"""
JOB = """
SELECT j.id, j.kind, j.resource, r.kind AS resource_kind, r.name AS resource_name, j.project, p.name AS project_name,
       j.intent_version, j.status, j.actor, j.needs, j.attempt, j.steps, j.notes, j.evidence, j.error, j.created_at,
       j.started_at, j.finished_at
FROM jobs j JOIN resources r ON r.id = j.resource LEFT JOIN projects p ON p.id = j.project
"""
MINE = "(r.project IS NULL OR r.project = CAST(:project AS text))"


async def resource(
    connection: Connection, scope: Scope, kind: str, prefix: str, ref: str, *, deleted: bool = False
) -> Row | None:
    """Returns one resource by name or id; a deleted one only by id, and only when asked for."""
    column = "id" if is_id(ref, prefix) else "name"
    living = "" if deleted and column == "id" else "AND r.phase <> 'deleted'"
    return await row(
        connection,
        f"{RESOURCE} WHERE r.kind = :kind AND r.{column} = :ref AND {MINE} {living}",
        kind=kind,
        ref=ref,
        project=scope.project,
    )


async def resources(
    connection: Connection, scope: Scope, kind: str, *, name: str | None, after: str | None, limit: int
) -> list[Row]:
    """Returns a page of one kind's living resources."""
    return await rows(
        connection,
        f"""
        {RESOURCE} WHERE r.kind = :kind AND r.phase <> 'deleted' AND {MINE}
          AND (CAST(:name AS text) IS NULL OR r.name = :name) AND (CAST(:after AS text) IS NULL OR r.id > :after)
        ORDER BY r.id LIMIT :limit
        """,
        kind=kind,
        project=scope.project,
        name=name,
        after=after,
        limit=limit,
    )


async def history(connection: Connection, resource_id: str, *, below: int | None, limit: int) -> list[Row]:
    """Returns versions of the intent, newest first, below the given one."""
    return await rows(
        connection,
        """
        SELECT version, name, spec, phase, actor, cause, at FROM intent_history
        WHERE resource = :id AND (CAST(:below AS bigint) IS NULL OR version < CAST(:below AS bigint))
        ORDER BY version DESC LIMIT :limit
        """,
        id=resource_id,
        below=below,
        limit=limit,
    )


async def proofs(connection: Connection, resource_id: str, *, below: str | None, limit: int) -> list[Row]:
    """Returns proofs, newest first, below the given id."""
    return await rows(
        connection,
        """
        SELECT id, job, intent_version, step, request, upid, exit_text, read_back, digest, read_at, at FROM proofs
        WHERE resource = :id AND (CAST(:below AS text) IS NULL OR id < :below) ORDER BY id DESC LIMIT :limit
        """,
        id=resource_id,
        below=below,
        limit=limit,
    )


async def job(connection: Connection, scope: Scope, job_id: str) -> Row | None:
    """Returns one job; a global resource's job is everybody's to read."""
    return await row(
        connection,
        f"{JOB} WHERE j.id = :id AND (j.project IS NULL OR j.project = CAST(:project AS text))",
        id=job_id,
        project=scope.project,
    )


async def jobs(
    connection: Connection,
    scope: Scope,
    *,
    resource_id: str | None,
    status: str | None,
    kind: str | None,
    below: str | None,
    limit: int,
) -> list[Row]:
    """Returns a page of jobs, newest first."""
    return await rows(
        connection,
        f"""
        {JOB} WHERE (j.project IS NULL OR j.project = CAST(:project AS text))
          AND (CAST(:resource AS text) IS NULL OR j.resource = :resource)
          AND (CAST(:status AS text) IS NULL OR j.status = :status)
          AND (CAST(:kind AS text) IS NULL OR j.kind = :kind)
          AND (CAST(:below AS text) IS NULL OR j.id < :below)
        ORDER BY j.id DESC LIMIT :limit
        """,
        project=scope.project,
        resource=resource_id,
        status=status,
        kind=kind,
        below=below,
        limit=limit,
    )
