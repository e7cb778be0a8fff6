"""Write records, proofs, and the limits across workers.

A record is committed *before* a write leaves for Proxmox, and stays open until its outcome is known: after a
crash the next run finds it and asks Proxmox what came of it. Proofs keep an allow-list of keys in clear.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zone9.base.errors import Later
from zone9.base.ids import new_id
from zone9.model.evidence import Evidence
from zone9.model.facts import ChildState, Recorded, WriteRecord
from zone9.store import children, evidence
from zone9.store.database import Connection, Database, Row, as_json, row, rows, run
from zone9.store.rows import WRITE_COLUMNS, write_of
from zone9.store.starting import Starting, start
from zone9.store.waking import wake

LEASE_SECONDS = 3600


class LeaseTaken(Later):
    """Means that as many are at it as may be; whoever ends wakes the next one."""

    code = "waiting_for_slot"

    def __init__(self, name: str) -> None:
        super().__init__(
            "waiting for a free slot: only so many clones of one template run at a time", delay=5.0
        )
        self.lease = name


@dataclass(frozen=True, slots=True)
class Settled:
    """Is what became of a write: its outcome, Proxmox's own words, and the document read back afterwards."""

    outcome: str
    exit_text: str | None = None
    read_back: Mapping[str, Any] | None = None
    digest: str | None = None
    read_at: datetime | None = None


class Writes:
    """Is the part of the loop's store that deals with writes to the world."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def hold(self, connection: Connection, resource: str, fence: int) -> Row:
        """Locks the resource's row and compares the fence."""
        from zone9.store.runs import FenceLost  # here: runs builds on this module

        found = await row(
            connection,
            "SELECT fence, wake_seq, intent_version FROM resources WHERE id = :id FOR UPDATE",
            id=resource,
        )
        if found is None or found["fence"] != fence:
            raise FenceLost("another run has taken over")
        return found

    async def open_write(
        self,
        *,
        resource: str,
        fence: int,
        job: str | None,
        version: int,
        step: str,
        target: str,
        node: str,
        request: Mapping[str, Any],
        lease: tuple[str, int] | None,
        starting: Starting | None = None,
    ) -> WriteRecord:
        """Commits the record; with `lease` (name, slots) only while a slot is free, else raises LeaseTaken.

        `starting` shows the step as begun in the same transaction; the record's job is then the one that was started.
        """
        async with self.database.begin() as connection:
            await self.hold(connection, resource, fence)
            if lease is not None and not await self._take_slot(connection, resource, *lease):
                raise LeaseTaken(lease[0])
            if starting is not None:
                job = await start(
                    connection, starting, resource=resource, fence=fence, job=job, version=version
                )
            made = await row(
                connection,
                f"""
                INSERT INTO writes (id, resource, job, intent_version, fence, step, target, node, request)
                VALUES (:id, :resource, :job, :version, :fence, :step, :target, :node, CAST(:request AS jsonb))
                RETURNING {WRITE_COLUMNS}
                """,
                id=new_id("wr"),
                resource=resource,
                job=job,
                version=version,
                fence=fence,
                step=step,
                target=target,
                node=node,
                request=as_json(dict(request)),
            )
            assert made is not None
            return write_of(made)

    async def _take_slot(self, connection: Connection, holder: str, name: str, slots: int) -> bool:
        await run(connection, "SELECT pg_advisory_xact_lock(hashtext('lease:' || :name))", name=name)
        await run(connection, "DELETE FROM leases WHERE name = :name AND expires_at < z9_now()", name=name)
        taken = await run(
            connection,
            """
            INSERT INTO leases (name, slot, holder, expires_at)
            SELECT :name, slot, :holder, z9_now() + make_interval(secs => :seconds)
            FROM generate_series(1, :slots) AS free(slot)
            WHERE NOT EXISTS (SELECT FROM leases WHERE name = :name AND leases.slot = free.slot)
              AND NOT EXISTS (SELECT FROM leases WHERE name = :name AND holder = :holder)
            LIMIT 1
            """,
            name=name,
            holder=holder,
            slots=slots,
            seconds=LEASE_SECONDS,
        )
        if taken:
            return True
        mine = await row(
            connection,
            "SELECT slot FROM leases WHERE name = :name AND holder = :holder",
            name=name,
            holder=holder,
        )
        return mine is not None

    async def write_sent(self, write: str, upid: str) -> None:
        """Records Proxmox's task id before anybody waits for the task."""
        async with self.database.single() as connection:
            await run(connection, "UPDATE writes SET upid = :upid WHERE id = :id", id=write, upid=upid)

    async def settle(self, write: WriteRecord, settled: Settled) -> None:
        """Closes a record, gives its slot back, and wakes whoever waits longest for one."""
        async with self.database.begin() as connection:
            await _close(connection, write, settled)

    async def keep(
        self,
        resource: str,
        fence: int,
        facts: Mapping[str, Any],
        settlements: Sequence[tuple[WriteRecord, Settled]],
    ) -> None:
        """Keeps what one look found out: facts merged in (a value of None stays as null), and closed writes."""
        async with self.database.begin() as connection:
            if facts:
                await self.hold(connection, resource, fence)
                await merge_facts(connection, resource, facts)
            for write, settled in settlements:
                await _close(connection, write, settled)

    async def recorded(self, resource: str) -> Recorded:
        """Returns what is known of the resource's own work: facts, open writes, and the last write of each step."""
        async with self.database.single() as connection:
            found = await rows(
                connection,
                f"""
                WITH records AS (
                    (SELECT {WRITE_COLUMNS} FROM writes WHERE resource = :id AND closed_at IS NULL)
                    UNION ALL
                    (SELECT DISTINCT ON (step) {WRITE_COLUMNS} FROM writes
                     WHERE resource = :id AND closed_at IS NOT NULL ORDER BY step, closed_at DESC))
                SELECT z9_now() AS at, r.facts, records.*,
                       EXISTS (SELECT FROM resources c WHERE c.owner = r.id) AS composite
                FROM resources r LEFT JOIN records ON true WHERE r.id = :id ORDER BY records.id
                """,
                id=resource,
            )
        assert found, "a resource's row is never removed"
        first = found[0]
        parts: tuple[ChildState, ...] = ()
        known = Evidence()
        if first["composite"]:
            async with self.database.single() as connection:
                parts = await children.of(connection, resource)
        if first["facts"].get("vmid") is not None:
            async with self.database.single() as connection:
                known = await evidence.of(connection, resource)
        records = [write_of(one) for one in found if one["id"] is not None]
        return Recorded(
            at=first["at"],
            facts=dict(first["facts"]),
            open_writes=tuple(one for one in records if one.outcome is None),
            last={one.step: one for one in records if one.outcome is not None},
            children=parts,
            evidence=known,
        )

    async def note(self, job: str | None, text: str) -> None:
        """Adds a sentence to the job, once."""
        if job is None:
            return
        async with self.database.begin() as connection:
            await run(
                connection,
                """
                UPDATE jobs SET notes = notes || to_jsonb(CAST(:text AS text))
                WHERE id = :id AND status IN ('queued', 'running', 'waiting') AND NOT notes ? CAST(:text AS text)
                """,
                id=job,
                text=text,
            )

    async def progress(self, job: str | None, percent: float | None) -> None:
        """Moves the newest step of the job on."""
        if job is None:
            return
        async with self.database.begin() as connection:
            await run(
                connection,
                """
                UPDATE jobs SET steps = jsonb_set(steps, '{-1}', (steps -> -1) || CAST(:line AS jsonb))
                WHERE id = :id AND status IN ('queued', 'running', 'waiting') AND jsonb_array_length(steps) > 0
                """,
                id=job,
                line=as_json({"percent": percent}),
            )


async def merge_facts(connection: Connection, resource: str, facts: Mapping[str, Any]) -> None:
    """Merges facts into a resource's; a value of None stays as null."""
    await run(
        connection,
        "UPDATE resources SET facts = facts || CAST(:facts AS jsonb) WHERE id = :id",
        id=resource,
        facts=as_json(dict(facts)),
    )


async def _close(connection: Connection, write: WriteRecord, settled: Settled) -> None:
    """Closes a record that is still open, with its proof if something was read back, and frees its slots."""
    freed = await rows(
        connection,
        """
        WITH closed AS (
            UPDATE writes SET closed_at = z9_now(), outcome = :outcome, exit_text = :exit_text
            WHERE id = :write AND closed_at IS NULL RETURNING *),
        proven AS (
            INSERT INTO proofs (id, resource, job, intent_version, step, request, upid, exit_text,
                                read_back, digest, read_at)
            SELECT :proof, resource, job, intent_version, step, request, upid, exit_text,
                   CAST(:read_back AS jsonb), :digest, CAST(:read_at AS timestamptz)
            FROM closed WHERE CAST(:read_back AS jsonb) IS NOT NULL)
        DELETE FROM leases USING closed WHERE leases.holder = closed.resource RETURNING leases.name
        """,
        write=write.id,
        outcome=settled.outcome,
        exit_text=settled.exit_text,
        proof=new_id("prf"),
        read_back=None if settled.read_back is None else as_json(dict(settled.read_back)),
        digest=settled.digest,
        read_at=settled.read_at,
    )
    for lease in freed:
        waiting = await row(
            connection,
            """
            SELECT id FROM resources WHERE waiting_for = :name AND phase <> 'deleted'
            ORDER BY next_reconcile_at LIMIT 1 FOR UPDATE SKIP LOCKED
            """,
            name=lease["name"],
        )
        if waiting is not None:
            await run(connection, "UPDATE resources SET waiting_for = NULL WHERE id = :id", id=waiting["id"])
            await wake(connection, [waiting["id"]])
