"""Alarms: what an owner has to look at, until somebody says that it was seen."""

from zone9.base.errors import Refused
from zone9.base.ids import new_id
from zone9.model.asking import Scope
from zone9.model.facts import Message
from zone9.store import audit
from zone9.store.database import Connection, Row, as_json, row, rows, run
from zone9.store.waking import emit

SHOWN = """
SELECT a.id, a.kind, a.resource, r.kind AS resource_kind, r.name AS resource_name, p.name AS project, a.text, a.words,
       a.times, a.first_at, a.last_at, a.acknowledged_at, a.acknowledged_by
FROM alarms a JOIN resources r ON r.id = a.resource LEFT JOIN projects p ON p.id = a.project
"""


async def sound(connection: Connection, resource: str, message: Message) -> None:
    """Opens an alarm about a resource, or counts the open one of this kind up."""
    opened = await row(
        connection,
        """
        INSERT INTO alarms (id, kind, project, resource, text, words)
        SELECT :id, :kind, project, id, :text, CAST(:words AS jsonb) FROM resources WHERE id = :resource
        ON CONFLICT (resource, kind) WHERE acknowledged_at IS NULL
            DO UPDATE SET times = alarms.times + 1, last_at = z9_now(), words = excluded.words
        RETURNING id, project, times
        """,
        id=new_id("alm"),
        kind=message.code,
        resource=resource,
        text=message.text,
        words=as_json(dict(message.words)),
    )
    assert opened is not None, "an alarm is about a resource that is there"
    if opened["times"] == 1:
        data: dict[str, object] = {"alarm": opened["id"], "kind": message.code}
        await emit(connection, "alarm", project=opened["project"], resource=resource, data=data)


async def listed(
    connection: Connection, scope: Scope, *, below: str | None, limit: int, all_of_them: bool
) -> list[Row]:
    """Returns alarms, newest first: those that are open, or all. An administrator sees every project's."""
    return await rows(
        connection,
        f"""
        {SHOWN} WHERE (:everybody OR a.project = CAST(:project AS text)) AND (:closed OR a.acknowledged_at IS NULL)
          AND (CAST(:below AS text) IS NULL OR a.id < :below) ORDER BY a.id DESC LIMIT :limit
        """,
        everybody=scope.may("admin"),
        project=scope.project,
        closed=all_of_them,
        below=below,
        limit=limit,
    )


async def acknowledge(connection: Connection, scope: Scope, alarm: str) -> Row:
    """Notes who has seen it; a second time changes nothing. Raises Refused (404)."""
    mine = "(:everybody OR project = CAST(:project AS text))"
    values = {"id": alarm, "everybody": scope.may("admin"), "project": scope.project}
    closed = await run(
        connection,
        f"""
        UPDATE alarms SET acknowledged_at = z9_now(), acknowledged_by = :actor
        WHERE id = :id AND acknowledged_at IS NULL AND {mine}
        """,
        actor=scope.actor,
        **values,
    )
    found = await row(
        connection, f"{SHOWN} WHERE a.id = :id AND {mine.replace('project =', 'a.project =')}", **values
    )
    if found is None:
        raise Refused(f"there is no alarm {alarm}", code="not_found", status=404, kind="alarm", ref=alarm)
    if closed:
        await emit(connection, "alarm", project=None, resource=found["resource"], data={"alarm": alarm})
        await audit.append(
            connection,
            actor=scope.actor,
            action="acknowledge",
            kind="alarm",
            name=alarm,
            resource=found["resource"],
        )
    return found
