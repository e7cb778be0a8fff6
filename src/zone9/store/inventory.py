"""What the passes know, as people are shown it: guests with whose they are, groups of them, and how each pass went.

A guest is `managed` when its own identity was read as a server's; the number alone is not enough, since a stranger may
have taken it. One that no server claims is `adopted`. One that a server claims and whose config nobody has read yet is
`unknown`. A status that no good pass has confirmed within the budget is `unknown` as well: it is not shown as if it were.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from zone9.model.asking import Scope
from zone9.store.database import Connection, Row, row, rows

BUDGET_SECONDS = 60.0  # of a guest's row: six passes
GroupBy = Literal["region", "pool", "tag", "node"]

SEEN = f"""
SELECT g.region, region.name AS region_name, g.vmid, g.type, g.node, g.name, g.tags, g.pool, g.template,
    CASE WHEN g.missing_since IS NOT NULL THEN 'missing'
         WHEN s.good_at IS NULL OR s.good_at < z9_now() - interval '{BUDGET_SECONDS} seconds' THEN 'unknown'
         ELSE g.status END AS status,
    CASE WHEN r.id IS NULL THEN 'adopted'
         WHEN g.uuid = r.facts ->> 'uuid' OR g.digest = r.facts ->> 'link_digest'
              OR (r.facts ->> 'nonce' <> '' AND g.marker LIKE '%:' || (r.facts ->> 'nonce')) THEN 'managed'
         WHEN g.digest IS NULL THEN 'unknown' ELSE 'adopted' END AS origin,
    r.id AS server, r.name AS server_name, coalesce(r.project, g.project) AS project, g.first_seen_at, g.changed_at,
    g.missing_since, g.read_at, s.good_at AS listed_at
FROM guests g JOIN resources region ON region.id = g.region AND region.phase <> 'deleted'
LEFT JOIN sweeps s ON s.region = g.region
LEFT JOIN resources r ON r.kind = 'server' AND r.phase <> 'deleted' AND r.resolved ->> 'region' = g.region
    AND r.facts ->> 'vmid' = g.vmid::text
"""
# A stranger at a server's number is not that server, and so not in its project either.
GUEST = f"""
SELECT t.region, t.region_name, t.vmid, t.type, t.node, t.name, t.tags, t.pool, t.template, t.status, t.origin,
    CASE WHEN t.origin <> 'adopted' THEN t.server END AS server,
    CASE WHEN t.origin <> 'adopted' THEN t.server_name END AS server_name, p.id AS project_id, p.name AS project,
    t.first_seen_at, t.changed_at, t.missing_since, t.read_at, t.listed_at
FROM ({SEEN}) t
LEFT JOIN guests own ON t.origin = 'adopted' AND own.region = t.region AND own.vmid = t.vmid
LEFT JOIN projects p ON p.id = CASE WHEN t.origin = 'adopted' THEN own.project ELSE t.project END
"""
MINE = "(:all OR p.id = CAST(:scope AS text))"


@dataclass(frozen=True, slots=True)
class Filter:
    """Narrows a list of guests; None means any. `region` is a name or an id, `text` a part of the name or the VMID."""

    region: str | None = None
    pool: str | None = None
    tag: str | None = None
    node: str | None = None
    type: str | None = None
    origin: str | None = None
    status: str | None = None
    project: str | None = None
    text: str | None = None


WHERE = f"""
WHERE {MINE}
  AND (CAST(:region AS text) IS NULL OR t.region = :region OR t.region_name = :region)
  AND (CAST(:pool AS text) IS NULL OR t.pool = :pool)
  AND (CAST(:tag AS text) IS NULL OR CAST(:tag AS text) = ANY(t.tags))
  AND (CAST(:node AS text) IS NULL OR t.node = :node)
  AND (CAST(:type AS text) IS NULL OR t.type = :type)
  AND (CAST(:origin AS text) IS NULL OR t.origin = :origin)
  AND (CAST(:status AS text) IS NULL OR t.status = :status)
  AND (CAST(:project AS text) IS NULL OR p.name = :project OR p.id = :project)
  AND (CAST(:text AS text) IS NULL OR strpos(lower(t.name), lower(CAST(:text AS text))) > 0
       OR t.vmid::text = CAST(:text AS text))
"""


def _values(scope: Scope, narrowed: Filter) -> dict[str, Any]:
    fields = {name: getattr(narrowed, name) for name in Filter.__dataclass_fields__}
    return {**fields, "all": scope.may("admin"), "scope": scope.project}


async def guests(
    connection: Connection, scope: Scope, narrowed: Filter, *, after: tuple[str, int] | None, limit: int
) -> list[Row]:
    """Returns a page by region and VMID; an administrator sees all, everybody else the project's own."""
    region, vmid = after or (None, None)
    return await rows(
        connection,
        f"""
        {GUEST} {WHERE} AND (CAST(:after AS text) IS NULL OR (t.region, t.vmid) > (:after, CAST(:vmid AS int)))
        ORDER BY t.region, t.vmid LIMIT :limit
        """,
        **_values(scope, narrowed),
        after=region,
        vmid=vmid,
        limit=limit,
    )


async def groups(connection: Connection, scope: Scope, narrowed: Filter, by: GroupBy) -> Sequence[Row]:
    """Counts guests by region and one more; with `tag` a guest counts once for each of its tags."""
    key = {"region": "NULL::text", "pool": "t.pool", "tag": "tag.name", "node": "t.node"}[by]
    tags = "LEFT JOIN LATERAL unnest(t.tags) AS tag(name) ON true" if by == "tag" else ""
    return await rows(
        connection,
        f"""
        SELECT t.region_name AS region, nullif({key}, '') AS key, count(*) AS guests,
               count(*) FILTER (WHERE t.origin = 'managed') AS managed,
               count(*) FILTER (WHERE t.status = 'running') AS running,
               count(*) FILTER (WHERE t.status IN ('unknown', 'missing')) AS not_seen
        FROM ({GUEST} {WHERE}) t {tags} GROUP BY 1, 2 ORDER BY 1, 2 NULLS LAST
        """,
        **_values(scope, narrowed),
    )


async def guest(
    connection: Connection, scope: Scope, region: str, vmid: int, *, lock: bool = False
) -> Row | None:
    """Returns one guest; with `lock` nobody else attributes it before the transaction ends."""
    if lock:
        await rows(
            connection,
            """
            SELECT 1 AS one FROM guests WHERE vmid = :vmid AND region = (
                SELECT id FROM resources WHERE kind = 'region' AND phase <> 'deleted' AND (id = :region OR name = :region)
                LIMIT 1) FOR UPDATE
            """,
            region=region,
            vmid=vmid,
        )
    return await row(
        connection,
        f"{GUEST} {WHERE} AND t.vmid = :vmid",
        **_values(scope, Filter(region=region)),
        vmid=vmid,
    )


async def acts(connection: Connection, region: str, vmid: int, *, limit: int) -> list[Row]:
    """Returns what others did to a guest, newest first."""
    return await rows(
        connection,
        """
        SELECT at, who, what, touched FROM acts WHERE region = :region AND vmid = :vmid
        ORDER BY at DESC, uid DESC LIMIT :limit
        """,
        region=region,
        vmid=vmid,
        limit=limit,
    )


async def sweep(connection: Connection, region: str) -> Row | None:
    """Returns how the newest pass over a region went, and how old the newest good one is (seconds); None before any."""
    return await row(
        connection,
        """
        SELECT s.at, s.good_at, extract(epoch FROM z9_now() - s.good_at)::float8 AS good_age_seconds, s.frozen, s.passes,
            s.requests, s.nodes, s.seconds, s.skew_seconds, s.gaps, count(g.vmid) AS guests,
            count(g.vmid) FILTER (WHERE g.missing_since IS NOT NULL) AS missing,
            count(g.vmid) FILTER (WHERE g.suspect AND g.missing_since IS NULL AND g.type = 'qemu') AS suspects,
            min(g.read_at) FILTER (WHERE g.missing_since IS NULL AND g.type = 'qemu') AS oldest_read_at
        FROM sweeps s LEFT JOIN guests g ON g.region = s.region WHERE s.region = :region AND s.at IS NOT NULL
        GROUP BY s.region
        """,
        region=region,
    )
