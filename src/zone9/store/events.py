"""Reading the change sequence without losing anything.

Numbers are drawn before transactions commit, and those commit out of order: whoever read number 10 while 9 was
still open would never see 9. So readers go by (transaction, number) and stop below the oldest transaction that
is still open (`pg_snapshot_xmin`): everything below it is final. The place of an event is
`e<epoch>-<transaction>-<number>`; after a restore the epoch differs, and an old place is refused.

Kept for seven days. Trimming always leaves the newest row, so that a place before the oldest row means that
something may have been missed, also when nothing has happened for weeks.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zone9.base.errors import Refused
from zone9.model.asking import Scope
from zone9.store.database import Connection, Database, row, rows, run

KEPT = "7 days"
PLACE = re.compile(r"e(\d{1,9})-(\d{1,19})-(\d{1,18})")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Is a place in the sequence: everything up to here was seen."""

    txid: int
    seq: int

    def text(self, epoch: int) -> str:
        return f"e{epoch}-{self.txid}-{self.seq}"


@dataclass(frozen=True, slots=True)
class Event:
    """Is one change, as a stream shows it."""

    place: Place
    kind: str
    project: str | None
    resource: str | None
    data: Mapping[str, Any]
    at: datetime


def parsed(text: str, epoch: int) -> Place:
    """Returns the place that a client names. Raises Refused (400, 410)."""
    found = PLACE.fullmatch(text.strip())
    if found is None:
        raise Refused("Last-Event-ID is not an id of this stream", code="bad_event_id", status=400)
    if int(found[1]) != epoch:
        raise too_old()
    return Place(min(int(found[2]), 2**63 - 1), int(found[3]))


def too_old() -> Refused:
    """Is the answer to a place of which zone9 no longer knows what came after it."""
    return Refused(
        "events after this id are no longer kept; load the resources again and follow from now",
        code="events_too_old",
        status=410,
    )


async def newest(connection: Connection) -> Place:
    """Returns the place from which a stream without history begins: all that is final now."""
    found = await row(
        connection,
        """
        SELECT txid::text AS txid, seq FROM events WHERE txid < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY events.txid DESC, seq DESC LIMIT 1
        """,
    )
    return Place(0, 0) if found is None else Place(int(found["txid"]), found["seq"])


async def check(connection: Connection, place: Place) -> None:
    """Raises Refused (410) when events after this place have been trimmed."""
    oldest = await row(
        connection,
        "SELECT txid::text AS txid, seq FROM events ORDER BY events.txid, seq LIMIT 1",
    )
    first = Place(0, 0) if oldest is None else Place(int(oldest["txid"]), oldest["seq"])
    if place < first and not (first.seq == 1 and place == Place(0, 0)):
        raise too_old()


async def read(
    connection: Connection, scope: Scope, after: Place, *, limit: int = 500
) -> tuple[list[Event], bool]:
    """Returns what came after a place and is final, and whether more waits for an open transaction to end."""
    found = await rows(
        connection,
        """
        SELECT txid::text AS tx, seq, kind, project, resource, data, at,
               txid < pg_snapshot_xmin(pg_current_snapshot()) AS final
        FROM events WHERE txid >= CAST(:tx AS xid8) AND (txid > CAST(:tx AS xid8) OR seq > :seq)
          AND (project IS NULL OR project = :project)
        ORDER BY events.txid, seq LIMIT :limit
        """,
        tx=str(after.txid),
        seq=after.seq,
        project=scope.project,
        limit=limit,
    )
    final = [
        Event(
            Place(int(one["tx"]), one["seq"]),
            one["kind"],
            one["project"],
            one["resource"],
            one["data"],
            one["at"],
        )
        for one in found
        if one["final"]
    ]
    return final, len(final) < len(found) or len(found) == limit


async def trim(database: Database) -> int:
    """Removes what is older than seven days, but never the newest row; says how many."""
    async with database.begin() as connection:
        return await run(
            connection,
            f"""
            DELETE FROM events WHERE at < z9_now() - interval '{KEPT}'
              AND seq <> (SELECT e.seq FROM events e ORDER BY e.txid DESC, e.seq DESC LIMIT 1)
            """,
        )
