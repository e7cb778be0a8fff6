"""What the passes and the drivers need to know of regions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zone9.base.sealing import Sealer
from zone9.store.database import Database, row, rows
from zone9.store.looks import open_secret


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """Is a region's version, what its last self-test found wrong, and how it is reached where that is news."""

    version: int
    wanting: str
    spec: Mapping[str, Any] | None = None
    secret: str | None = field(default=None, repr=False)


async def leased(database: Database, holder: str, *, seconds: float) -> list[str]:
    """Takes or renews the lease on each live region that nobody else holds; returns those that are ours."""
    async with database.begin() as connection:
        found = await rows(
            connection,
            """
            INSERT INTO leases (name, slot, holder, expires_at)
            SELECT 'pass:' || id, 1, :holder, z9_now() + make_interval(secs => :seconds)
            FROM resources WHERE kind = 'region' AND phase = 'live'
            ON CONFLICT (name, slot) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
            WHERE leases.holder = excluded.holder OR leases.expires_at < z9_now()
            RETURNING name
            """,
            holder=holder,
            seconds=seconds,
        )
        return [str(one["name"]).removeprefix("pass:") for one in found]


async def connection_facts(
    database: Database, region: str, sealer: Sealer, known_version: int | None
) -> ConnectionFacts | None:
    """Returns what a driver of this region needs; None when the region is gone."""
    async with database.single() as connection:
        found = await row(
            connection,
            """
            SELECT intent_version, spec, spec ->> 'token_ref' AS ref, secrets.sealed,
                   jsonb_path_query_array(observed, '$.findings[*] ? (@.severity == "error").sentence') AS wanting
            FROM resources LEFT JOIN secrets ON secrets.id = spec ->> 'token_ref'
            WHERE resources.id = :id AND kind = 'region' AND phase <> 'deleted'
            """,
            id=region,
        )
    if found is None:
        return None
    version, wanting = int(found["intent_version"]), " ".join(found["wanting"] or ())
    if version == known_version:
        return ConnectionFacts(version, wanting)
    return ConnectionFacts(version, wanting, dict(found["spec"]), open_secret(sealer, found))
