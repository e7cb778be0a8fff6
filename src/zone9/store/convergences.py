"""How long versions took from being asked for to being read back, from our own records.

A trigger writes a row when `applied_version` moves, so every way by which a version becomes applied is counted once.
The time in which a person was waited for (a restart) is in it.
"""

from dataclasses import dataclass

from zone9.store.database import Connection, Row, rows


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Is one kind in one region; seconds. `region` is None for what belongs to none."""

    kind: str
    region: str | None
    region_name: str | None
    count: int
    p50: float
    p95: float
    p99: float
    longest: float


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Counts the versions of one kind that are asked for and not read back; `oldest` is the longest wait, seconds."""

    kind: str
    region: str | None
    region_name: str | None
    count: int
    oldest: float


async def percentiles(
    connection: Connection, *, window_seconds: float, project: str | None
) -> list[Percentiles]:
    """Returns what converged within the window; `project` None means all."""
    found = await rows(
        connection,
        """
        SELECT c.kind, c.region, r.name AS region_name, count(*) AS n, max(seconds) AS longest,
               percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY seconds) AS p
        FROM convergences c CROSS JOIN LATERAL (SELECT extract(epoch FROM c.applied_at - c.asked_at)::float8 AS seconds) s
        LEFT JOIN resources r ON r.id = c.region
        WHERE c.applied_at > z9_now() - make_interval(secs => :window)
          AND (CAST(:project AS text) IS NULL OR c.project = CAST(:project AS text))
        GROUP BY 1, 2, 3 ORDER BY 1, 3
        """,
        window=window_seconds,
        project=project,
    )
    return [_percentiles(one) for one in found]


def _percentiles(one: Row) -> Percentiles:
    p50, p95, p99 = (float(seconds) for seconds in one["p"])
    return Percentiles(
        one["kind"], one["region"], one["region_name"], int(one["n"]), p50, p95, p99, float(one["longest"])
    )


async def under_way(connection: Connection, *, project: str | None) -> list[UnderWay]:
    """Returns what is asked for and not read back yet, whatever it waits for; `project` None means all."""
    found = await rows(
        connection,
        """
        SELECT r.kind, region.id AS region, region.name AS region_name, count(*) AS n,
               extract(epoch FROM z9_now() - min(r.changed_at))::float8 AS oldest
        FROM resources r LEFT JOIN resources region ON region.id = r.resolved ->> 'region'
        WHERE r.phase <> 'deleted' AND r.applied_version IS DISTINCT FROM r.intent_version AND r.origin = 'managed'
          AND (CAST(:project AS text) IS NULL OR r.project = CAST(:project AS text))
        GROUP BY 1, 2, 3 ORDER BY 1, 3
        """,
        project=project,
    )
    return [
        UnderWay(one["kind"], one["region"], one["region_name"], int(one["n"]), float(one["oldest"]))
        for one in found
    ]
