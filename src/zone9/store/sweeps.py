"""What passes leave behind: where they read to, every guest that a region lists, who did what to which.

Written by one process a region at a time (the lease). Guests' rows are hints; `good_at` and `missing_since` are
evidence of absence, from passes whose silence means something.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zone9.model.facts import Message
from zone9.store.database import Connection, Database, as_json, row, rows, run
from zone9.store.drifts import name_late
from zone9.store.waking import emit, wake

KEPT_DAYS = 30


@dataclass(frozen=True, slots=True)
class SweepState:
    """Is what the pass before left; `now` is the database's time as this one begins."""

    now: datetime
    passes: int
    log_seen: Mapping[str, int]
    tasks_since: int
    running: Mapping[str, int]
    known: frozenset[str]
    rights: str | None
    rights_seen: str | None
    rights_seen_at: datetime | None
    region_ok_at: datetime | None
    canary: int | None
    missing: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Is what one pass found; `at` is the database's time before its first request.

    `listed` are rows that are new or differ; `vanished` are no longer listed, and count only when the pass is good:
    nothing in `frozen` speaks against it. `suspects` are to be read in full; the servers of `woken` are looked at now.
    """

    at: datetime
    listed: tuple[Mapping[str, Any], ...]
    vanished: tuple[int, ...]
    suspects: tuple[int, ...]
    woken: tuple[int, ...]
    everything: bool
    acts: tuple[Mapping[str, Any], ...]
    frozen: tuple[Message, ...]
    cursor: Mapping[str, Any]
    rights: str | None
    rights_seen: str | None
    requests: int
    nodes: int
    skew: float | None


async def begin(database: Database, region: str) -> SweepState:
    """Returns what is known as a pass begins; makes the region's row at its first pass."""
    async with database.begin() as connection:
        await run(
            connection, "INSERT INTO sweeps (region) VALUES (:region) ON CONFLICT DO NOTHING", region=region
        )
        found = await row(
            connection,
            """
            SELECT z9_now() AS now, s.*, r.spec -> 'canary' AS canary,
                   CASE WHEN r.convergence = 'applied' THEN r.measured_at END AS region_ok_at,
                   (SELECT count(*) FROM guests g WHERE g.region = s.region AND g.missing_since IS NOT NULL) AS missing
            FROM sweeps s JOIN resources r ON r.id = s.region WHERE s.region = :region
            """,
            region=region,
        )
    assert found is not None
    running = dict(found["running"])
    known = frozenset(running.pop("known", ()))
    return SweepState(
        found["now"],
        int(found["passes"]),
        found["log_seen"],
        int(found["tasks_since"]),
        running,
        known,
        found["rights"],
        found["rights_seen"],
        found["rights_seen_at"],
        found["region_ok_at"],
        found["canary"],
        int(found["missing"]),
    )


async def listed(database: Database, region: str) -> list[Mapping[str, Any]]:
    """Returns the rows as they were last written, for a process that has not made a pass of this region yet."""
    async with database.single() as connection:
        found = await rows(
            connection,
            "SELECT listed FROM guests WHERE region = :region AND missing_since IS NULL",
            region=region,
        )
    return [one["listed"] for one in found]


async def keep(database: Database, region: str, kept: Kept) -> list[str]:
    """Writes a pass down in one transaction and wakes the servers it is about; returns their ids."""
    async with database.begin() as connection:
        await _guests(connection, region, kept)
        await _acts(connection, region, kept.acts)
        before = await row(
            connection, "SELECT frozen, rights_seen FROM sweeps WHERE region = :region", region=region
        )
        assert before is not None
        frozen = [one.as_json() for one in kept.frozen]
        await run(
            connection,
            """
            UPDATE sweeps SET at = :at, good_at = CASE WHEN :good THEN :at ELSE good_at END,
                frozen = CAST(:frozen AS jsonb), passes = passes + 1, requests = :requests, nodes = :nodes,
                seconds = extract(epoch FROM z9_now() - :at), skew_seconds = CAST(:skew AS float8),
                gaps = gaps + CASE WHEN :everything THEN 1 ELSE 0 END,
                log_seen = CAST(:log_seen AS jsonb), tasks_since = :tasks_since, running = CAST(:running AS jsonb),
                rights = CAST(:rights AS text), rights_seen = CAST(:rights_seen AS text),
                rights_seen_at = CASE WHEN CAST(:rights_seen AS text) IS NULL THEN NULL
                    WHEN rights_seen IS DISTINCT FROM CAST(:rights_seen AS text) THEN :at ELSE rights_seen_at END
            WHERE region = :region
            """,
            region=region,
            at=kept.at,
            good=not kept.frozen,
            frozen=as_json(frozen),
            requests=kept.requests,
            nodes=kept.nodes,
            skew=kept.skew,
            everything=kept.everything,
            log_seen=as_json(kept.cursor["log_seen"]),
            tasks_since=kept.cursor["tasks_since"],
            running=as_json({**kept.cursor["running"], "known": kept.cursor["known"]}),
            rights=kept.rights,
            rights_seen=kept.rights_seen,
        )
        same = [one["code"] for one in before["frozen"]] == [one.code for one in kept.frozen]
        if not same or before["rights_seen"] != kept.rights_seen:
            # The region looks at itself: it says what its token lacks, and finds new rights to be enough.
            await emit(connection, "sweep", project=None, resource=region, data={"frozen": frozen})
            await wake(connection, [region])
        return await wake_servers(connection, region, {*kept.woken, *kept.vanished})


async def _guests(connection: Connection, region: str, kept: Kept) -> None:
    await run(
        connection,
        """
        INSERT INTO guests (region, vmid, type, node, name, status, tags, pool, template, listed)
        SELECT :region, (one ->> 'vmid')::int, one ->> 'type', one ->> 'node', one ->> 'name', one ->> 'status',
               array_remove(regexp_split_to_array(coalesce(one ->> 'tags', ''), '[;, ]+'), ''), one ->> 'pool',
               (one ->> 'template')::boolean, one
        FROM jsonb_array_elements(CAST(:listed AS jsonb)) AS one
        ON CONFLICT (region, vmid) DO UPDATE SET type = excluded.type, node = excluded.node, name = excluded.name,
            status = excluded.status, tags = excluded.tags, pool = excluded.pool, template = excluded.template,
            listed = excluded.listed, changed_at = z9_now(), missing_since = NULL, suspect = true
        """,
        region=region,
        listed=as_json(list(kept.listed)),
    )
    if kept.everything:
        await run(
            connection,
            "UPDATE guests SET suspect = true WHERE region = :region AND missing_since IS NULL",
            region=region,
        )
    elif kept.suspects:
        await run(
            connection,
            "UPDATE guests SET suspect = true WHERE region = :region AND vmid = ANY(CAST(:vmids AS int[]))",
            region=region,
            vmids=list(kept.suspects),
        )
    if kept.frozen:
        return
    await run(
        connection,
        """
        UPDATE guests SET missing_since = :at WHERE region = :region AND missing_since IS NULL
          AND vmid = ANY(CAST(:vmids AS int[]))
        """,
        region=region,
        at=kept.at,
        vmids=list(kept.vanished),
    )
    # A server's VM that was never in any list (made and lost between two passes) is missing as well.
    await run(
        connection,
        """
        INSERT INTO guests (region, vmid, type, node, status, listed, missing_since, suspect)
        SELECT :region, (facts ->> 'vmid')::int, 'qemu', coalesce(facts ->> 'node', ''), 'unknown', '{}', :at, false
        FROM resources WHERE kind = 'server' AND phase <> 'deleted' AND resolved ->> 'region' = :region
          AND facts ->> 'vmid' IS NOT NULL AND facts ->> 'absent_at' IS NOT NULL
          AND CAST(facts ->> 'absent_at' AS timestamptz) < :at
        ON CONFLICT DO NOTHING
        """,
        region=region,
        at=kept.at,
    )


async def _acts(connection: Connection, region: str, acts: Iterable[Mapping[str, Any]]) -> None:
    listed = list(acts)
    if not listed:
        return
    await run(
        connection,
        """
        INSERT INTO acts (region, uid, vmid, at, who, what, touched)
        SELECT :region, one ->> 'uid', (one ->> 'vmid')::int, to_timestamp((one ->> 'at')::float8), one ->> 'who',
               one ->> 'what', ARRAY(SELECT jsonb_array_elements_text(one -> 'touched'))
        FROM jsonb_array_elements(CAST(:acts AS jsonb)) AS one ON CONFLICT DO NOTHING
        """,
        region=region,
        acts=as_json(listed),
    )
    await name_late(connection, region, [str(one["uid"]) for one in listed])
    await run(connection, f"DELETE FROM acts WHERE at < z9_now() - interval '{KEPT_DAYS} days'")


async def wake_servers(connection: Connection, region: str, vmids: Iterable[int]) -> list[str]:
    """Wakes the servers of these VMIDs."""
    if not (wanted := [str(one) for one in vmids]):
        return []
    found = await rows(
        connection,
        """
        SELECT id FROM resources WHERE kind = 'server' AND phase <> 'deleted' AND resolved ->> 'region' = :region
          AND facts ->> 'vmid' = ANY(CAST(:vmids AS text[]))
        """,
        region=region,
        vmids=wanted,
    )
    ids = [str(one["id"]) for one in found]
    await wake(connection, ids)
    return ids
