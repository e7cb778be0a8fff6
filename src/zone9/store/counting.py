"""What /metrics shows, counted from our own records and never from a process's memory.

A restart of any process loses nothing: the histogram of convergence is a question to the jobs table.
"""

from dataclasses import dataclass

from zone9.store import convergences
from zone9.store.convergences import Percentiles, UnderWay
from zone9.store.database import Database, Row, rows

BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
WINDOW_SECONDS = 86_400.0  # of the percentiles


@dataclass(frozen=True, slots=True)
class Convergence:
    """Is how long one kind took from asking to reading back: cumulative counts for BUCKETS, then all, and the sum."""

    kind: str
    counts: tuple[int, ...]
    sum_seconds: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Is everything that is counted."""

    convergence: tuple[Convergence, ...]
    jobs: tuple[tuple[str, str, int], ...]
    resources: tuple[tuple[str, str, str, int], ...]
    due: int
    restarts: tuple[tuple[str, int], ...]
    percentiles: tuple[Percentiles, ...]
    under_way: tuple[UnderWay, ...]
    sweeps: tuple[Row, ...]


async def counts(database: Database) -> Counts:
    """Counts in one transaction."""
    within = ", ".join(f"count(*) FILTER (WHERE d <= {edge}) AS b{n}" for n, edge in enumerate(BUCKETS))
    async with database.begin() as connection:
        convergence = await rows(
            connection,
            f"""
            SELECT kind, {within}, count(*) AS whole, coalesce(sum(d), 0) AS seconds FROM (
                SELECT r.kind, extract(epoch FROM j.finished_at - j.created_at) AS d
                FROM jobs j JOIN resources r ON r.id = j.resource
                WHERE j.status = 'succeeded' AND j.kind IN ('apply', 'delete')) AS taken
            GROUP BY kind ORDER BY kind
            """,
        )
        jobs = await rows(
            connection, "SELECT kind, status, count(*) AS n FROM jobs GROUP BY kind, status ORDER BY 1, 2"
        )
        resources = await rows(
            connection,
            """
            SELECT kind, convergence, health, count(*) AS n FROM resources WHERE phase <> 'deleted'
            GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
            """,
        )
        done = await convergences.percentiles(connection, window_seconds=WINDOW_SECONDS, project=None)
        under_way = await convergences.under_way(connection, project=None)
        due = await rows(
            connection,
            """
            SELECT count(*) AS n FROM resources
            WHERE phase <> 'deleted' AND next_reconcile_at <= z9_now() - interval '60 seconds'
            """,
        )
        restarts = await rows(
            connection,
            """
            SELECT data ->> 'role' AS role, count(*) AS n FROM events WHERE kind = 'process' GROUP BY 1 ORDER BY 1
            """,
        )
        swept = await rows(
            connection,
            """
            SELECT r.name AS region, s.passes, s.requests, s.seconds, s.gaps, coalesce(s.skew_seconds, 0) AS skew,
                jsonb_array_length(s.frozen) AS frozen, extract(epoch FROM z9_now() - s.good_at)::float8 AS good_age,
                count(g.vmid) FILTER (WHERE g.missing_since IS NULL) AS guests,
                count(g.vmid) FILTER (WHERE g.missing_since IS NOT NULL) AS missing,
                count(g.vmid) FILTER (WHERE g.suspect AND g.missing_since IS NULL AND g.type = 'qemu') AS suspects
            FROM sweeps s JOIN resources r ON r.id = s.region AND r.phase <> 'deleted'
            LEFT JOIN guests g ON g.region = s.region WHERE s.at IS NOT NULL GROUP BY s.region, r.name ORDER BY r.name
            """,
        )
    return Counts(
        tuple(
            Convergence(
                one["kind"],
                (*(int(one[f"b{n}"]) for n in range(len(BUCKETS))), int(one["whole"])),
                float(one["seconds"]),
            )
            for one in convergence
        ),
        tuple((one["kind"], one["status"], int(one["n"])) for one in jobs),
        tuple((one["kind"], one["convergence"], one["health"], int(one["n"])) for one in resources),
        int(due[0]["n"]),
        tuple((one["role"], int(one["n"])) for one in restarts),
        tuple(done),
        tuple(under_way),
        tuple(swept),
    )
