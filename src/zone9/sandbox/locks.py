"""The config lock of each VM: what `flock` on /var/lock/qemu-server is to the real code.

It is not the `lock:` line of a config. A request or worker that does not get it in time fails with
"can't lock file ... - got timeout" (10 s usually, 1 s for a clone, 5 s for a create; pve-facts 6.22).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from zone9.sandbox.answers import lock_timeout
from zone9.sandbox.clock import Clock


class ConfigLocks:
    """Hands out one lock a VMID, exclusive or shared, first come first served."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Who holds it: -1 is one exclusively, n is n together.
        self._held: dict[int, int] = {}
        self._queues: dict[int, deque[tuple[asyncio.Future[None], bool]]] = {}

    def held(self, vmid: int) -> bool:
        return vmid in self._held

    @asynccontextmanager
    async def hold(
        self, vmid: int, wait: float = 10.0, log: Callable[[str], None] | None = None, *, shared: bool = False
    ) -> AsyncIterator[None]:
        """Holds the lock of `vmid`; waits at most `wait` virtual seconds, and says so in a task's log."""
        if self._free(vmid, shared=shared) and not self._queues.get(vmid):
            self._take(vmid, shared=shared)
        else:
            await self._queue_up(vmid, wait, log, shared=shared)
        try:
            yield
        finally:
            self._let_go(vmid)

    def _free(self, vmid: int, *, shared: bool) -> bool:
        holders = self._held.get(vmid, 0)
        return holders == 0 or (shared and holders > 0)

    def _take(self, vmid: int, *, shared: bool) -> None:
        self._held[vmid] = self._held.get(vmid, 0) + 1 if shared else -1

    async def _queue_up(
        self, vmid: int, wait: float, log: Callable[[str], None] | None, *, shared: bool
    ) -> None:
        if log:
            log("trying to acquire lock...")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(vmid, deque()).append((turn, shared))
        timer = asyncio.ensure_future(self._clock.sleep(wait))
        try:
            await asyncio.wait({turn, timer}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._give_up(vmid, turn, shared=shared)
            raise
        finally:
            timer.cancel()
        if turn.done():
            if log:
                log(" OK")
            return
        self._give_up(vmid, turn, shared=shared)
        raise lock_timeout(vmid)

    def _give_up(self, vmid: int, turn: asyncio.Future[None], *, shared: bool) -> None:
        if turn.done():
            self._let_go(vmid)
        else:
            self._queues[vmid].remove((turn, shared))
            self._hand_over(vmid)

    def _let_go(self, vmid: int) -> None:
        holders = self._held[vmid]
        if holders > 1:
            self._held[vmid] = holders - 1
        else:
            del self._held[vmid]
        self._hand_over(vmid)

    def _hand_over(self, vmid: int) -> None:
        queue = self._queues.get(vmid)
        while queue and self._free(vmid, shared=queue[0][1]):
            turn, shared = queue.popleft()
            if not turn.done():
                self._take(vmid, shared=shared)
                turn.set_result(None)
        if queue is not None and not queue:
            del self._queues[vmid]
