"""What the records of passes and of earlier looks say about a resource's machine: one statement, as a look begins."""

from datetime import UTC, datetime
from typing import Any

from zone9.model.evidence import Deed, Evidence, OpenDrift
from zone9.store.database import Connection, row

# Deeds are those that came to be known since truth last equalled intent, and that explain no drift that is over.
SQL = """
WITH mine AS (
    SELECT id, applied, applied_read_at, intent_version, resolved ->> 'region' AS region,
           (facts ->> 'vmid')::int AS vmid, facts ->> 'uuid' AS uuid
    FROM resources WHERE id = :id)
SELECT m.applied, s.good_at, s.frozen, g.missing_since,
    (SELECT jsonb_agg(jsonb_build_object('uid', a.uid, 'at', extract(epoch FROM a.at), 'who', a.who, 'what', a.what,
                                         'touched', a.touched) ORDER BY a.at, a.uid)
     FROM acts a WHERE a.region = m.region AND a.vmid = m.vmid
       AND a.seen_at > coalesce(m.applied_read_at, '-infinity')
       AND NOT EXISTS (SELECT FROM drifts d WHERE d.resource = m.id AND d.act = a.uid AND d.closed_at IS NOT NULL)
    ) AS deeds,
    (SELECT jsonb_agg(jsonb_build_object('field', d.field, 'read', d.read, 'who', d.who, 'what', d.what,
                                         'at', extract(epoch FROM d.acted_at)) ORDER BY d.id)
     FROM drifts d WHERE d.resource = m.id AND d.closed_at IS NULL) AS drifts,
    (SELECT jsonb_object_agg(one.field, one.times) FROM (
        SELECT d.field, count(*) AS times FROM drifts d
        WHERE d.resource = m.id AND d.ending = 'set_back' AND d.counted AND d.intent_version = m.intent_version
          AND d.closed_at > z9_now() - interval '1 hour' GROUP BY d.field) AS one) AS set_backs,
    (SELECT array_agg(t.vmid ORDER BY t.vmid) FROM guests t
     WHERE t.region = m.region AND t.uuid = m.uuid AND t.vmid <> m.vmid AND t.missing_since IS NULL) AS twins
FROM mine m
LEFT JOIN sweeps s ON s.region = m.region
LEFT JOIN guests g ON g.region = m.region AND g.vmid = m.vmid
"""


async def of(connection: Connection, resource: str) -> Evidence:
    """Returns the evidence about the machine that the resource has been given."""
    found = await row(connection, SQL, id=resource)
    assert found is not None, "a resource's row is never removed"
    return Evidence(
        applied=found["applied"] or {},
        deeds=tuple(_deed(one) for one in found["deeds"] or ()),
        drifts=tuple(_drift(one) for one in found["drifts"] or ()),
        set_backs=found["set_backs"] or {},
        good_at=found["good_at"],
        missing_since=found["missing_since"],
        frozen=tuple(str(one["text"]) for one in found["frozen"] or ()),
        twins=tuple(found["twins"] or ()),
    )


def _deed(one: Any) -> Deed:
    return Deed(one["uid"], _time(one["at"]), one["who"], one["what"], frozenset(one["touched"]))


def _drift(one: Any) -> OpenDrift:
    at = None if one["at"] is None else _time(one["at"])
    return OpenDrift(one["field"], one["read"], one["who"], one["what"], at)


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
