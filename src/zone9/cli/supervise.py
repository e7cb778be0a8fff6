"""Child processes of `zone9 serve`: each that ends is started again after a pause, and counted.

They die with their parent, however it ends: the kernel is asked for it (PR_SET_PDEATHSIG) before they begin.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger("zone9.supervise")

FIRST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS, PATIENCE = 0.5, 30.0, 60.0, 15.0
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Role:
    """Is one kind of child: its name and its arguments after `python -m zone9.cli`."""

    name: str
    arguments: tuple[str, ...]


class Supervisor:
    """Keeps one process for each role, until `end` is set."""

    def __init__(
        self, roles: list[Role], environment: dict[str, str], restarted: Callable[[str, int], Awaitable[None]]
    ) -> None:
        self._roles = roles
        self._environment = environment
        self._restarted = restarted
        self.end = asyncio.Event()

    async def run(self) -> None:
        """Supervises until SIGINT, SIGTERM or `end`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.end.set)
        async with asyncio.TaskGroup() as group:
            for role in self._roles:
                group.create_task(self._keep(role))

    async def _keep(self, role: Role) -> None:
        pause, ended = FIRST_PAUSE, asyncio.create_task(self.end.wait())
        while not self.end.is_set():
            began = time.monotonic()
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "zone9.cli",
                *role.arguments,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
            log.info("started", role=role.name, pid=child.pid)
            waiting = asyncio.create_task(child.wait())
            await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
            if self.end.is_set():
                await _finish(child, waiting)
                return
            steady = time.monotonic() - began > STEADY_SECONDS
            pause = FIRST_PAUSE if steady else min(pause * 2, LONGEST_PAUSE)
            log.error("ended by itself", role=role.name, pid=child.pid, exit=child.returncode, pause=pause)
            with contextlib.suppress(Exception):
                await self._restarted(role.name, child.returncode or 0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.end.wait(), pause)


async def _finish(child: asyncio.subprocess.Process, waiting: "asyncio.Task[int]") -> None:
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        await asyncio.wait_for(waiting, PATIENCE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # the parent ended between fork and prctl
        os._exit(1)
