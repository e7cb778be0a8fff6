"""One connection that listens for changes, for a whole process: streams and waiting requests hang on this bell.

A notification says only that something changed; whoever wakes reads the rows. After every new LISTEN, and every
15 seconds, everybody is woken anyway: a lost notification delays, it never hides.
"""

import asyncio
import contextlib

import psycopg

from zone9.store.urls import libpq_url

CHANNEL = "z9_events"
ANYWAY_SECONDS = 15.0


class Bell:
    """Rings whenever something changed. `listen` runs for the life of the process; many may `wait`."""

    def __init__(self, url: str) -> None:
        self._url = libpq_url(url)
        self._rung = asyncio.Event()
        self.connected = False

    def ring(self) -> None:
        """Wakes everybody who waits now; those who come later wait for the next one."""
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    async def wait(self, seconds: float) -> None:
        """Returns at the next ring, or when the time is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), min(seconds, ANYWAY_SECONDS))

    async def listen(self) -> None:
        """Listens until it is cancelled, and connects again after a pause when the database went away."""
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}")
                    self.connected = True
                    self.ring()
                    async for _ in connection.notifies():
                        self.ring()
            except psycopg.Error:
                pass
            self.connected = False
            await asyncio.sleep(1.0)
