"""Virtual time: how long Proxmox takes, without a test having to wait for it.

Three ways to run it. With `time_scale` above zero a virtual second takes that many real ones. At zero a wait
takes no time at all: when nothing else can run, the clock leaps to the next one that waits. In manual mode
time stands still until `advance` is called. Node time, task durations, lock waits and lags all come from here.
"""

import asyncio
import heapq
import itertools
import time

# Rounds of the event loop that everything runnable gets before time moves.
SETTLE = 3


class Clock:
    """Tells virtual time in seconds since 1970 and makes things wait for it."""

    def __init__(self, *, time_scale: float = 1.0, manual: bool = False, start: float | None = None) -> None:
        self._scale = time_scale
        self._manual = manual
        self._anchor_real = time.monotonic()
        self._anchor = time.time() if start is None else start
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._leaping = False

    @property
    def time_scale(self) -> float:
        return self._scale

    @time_scale.setter
    def time_scale(self, scale: float) -> None:
        self._rebase(self.now())
        self._scale = scale

    @property
    def manual(self) -> bool:
        return self._manual

    @property
    def leaps(self) -> bool:
        """Tells whether waits cost no real time."""
        return not self._manual and self._scale == 0

    def now(self) -> float:
        if self._manual:
            return self._anchor
        rate = 1 / self._scale if self._scale else 1.0
        return self._anchor + (time.monotonic() - self._anchor_real) * rate

    async def sleep(self, seconds: float) -> None:
        """Waits for virtual seconds, as a worker or a request does while it works."""
        if seconds <= 0:
            return
        if self._manual or self._scale == 0:
            await self._wait(self.now() + seconds)
        else:
            await asyncio.sleep(seconds * self._scale)

    async def until(self, moment: float) -> None:
        """Waits for a moment without making it come: at scale zero it comes with real time and others' leaps."""
        if self._manual:
            if moment > self._anchor:
                await self._wait(moment)
            return
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110 - the clock leaps, nobody tells
            await asyncio.sleep(min(left, 0.02) if self._scale == 0 else left * self._scale)

    async def advance(self, seconds: float) -> None:
        """Moves a manual clock on; every wait that ends meanwhile ends in order, and gets to run first."""
        end = self.now() + seconds
        await self._settle()
        while self._waiting and self._waiting[0][0] <= end:
            self._rebase(max(self.now(), self._waiting[0][0]))
            self._wake_first()
            await self._settle()
        self._rebase(end)
        await self._settle()

    def _rebase(self, moment: float) -> None:
        self._anchor_real = time.monotonic()
        self._anchor = moment

    async def _wait(self, moment: float) -> None:
        loop = asyncio.get_running_loop()
        mark = loop.create_future()
        heapq.heappush(self._waiting, (moment, next(self._order), mark))
        if not self._manual and not self._leaping:
            self._leaping = True
            loop.call_soon(self._leap, loop, SETTLE)
        await mark

    def _leap(self, loop: asyncio.AbstractEventLoop, rounds: int) -> None:
        if rounds:
            loop.call_soon(self._leap, loop, rounds - 1)
            return
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        if not self._waiting:
            self._leaping = False
            return
        self._rebase(max(self.now(), self._waiting[0][0]))
        self._wake_first()
        loop.call_soon(self._leap, loop, SETTLE)

    def _wake_first(self) -> None:
        _, _, mark = heapq.heappop(self._waiting)
        if not mark.done():
            mark.set_result(None)

    @staticmethod
    async def _settle() -> None:
        for _ in range(4 * SETTLE):
            await asyncio.sleep(0)
