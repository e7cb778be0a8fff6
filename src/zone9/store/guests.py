"""Every VM and container that a region lists: which to read next, and what reading them told.

A guest that no server of ours stands for is *adopted*: it is a row here and never a resource, so nothing that plans
or writes can know of it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zone9.store.database import Database, as_json, rows, run
from zone9.store.sweeps import wake_servers


@dataclass(frozen=True, slots=True)
class Due:
    """Is a VM whose config is to be read."""

    vmid: int
    node: str


async def due(database: Database, region: str, *, suspects: int, share: float, least: int) -> list[Due]:
    """Returns up to `suspects` VMs that are suspect, and of the others those that were read longest ago.

    Of those it is a share of all VMs, so that a round is over in the same time however many there are.
    """
    async with database.single() as connection:
        found = await rows(
            connection,
            """
            WITH them AS MATERIALIZED (
                SELECT vmid, node, suspect, read_at FROM guests
                WHERE region = :region AND type = 'qemu' AND missing_since IS NULL)
            (SELECT vmid, node FROM them WHERE suspect ORDER BY read_at NULLS FIRST, vmid LIMIT :suspects)
            UNION ALL
            (SELECT vmid, node FROM them WHERE NOT suspect ORDER BY read_at NULLS FIRST, vmid
             LIMIT greatest(:least, ceil((SELECT count(*) FROM them) * CAST(:share AS float8))::int))
            """,
            region=region,
            suspects=suspects,
            share=share,
            least=least,
        )
    return [Due(int(one["vmid"]), str(one["node"])) for one in found]


async def keep(database: Database, region: str, readings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Writes readings down and wakes the servers whose file is another than the loop read last."""
    if not (listed := list(readings)):
        return []
    async with database.begin() as connection:
        changed = await rows(
            connection,
            """
            WITH said AS (SELECT * FROM jsonb_to_recordset(CAST(:readings AS jsonb))
                          AS r(vmid int, digest text, uuid text, marker text, config jsonb)),
            old AS (SELECT g.vmid, g.uuid FROM guests g JOIN said USING (vmid) WHERE g.region = :region),
            kept AS (
                UPDATE guests g SET digest = said.digest, uuid = said.uuid, marker = said.marker, config = said.config,
                    read_at = z9_now(), suspect = false
                FROM said WHERE g.region = :region AND g.vmid = said.vmid)
            SELECT said.vmid FROM said
            JOIN resources r ON r.kind = 'server' AND r.phase <> 'deleted' AND r.resolved ->> 'region' = :region
                AND r.facts ->> 'vmid' = said.vmid::text
            WHERE r.observed ->> 'digest' IS DISTINCT FROM said.digest
            UNION
            -- whoever now shares an identity is looked at as well
            SELECT g.vmid FROM said JOIN old USING (vmid) JOIN guests g ON g.region = :region AND g.uuid = said.uuid
            WHERE said.uuid IS DISTINCT FROM old.uuid AND g.missing_since IS NULL
            """,
            region=region,
            readings=as_json(listed),
        )
        return await wake_servers(connection, region, [int(one["vmid"]) for one in changed])


async def not_read(database: Database, region: str, vmids: Iterable[int]) -> None:
    """Puts VMs that did not answer behind the others; they stay suspect."""
    if listed := list(vmids):
        async with database.begin() as connection:
            await run(
                connection,
                """
                UPDATE guests SET read_at = z9_now(), suspect = true
                WHERE region = :region AND vmid = ANY(CAST(:vmids AS int[]))
                """,
                region=region,
                vmids=listed,
            )
