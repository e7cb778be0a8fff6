"""The process that makes the passes which `bench.passes` measures: told on standard input where, it prints what it found.

First it reads everything once, then it makes steady passes over a region in which nothing changes, then passes back to
back while somebody edits, and last the baseline: each finds the region as the one before left it.
"""

import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import structlog

from bench.kit import median
from zone9.model.asking import Scope
from zone9.pve import inventory
from zone9.pve.client import _KEEPALIVE
from zone9.pve.driver import RegionDriver
from zone9.pve.vm import read_file
from zone9.reconcile.passes import Passes
from zone9.reconcile.sweeping import RIGHTS_EVERY
from zone9.store import database
from zone9.wiring import Zone9, compose

STEADY = 2 * RIGHTS_EVERY  # so that what is asked in one pass of six has its true share of the mean
PAUSE = _KEEPALIVE + 0.5  # a pass of every ten seconds finds its connections closed, and so do these
AT_ONCE = 8  # of the baseline
EDITS = 7
CONFIG = "GET nodes/*/qemu/*/config"
PROJECT = "prj_bench"
ADMIN = Scope(token="tok_bench", actor="bench", role="admin", project=PROJECT)


@dataclass
class Measuring:
    """Is one region under measurement; `seen` are the requests since it was last cleared."""

    zone9: Zone9
    region: str
    control_url: str
    seen: list[str] = field(default_factory=list)

    async def of(self, region: str) -> RegionDriver:
        """Hands out drivers, as `Passes` asks for them, that count what is read through them."""
        driver = await self.zone9.drivers.of(region)
        return driver.recording(lambda method, path: self.seen.append(f"{method} {path.removeprefix('/')}"))

    async def everything(self) -> dict[str, Any]:
        passes = Passes(self.zone9.database, self, "bench")
        found: dict[str, Any] = {"before": _memory("VmRSS"), "first": 0}
        began = time.perf_counter()
        while found["first"] == 0 or await self._one("SELECT count(*) FROM guests WHERE suspect"):
            await passes.once(self.region)
            found["first"] += 1
        found["first_wall"] = time.perf_counter() - began
        found["vms"] = await self._one("SELECT count(*) FROM guests")
        found |= await self._steady(passes)
        found["peak"] = _memory("VmHWM")
        found["noticed"] = await self._noticed(passes, most=2 * median(found["wall"]))
        # A pass that failed would be a cheap one, and only the log would tell.
        assert await self._one("SELECT passes FROM sweeps") >= found["first"] + STEADY + EDITS
        assert await self._one("SELECT frozen = '[]' AND gaps = 0 FROM sweeps"), "these passes prove nothing"
        driver = await self.of(self.region)
        cpu, wall, requests = await self._timed(lambda: _read_all(driver))
        found["everything"] = {"cpu": cpu, "wall": wall, "requests": len(requests)}
        return found

    async def _steady(self, passes: Passes) -> dict[str, Any]:
        measured = []
        for _ in range(STEADY):
            await asyncio.sleep(PAUSE)
            measured.append(await self._timed(lambda: passes.once(self.region)))
        asked = [request for _cpu, _wall, requests in measured for request in requests]
        configs = [request for request in asked if _sort(request) == CONFIG]
        # A round is computed from the reads of a pass, which is right only while no VM has two turns in one.
        assert len(set(configs)) == len(configs)
        return {
            "cpu": [cpu for cpu, _wall, _requests in measured],
            "wall": [wall for _cpu, wall, _requests in measured],
            "requests": {sort: number / STEADY for sort, number in Counter(map(_sort, asked)).items()},
        }

    async def _timed(self, work: Callable[[], Awaitable[Any]]) -> tuple[float, float, list[str]]:
        """Returns CPU seconds of this process, wall seconds, and the requests."""
        self.seen.clear()
        cpu, wall = time.process_time(), time.perf_counter()
        await work()
        return time.process_time() - cpu, time.perf_counter() - wall, list(self.seen)

    async def _noticed(self, passes: Passes, most: float) -> list[float]:
        """Returns seconds from the edits' answers to their rows' new digests, while one pass follows the other."""

        async def for_ever() -> None:
            while True:
                await passes.once(self.region)

        dice = random.Random(1)
        vmids = await self._one("SELECT array_agg(vmid ORDER BY vmid) FROM guests WHERE NOT template")
        making, times = asyncio.create_task(for_ever()), []
        async with httpx2.AsyncClient(trust_env=False) as http:
            for number, vmid in enumerate(dice.sample(vmids, EDITS)):
                await asyncio.sleep(dice.uniform(0, most))  # at any moment of a pass
                before = await self._digest(vmid)
                edit = {"vmid": vmid, "description": f"edited {number}"}
                answer = await http.post(f"{self.control_url}/operator/set", json=edit)
                began = time.perf_counter()
                answer.raise_for_status()
                while await self._digest(vmid) == before:
                    assert not making.done()
                    await asyncio.sleep(0.005)
                times.append(time.perf_counter() - began)
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        return times

    async def _digest(self, vmid: int) -> str:
        return str(await self._one("SELECT digest FROM guests WHERE vmid = :vmid", vmid=vmid))

    async def _one(self, sql: str, **values: Any) -> Any:
        async with self.zone9.database.single() as connection:
            found = await database.row(connection, sql, **values)
        assert found is not None
        [value] = found.values()
        return value


async def _read_all(driver: RegionDriver) -> None:
    """Is the baseline: what is listed is read in full over the same connections, and nothing is written down."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(guest: inventory.GuestRow) -> None:
        async with slots:
            assert await read_file(driver.client, guest.node, guest.vmid) is not None

    await asyncio.gather(*map(one, (await inventory.read(driver.client)).guests.values()))


def _sort(request: str) -> str:
    return re.sub(r"(?<=qemu/)\d+", "*", re.sub(r"(?<=nodes/)[^/]+", "*", request))


def _memory(what: str) -> float:
    """Returns MiB as the kernel counts them; getrusage's peak may be that of the process which started this one."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) / 1024


async def _attach(zone9: Zone9, told: dict[str, Any]) -> str:
    """Asks for the region and lets its self-test find it to be right; without that no pass is a good one."""
    token_id, secret = told["token"].split("=", 1)
    spec = {
        "urls": [told["url"]],
        "fingerprint": told["fingerprint"],
        "token_id": token_id,
        "token_secret": secret,
    }
    async with zone9.database.begin() as connection:
        await database.run(connection, "INSERT INTO projects (id, name) VALUES (:id, 'default')", id=PROJECT)
        answer = await zone9.asking.create(connection, ADMIN, "region", "r1", spec)
    await zone9.loop.run(answer.resource)
    return answer.resource


async def _main(told: dict[str, Any]) -> dict[str, Any]:
    zone9 = compose(told["database"], Path(told["key"]))
    try:
        return await Measuring(zone9, await _attach(zone9, told), told["control_url"]).everything()
    finally:
        await zone9.close()


if __name__ == "__main__":
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(30),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    print(json.dumps(asyncio.run(_main(json.load(sys.stdin)))))
