"""Write records, proofs, and the limits across workers.

A record is committed *before* a write leaves for Proxmox, and stays open until its outcome is known: after a
crash the next run finds it and asks Proxmox what came of it. Proofs keep an allow-list of keys in clear.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from zone9.base.errors import Later
from zone9.base.ids import new_id
from zone9.model.facts import Recorded, WriteRecord
from zone9.store import children
from zone9.store.database import Database, Row, as_json, row, rows, run
from zone9.store.rows import WRITE_COLUMNS, write_of
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

    async def hold(self, connection: AsyncConnection, resource: str, fence: int) -> Row:
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
    ) -> WriteRecord:
        """Commits the record; with `lease` (name, slots) only while a slot is free, else raises LeaseTaken."""
        async with self.database.begin() as connection:
            await self.hold(connection, resource, fence)
            if lease is not None and not await self._take_slot(connection, resource, *lease):
                raise LeaseTaken(lease[0])
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

    async def _take_slot(self, connection: AsyncConnection, holder: str, name: str, slots: int) -> bool:
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
        async with self.database.begin() as connection:
            await run(connection, "UPDATE writes SET upid = :upid WHERE id = :id", id=write, upid=upid)

    async def settle(self, write: WriteRecord, settled: "Settled") -> None:
        """Closes a record together with its proof, gives its slot back, and wakes whoever waits longest for one."""
        async with self.database.begin() as connection:
            closed = await row(
                connection,
                """
                UPDATE writes SET closed_at = z9_now(), outcome = :outcome, exit_text = :exit_text
                WHERE id = :id AND closed_at IS NULL RETURNING resource
                """,
                id=write.id,
                outcome=settled.outcome,
                exit_text=settled.exit_text,
            )
            if closed is None:
                return
            if settled.read_back is not None:
                await _add_proof(connection, write, settled)
            await _free_slots(connection, closed["resource"])

    async def recorded(self, resource: str) -> Recorded:
        """Returns what is known of the resource's own work: facts, open writes, and the last write of each step."""
        async with self.database.begin() as connection:
            found = await row(
                connection,
                """
                SELECT z9_now() AS at, facts, EXISTS (SELECT FROM resources c WHERE c.owner = r.id) AS composite
                FROM resources r WHERE id = :id
                """,
                id=resource,
            )
            assert found is not None, "a resource's row is never removed"
            records = await rows(
                connection,
                f"""
                (SELECT {WRITE_COLUMNS} FROM writes WHERE resource = :id AND closed_at IS NULL ORDER BY id)
                UNION ALL
                (SELECT DISTINCT ON (step) {WRITE_COLUMNS} FROM writes
                 WHERE resource = :id AND closed_at IS NOT NULL ORDER BY step, closed_at DESC)
                """,
                id=resource,
            )
            all_ = [write_of(one) for one in records]
            return Recorded(
                at=found["at"],
                facts=dict(found["facts"]),
                open_writes=tuple(one for one in all_ if one.outcome is None),
                last={one.step: one for one in all_ if one.outcome is not None},
                children=await children.of(connection, resource) if found["composite"] else (),
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


async def add_step(connection: AsyncConnection, job: str, step: str) -> None:
    """Shows a step as begun, and the one before it as done; the same step again is one line with its tries."""
    await run(
        connection,
        """
        UPDATE jobs SET steps = CASE
            WHEN steps -> -1 ->> 'step' = :step THEN jsonb_set(steps, '{-1}', (steps -> -1)
                || jsonb_build_object('tries', coalesce((steps -> -1 ->> 'tries')::int, 1) + 1))
            WHEN jsonb_array_length(steps) > 0 THEN jsonb_set(steps, '{-1}', (steps -> -1) || '{"status": "done"}')
                || jsonb_build_array(CAST(:line AS jsonb) || jsonb_build_object('at', z9_now()))
            ELSE jsonb_build_array(CAST(:line AS jsonb) || jsonb_build_object('at', z9_now())) END
        WHERE id = :id
        """,
        id=job,
        step=step,
        line=as_json({"step": step, "status": "running", "percent": None}),
    )


async def _add_proof(connection: AsyncConnection, write: WriteRecord, settled: Settled) -> None:
    await run(
        connection,
        """
        INSERT INTO proofs (id, resource, job, intent_version, step, request, upid, exit_text, read_back, digest, read_at)
        SELECT :id, resource, job, intent_version, step, request, upid, exit_text,
               CAST(:read_back AS jsonb), :digest, :read_at
        FROM writes WHERE id = :write
        """,
        id=new_id("prf"),
        write=write.id,
        read_back=as_json(dict(settled.read_back or {})),
        digest=settled.digest,
        read_at=settled.read_at,
    )


async def _free_slots(connection: AsyncConnection, holder: str) -> None:
    freed = await rows(connection, "DELETE FROM leases WHERE holder = :holder RETURNING name", holder=holder)
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
