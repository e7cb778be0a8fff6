"""Projects: what every user resource belongs to. There is always one named `default`."""

from collections.abc import Mapping
from typing import Any

from zone9.base.errors import Refused
from zone9.base.ids import new_id
from zone9.store import audit
from zone9.store.database import Connection, Row, as_json, row, rows, run
from zone9.store.waking import emit

DEFAULT = "default"


async def ensure_default(connection: Connection) -> str:
    """Returns the id of the default project, and makes it at first start."""
    await run(
        connection,
        "INSERT INTO projects (id, name) VALUES (:id, :name) ON CONFLICT (name) DO NOTHING",
        id=new_id("prj"),
        name=DEFAULT,
    )
    found = await find(connection, DEFAULT)
    assert found is not None
    return str(found["id"])


async def find(connection: Connection, ref: str) -> Row | None:
    """Returns a project by name or id."""
    return await row(
        connection,
        "SELECT id, name, quota, created_at FROM projects WHERE name = :ref OR id = :ref "
        "ORDER BY (id = :ref) DESC LIMIT 1",
        ref=ref,
    )


async def create(connection: Connection, name: str, quota: Mapping[str, Any], *, actor: str) -> Row:
    """Raises Refused when the name is taken."""
    made = await row(
        connection,
        """
        INSERT INTO projects (id, name, quota) VALUES (:id, :name, CAST(:quota AS jsonb))
        ON CONFLICT (name) DO NOTHING RETURNING id, name, quota, created_at
        """,
        id=new_id("prj"),
        name=name,
        quota=as_json(dict(quota)),
    )
    if made is None:
        raise Refused(
            f"there is a project named {name} already",
            code="name_taken",
            status=409,
            kind="project",
            name=name,
        )
    await emit(connection, "project", project=str(made["id"]), resource=None, data={"name": name})
    await audit.append(
        connection,
        actor=actor,
        action="create",
        kind="project",
        resource=str(made["id"]),
        name=name,
        project=str(made["id"]),
        quota=dict(quota),
    )
    return made


async def listed(connection: Connection, *, after: str | None, limit: int) -> list[Row]:
    """Returns projects by age, from after the given id."""
    return await rows(
        connection,
        """
        SELECT id, name, quota, created_at FROM projects
        WHERE id > CAST(:after AS text) OR CAST(:after AS text) IS NULL ORDER BY id LIMIT :limit
        """,
        after=after,
        limit=limit,
    )
