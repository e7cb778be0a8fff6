"""The history of drift: one row for each time that a field was found changed from outside, and how that ended."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from zone9.model.facts import FieldDiff, Intent
from zone9.store.database import Connection, as_json, row, rows, run
from zone9.store.waking import emit

LATE = "1 hour"  # Proxmox's lists tell of an act within seconds; a pass may be late by its pauses


async def keep(
    connection: Connection, intent: Intent, opened: Sequence[FieldDiff], closed: Sequence[str], at: datetime
) -> None:
    """Writes down what one look found new, and what it found to be over; `at` is when the look began."""
    for diff in opened:
        await _open(connection, intent, diff, at)
    if closed:
        await _close(connection, intent, closed)
    for news, fields in (("drifted", [diff.field for diff in opened]), ("ended", list(closed))):
        if fields:
            data: dict[str, object] = {news: fields}
            await emit(connection, "drift", project=intent.project, resource=intent.id, data=data)


async def _open(connection: Connection, intent: Intent, diff: FieldDiff, at: datetime) -> None:
    await run(
        connection,
        """
        INSERT INTO drifts (resource, field, intent_version, asked, applied, read, class, traces, region, vmid, act,
                            who, what, acted_at, noticed_at)
        VALUES (:resource, :field, :version, CAST(:asked AS jsonb), CAST(:applied AS jsonb), CAST(:read AS jsonb),
                :class, :traces, :region, :vmid, :act, :who, :what, :acted_at, :at)
        ON CONFLICT (resource, field) WHERE closed_at IS NULL DO UPDATE SET read = excluded.read,
            act = coalesce(excluded.act, drifts.act), who = coalesce(excluded.who, drifts.who),
            what = coalesce(excluded.what, drifts.what), acted_at = coalesce(excluded.acted_at, drifts.acted_at)
        """,
        resource=intent.id,
        field=diff.field,
        version=intent.version,
        asked=as_json(diff.asked),
        applied=as_json(diff.applied),
        read=as_json(diff.read),
        **{"class": str(diff.change)},
        traces=sorted(diff.traces),
        region=intent.resolved.get("region"),
        vmid=intent.facts.get("vmid"),
        act=diff.act,
        who=diff.who,
        what=diff.what,
        acted_at=diff.at,
        at=at,
    )


async def _close(connection: Connection, intent: Intent, fields: Sequence[str]) -> None:
    """A drift that is over was asked for since, or set back by a write of ours, or ended without us."""
    await run(
        connection,
        """
        UPDATE drifts d SET closed_at = z9_now(), ending = CASE
            WHEN d.intent_version < :version THEN 'asked'
            WHEN EXISTS (SELECT FROM writes w WHERE w.resource = d.resource AND w.outcome = 'done'
                           AND w.opened_at > d.noticed_at
                           AND (w.request ?| d.traces OR w.step = ANY (d.traces) OR 'qm' || w.step = ANY (d.traces)))
                THEN 'set_back'
            ELSE 'by_itself' END
        WHERE d.resource = :resource AND d.closed_at IS NULL AND d.field = ANY (CAST(:fields AS text[]))
        """,
        resource=intent.id,
        version=intent.version,
        fields=list(fields),
    )


async def end(connection: Connection, resource: str) -> None:
    """Closes what is open of a resource whose life is over."""
    await run(
        connection,
        "UPDATE drifts SET closed_at = z9_now(), ending = 'ended' WHERE resource = :id AND closed_at IS NULL",
        id=resource,
    )


async def count_anew(connection: Connection, resource: str) -> None:
    """Lets a person who has seen an oscillation say: go on."""
    await run(
        connection,
        "UPDATE drifts SET counted = false WHERE resource = :id AND ending = 'set_back'",
        id=resource,
    )


async def name_late(connection: Connection, region: str, uids: Iterable[str]) -> None:
    """Gives drift that had nobody's name the act that a list has told of since, even where it is set back already."""
    named = await rows(
        connection,
        f"""
        UPDATE drifts d SET act = a.uid, who = a.who, what = a.what, acted_at = a.at
        FROM acts a, resources r
        WHERE a.region = :region AND a.uid = ANY (CAST(:uids AS text[])) AND d.region = a.region AND d.vmid = a.vmid
          AND d.who IS NULL AND a.touched && d.traces AND r.id = d.resource
          AND (d.closed_at IS NULL OR d.closed_at > z9_now() - interval '{LATE}')
          AND NOT EXISTS (SELECT FROM drifts o WHERE o.resource = d.resource AND o.field = d.field AND o.act = a.uid)
        RETURNING d.resource, r.project, d.field, a.who
        """,
        region=region,
        uids=list(uids),
    )
    for one in named:
        data: dict[str, object] = {"named": [one["field"]], "who": one["who"]}
        await emit(connection, "drift", project=one["project"], resource=one["resource"], data=data)


async def listed(
    connection: Connection, resource: str, *, below: int | None, limit: int
) -> list[Mapping[str, Any]]:
    """Returns a resource's drift, newest first; `below` is the id of the last one that was read."""
    return list(
        await rows(
            connection,
            """
            SELECT id, field, intent_version, asked, applied, read, class, who, what, acted_at, noticed_at, closed_at,
                   ending
            FROM drifts WHERE resource = :id AND (CAST(:below AS bigint) IS NULL OR id < CAST(:below AS bigint))
            ORDER BY id DESC LIMIT :limit
            """,
            id=resource,
            below=below,
            limit=limit,
        )
    )


async def open_now(connection: Connection) -> int:
    """Returns how many fields are as somebody else left them."""
    found = await row(connection, "SELECT count(*) AS n FROM drifts WHERE closed_at IS NULL")
    return 0 if found is None else int(found["n"])
