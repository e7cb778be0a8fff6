"""The single writer of intent: every change is a new version, kept for ever, with a job when something is left to do.

Callers are the API, `system` (what zone9 itself changes, with its cause) and `guest`. Nothing here knows a
product: what a spec means was checked before, what the catalogue said comes in as `Resolved`.
"""

from collections.abc import Mapping
from typing import Any

from zone9.base.errors import Refused
from zone9.base.ids import new_id
from zone9.model.facts import Intent
from zone9.model.ports import Resolved
from zone9.model.states import Phase
from zone9.store import drifts
from zone9.store.database import Connection, as_json, row, rows, run
from zone9.store.rows import INTENT_COLUMNS, intent_of
from zone9.store.waking import emit, wake


async def load_for_change(connection: Connection, resource: str) -> Intent:
    """Returns the newest intent and locks its row until the end of the transaction."""
    found = await row(
        connection,
        f"SELECT {INTENT_COLUMNS} FROM resources WHERE id = :id FOR UPDATE",
        id=resource,
    )
    if found is None or found["phase"] == Phase.DELETED:
        raise Refused("there is no such resource", code="not_found", status=404)
    return intent_of(found)


async def insert(
    connection: Connection,
    *,
    id: str,
    kind: str,
    project: str | None,
    name: str,
    spec: Mapping[str, Any],
) -> None:
    """Makes the row, still without what the catalogue says. Raises Refused when the name is taken."""
    made = await run(
        connection,
        """
        INSERT INTO resources (id, kind, project, name, spec) VALUES (:id, :kind, :project, :name, CAST(:spec AS jsonb))
        ON CONFLICT DO NOTHING
        """,
        id=id,
        kind=kind,
        project=project,
        name=name,
        spec=as_json(spec),
    )
    if not made:
        raise Refused(
            f"there is a {kind} named {name} already", code="name_taken", status=409, kind=kind, name=name
        )


async def record_version(
    connection: Connection,
    before: Intent | None,
    *,
    id: str,
    name: str,
    spec: Mapping[str, Any],
    resolved: Resolved,
    phase: Phase,
    actor: str,
    cause: str,
    applied: bool,
) -> int:
    """Stores a new version and its history; `applied` is for kinds that exist nowhere but here."""
    version = 1 if before is None else before.version + 1
    convergence = "deleting" if phase is Phase.DELETING else "applied" if applied else "pending"
    await run(
        connection,
        """
        UPDATE resources SET name = :name, spec = CAST(:spec AS jsonb), resolved = CAST(:resolved AS jsonb),
            intent_version = :version, phase = :phase, changed_at = z9_now(), failures = 0, given_up_version = NULL,
            convergence = :convergence, waiting_for = NULL,
            next_reconcile_at = CASE WHEN :applied THEN NULL ELSE z9_now() + interval '60 s' END,
            applied_version = CASE WHEN :applied THEN :version ELSE applied_version END,
            applied_at = CASE WHEN :applied THEN z9_now() ELSE applied_at END,
            health = CASE WHEN :applied THEN 'ok' ELSE health END,
            message = CASE WHEN :applied THEN NULL ELSE message END
        WHERE id = :id
        """,
        id=id,
        name=name,
        spec=as_json(dict(spec)),
        resolved=as_json(dict(resolved.facts)),
        version=version,
        phase=str(phase),
        convergence=convergence,
        applied=applied,
    )
    await run(
        connection,
        """
        INSERT INTO intent_history (resource, version, name, spec, resolved, phase, actor, cause)
        VALUES (:id, :version, :name, CAST(:spec AS jsonb), CAST(:resolved AS jsonb), :phase, :actor, :cause)
        """,
        id=id,
        version=version,
        name=name,
        spec=as_json(dict(spec)),
        resolved=as_json(dict(resolved.facts)),
        phase=str(phase),
        actor=actor,
        cause=cause,
    )
    if phase is Phase.LIVE:
        await run(connection, "DELETE FROM edges WHERE resource = :id", id=id)
        await run(
            connection,
            """
            INSERT INTO edges (resource, needs) SELECT :id, one FROM unnest(CAST(:needs AS text[])) AS one
            ON CONFLICT DO NOTHING
            """,
            id=id,
            needs=sorted(set(resolved.needs)),
        )
    return version


async def open_job(
    connection: Connection, *, kind: str, resource: str, project: str | None, version: int, actor: str
) -> str:
    """Opens a job for a version and wakes the resource; older open jobs of it end `superseded`."""
    await supersede(connection, resource=resource, below=version)
    job = new_id("job")
    await run(
        connection,
        """
        INSERT INTO jobs (id, kind, resource, project, intent_version, actor)
        VALUES (:id, :kind, :resource, :project, :version, :actor)
        """,
        id=job,
        kind=kind,
        resource=resource,
        project=project,
        version=version,
        actor=actor,
    )
    await emit(connection, "job", project=project, resource=resource, data={"job": job, "status": "queued"})
    await emit(connection, "intent", project=project, resource=resource, data={"intent_version": version})
    await wake(connection, [resource])
    return job


async def supersede(connection: Connection, *, resource: str, below: int) -> None:
    """Ends the open jobs of older versions: the worker goes straight to the newest."""
    ended = await rows(
        connection,
        """
        UPDATE jobs SET status = 'superseded', finished_at = z9_now()
        WHERE resource = :resource AND intent_version < :below AND status IN ('queued', 'running', 'waiting')
          AND kind <> 'verify'
        RETURNING id, project
        """,
        resource=resource,
        below=below,
    )
    for job in ended:
        await emit(
            connection,
            "job",
            project=job["project"],
            resource=resource,
            data={"job": job["id"], "status": "superseded"},
        )


async def open_job_of(connection: Connection, resource: str, version: int) -> str | None:
    """Returns the open job that is working on this version, if any."""
    found = await row(
        connection,
        """
        SELECT id FROM jobs WHERE resource = :resource AND intent_version = :version AND kind <> 'verify'
          AND status IN ('queued', 'running', 'waiting') ORDER BY id DESC LIMIT 1
        """,
        resource=resource,
        version=version,
    )
    return None if found is None else str(found["id"])


async def ask_again(connection: Connection, resource: str) -> None:
    """Lets a version that was given up be tried again, and a field that oscillated be set back again."""
    await drifts.count_anew(connection, resource)
    await run(
        connection,
        """
        UPDATE resources SET given_up_version = NULL, failures = 0,
            convergence = CASE WHEN phase = 'deleting' THEN 'deleting' ELSE 'pending' END
        WHERE id = :id
        """,
        id=resource,
    )


async def needs_of(connection: Connection, resource: str) -> tuple[str, ...]:
    """Returns what this resource stands on."""
    found = await rows(connection, "SELECT needs FROM edges WHERE resource = :id", id=resource)
    return tuple(str(one["needs"]) for one in found)


async def users_of(connection: Connection, resource: str) -> list[str]:
    """Returns the names of what still stands on this resource."""
    found = await rows(
        connection,
        """
        SELECT r.kind || ' ' || r.name AS name FROM edges e JOIN resources r ON r.id = e.resource
        WHERE e.needs = :id AND r.phase <> 'deleted' ORDER BY 1 LIMIT 5
        """,
        id=resource,
    )
    return [str(one["name"]) for one in found]


async def delete_at_once(connection: Connection, intent: Intent) -> None:
    """Ends the life of a kind that exists nowhere but here."""
    await run(
        connection,
        "UPDATE resources SET phase = 'deleted', deleted_at = z9_now(), next_reconcile_at = NULL WHERE id = :id",
        id=intent.id,
    )
    await run(connection, "DELETE FROM edges WHERE resource = :id", id=intent.id)
    await emit(connection, "deleted", project=intent.project, resource=intent.id, data={})
