"""The record of who asked for what. Versions of intents write themselves down (a trigger); all else comes here.

Entries are appended by the SQL function `z9_audit`, which holds a lock until the transaction ends: call it last.
"""

from typing import Any

from zone9.model.asking import Scope
from zone9.model.audit import Head
from zone9.store.database import Connection, Row, as_json, row, rows, run


async def append(connection: Connection, *, actor: str, action: str, **what: Any) -> None:
    """Appends an entry; no secret may be in it."""
    entry = as_json({"actor": actor, "action": action, **what})
    await run(connection, "SELECT z9_audit(CAST(:entry AS jsonb))", entry=entry)


async def head(connection: Connection) -> Head:
    """Returns the end of the chain."""
    found = await row(connection, "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
    return Head() if found is None else Head(int(found["seq"]), str(found["hash"]))


async def listed(
    connection: Connection, scope: Scope, *, after: int, limit: int, newest: bool = False
) -> list[Row]:
    """Returns entries by number, from after the given one, or the newest first; an owner sees the project's own."""
    order, compared = ("DESC", "(:after = 0 OR seq < :after)") if newest else ("ASC", "seq > :after")
    return await rows(
        connection,
        f"""
        SELECT seq, entry, hash FROM audit WHERE {compared} AND (:all OR project = :project)
        ORDER BY seq {order} LIMIT :limit
        """,
        after=after,
        all=scope.may("admin"),
        project=scope.project,
        limit=limit,
    )
