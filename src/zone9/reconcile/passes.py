"""The passes over all regions, and the rolling audit: every config is read in its turn, suspects first.

One process makes the passes of a region at a time, by a lease. A config that somebody edited in the file itself leaves
no trace in any list; the audit finds it by its digest, within a round.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from zone9.base.errors import Later, Problem
from zone9.pve.driver import RegionDriver
from zone9.pve.inventory import GuestRow
from zone9.pve.vm import VmFile, read_file
from zone9.reconcile import sweeping
from zone9.reconcile.work import Drivers
from zone9.store import guests, regions
from zone9.store.database import Database

log = structlog.get_logger("zone9.passes")

PASS_SECONDS = 10.0
ROUND_SECONDS = 3600.0  # in which the audit reads every config; of few VMs it takes minutes
LEAST_PAUSE = 1.0  # however slow a cluster answers
LEAST_READS = 5  # a pass
MOST_SUSPECTS = 200  # a pass: after a gap of the log everything is suspect, and Proxmox has other work too
AT_ONCE = 32  # configs held in memory


@dataclass
class Passes:
    """Makes the passes of all regions; `holder` names this process in the leases."""

    database: Database
    drivers: Drivers
    holder: str
    every: float = PASS_SECONDS
    round_seconds: float = ROUND_SECONDS
    _rows: dict[str, Mapping[int, GuestRow]] = field(default_factory=dict)

    async def run(self) -> None:
        """Passes for ever; one that takes its time shortens the pause, so that a round keeps its hour."""
        while True:
            began = time.monotonic()
            try:
                held = await regions.leased(self.database, self.holder, seconds=self.every * 3)
                for lost in self._rows.keys() - set(held):
                    del self._rows[lost]  # another process may have made passes since
                await asyncio.gather(*(self.once(region) for region in held))
            except Problem as error:
                log.warning("pass failed", why=error.internal)
            except Exception:
                log.exception("pass failed")
            await asyncio.sleep(max(LEAST_PAUSE, began + self.every - time.monotonic()))

    async def once(self, region: str) -> frozenset[str]:
        """Makes one pass over one region and its share of the audit; returns the servers that were woken."""
        try:
            driver: RegionDriver = await self.drivers.of(region)
            made = await sweeping.once(self.database, driver, region, self._rows.get(region))
            self._rows[region] = made.rows
            return frozenset(made.woken) | await self.audit(region, driver)
        except Problem as error:
            # Nothing was seen, so nothing is judged: readings age, and the region's own look says what is wrong.
            log.warning("region does not answer", region=region, why=error.internal)
            return frozenset()

    async def audit(self, region: str, driver: RegionDriver) -> frozenset[str]:
        """Reads the suspects and this pass's share of all configs."""
        due = await guests.due(
            self.database,
            region,
            suspects=MOST_SUSPECTS,
            share=min(1.0, self.every / self.round_seconds),
            least=LEAST_READS,
        )
        woken: set[str] = set()
        for part in _parts(due, AT_ONCE):
            answers = await asyncio.gather(*(_read(driver, one) for one in part))
            woken.update(
                await guests.keep(
                    self.database, region, (_row(one) for one in answers if isinstance(one, VmFile))
                )
            )
            silent = (
                one.vmid for one, said in zip(part, answers, strict=True) if not isinstance(said, VmFile)
            )
            await guests.not_read(self.database, region, silent)
        return frozenset(woken)


async def _read(driver: RegionDriver, due: guests.Due) -> VmFile | None:
    """Returns None for a VM that moved, is being made, or does not answer: its turn comes again."""
    try:
        return await read_file(driver.client, due.node, due.vmid)
    except Later as error:
        log.info("not read", vmid=due.vmid, why=error.internal)
        return None
    except Problem as error:
        log.warning("not read", vmid=due.vmid, why=error.internal)
        return None


def _row(file: VmFile) -> dict[str, Any]:
    return {
        "vmid": file.vmid,
        "digest": file.digest,
        "uuid": file.uuid,
        "marker": file.marker,
        "config": dict(file.shown),
    }


def _parts(listed: list[guests.Due], size: int) -> Iterable[list[guests.Due]]:
    return (listed[start : start + size] for start in range(0, len(listed), size))
