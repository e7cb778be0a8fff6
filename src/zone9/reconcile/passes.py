"""The pass over `/cluster/resources`: every ten seconds a region's rows are read, and a server whose row changed
is woken.

Rows are hints, never truth: they say where to look. One process makes the passes of a region at a time, by a
lease; a pass that is not complete wakes nobody for a row that vanished.
"""

import asyncio
from collections.abc import Mapping

import structlog

from zone9.base.errors import Problem
from zone9.pve import inventory
from zone9.pve.driver import RegionDriver
from zone9.pve.inventory import GuestRow
from zone9.reconcile.work import Drivers
from zone9.store import regions
from zone9.store.database import Database

log = structlog.get_logger("zone9.passes")

PASS_SECONDS = 10.0


class Passes:
    """Makes the passes of all regions; `holder` names this process in the leases."""

    def __init__(
        self, database: Database, drivers: Drivers, holder: str, *, every: float = PASS_SECONDS
    ) -> None:
        self.database = database
        self.drivers = drivers
        self._holder = holder
        self._every = every
        self._rows: dict[str, Mapping[int, GuestRow]] = {}

    async def run(self) -> None:
        """Passes for ever."""
        while True:
            try:
                for region in await regions.leased(self.database, self._holder, seconds=self._every * 3):
                    await self.once(region)
            except Problem as error:
                log.warning("pass failed", why=error.internal)
            except Exception:
                log.exception("pass failed")
            await asyncio.sleep(self._every)

    async def once(self, region: str) -> frozenset[int]:
        """Makes one pass over one region and returns the VMIDs whose servers were woken."""
        try:
            driver: RegionDriver = await self.drivers.of(region)
            seen = await inventory.read(driver.client)
        except Problem as error:
            log.warning("region does not answer", region=region, why=error.internal)
            return frozenset()
        before = self._rows.get(region)
        self._rows[region] = seen.guests
        if before is None:
            return frozenset()
        changes = inventory.changed_rows(before, seen.guests)
        suspects = changes.suspects if seen.complete else changes.appeared | changes.changed
        if suspects:
            await regions.wake_servers(self.database, region, suspects)
        return suspects
