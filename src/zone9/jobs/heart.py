"""A worker that cannot beat ends itself, so that it never writes after somebody else took its tasks over.

The watch is a thread of its own: an event loop that hangs cannot stop it, and a process that was stopped and
continued finds the time gone at once. Stalled after 10 s, others take its tasks; it ends itself after 8.
"""

import os
import threading
import time
from collections.abc import Callable

BEAT_SECONDS = 3.0
STALLED_SECONDS = 10.0
ENDS_ITSELF_SECONDS = 8.0
EXIT_CODE = 70


class Heart:
    """Counts the seconds since the last beat that the database took."""

    def __init__(
        self,
        *,
        limit: float = ENDS_ITSELF_SECONDS,
        end: Callable[[int], None] = os._exit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._end = end
        self._clock = clock
        self._last = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heart", daemon=True)

    def start(self) -> None:
        self._last = self._clock()
        self._thread.start()

    def beat(self) -> None:
        """Is called when the database has taken a beat."""
        self._last = self._clock()

    def silent_for(self) -> float:
        """Returns the seconds since the last beat."""
        return self._clock() - self._last

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=2)

    def _watch(self) -> None:
        while not self._stop.wait(min(0.25, self._limit / 8)):
            if self.silent_for() > self._limit:
                self._end(EXIT_CODE)
                return
