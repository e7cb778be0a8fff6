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
    """Hands out one exclusive lock a VMID, first come first served."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queues: dict[int, deque[asyncio.Future[None]]] = {}

    def held(self, vmid: int) -> bool:
        return vmid in self._queues

    @asynccontextmanager
    async def hold(
        self, vmid: int, wait: float = 10.0, log: Callable[[str], None] | None = None
    ) -> AsyncIterator[None]:
        """Holds the lock of `vmid`; waits at most `wait` virtual seconds, and says so in a task's log."""
        if vmid in self._queues:
            await self._queue_up(vmid, wait, log)
        else:
            self._queues[vmid] = deque()
        try:
            yield
        finally:
            self._hand_over(vmid)

    async def _queue_up(self, vmid: int, wait: float, log: Callable[[str], None] | None) -> None:
        if log:
            log("trying to acquire lock...")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues[vmid].append(turn)
        timer = asyncio.ensure_future(self._clock.sleep(wait))
        try:
            await asyncio.wait({turn, timer}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._give_up(vmid, turn)
            raise
        finally:
            timer.cancel()
        if turn.done():
            if log:
                log(" OK")
            return
        self._give_up(vmid, turn)
        raise lock_timeout(vmid)

    def _give_up(self, vmid: int, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self._hand_over(vmid)
        else:
            self._queues[vmid].remove(turn)

    def _hand_over(self, vmid: int) -> None:
        queue = self._queues[vmid]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._queues[vmid]
