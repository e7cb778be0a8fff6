"""Child processes of `zone9 serve`: each that ends is started again after a pause, and counted.

They die with their parent, however it ends: the kernel is asked for it (PR_SET_PDEATHSIG) before they begin.
The pause doubles to half a minute while a child keeps ending, and is short again after a minute without trouble.
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
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Role:
    """Is one child: its name, and its arguments after `python`."""

    name: str
    arguments: tuple[str, ...]


class Supervisor:
    """Keeps one process for each role, until `end` is set."""

    def __init__(
        self,
        roles: list[Role],
        environment: dict[str, str],
        restarted: Callable[[str, int, int], Awaitable[None]],
        end: asyncio.Event,
    ) -> None:
        self._roles = roles
        self._environment = environment
        self._restarted = restarted
        self._end = end

    async def run(self) -> None:
        """Supervises until it is told to end; returns when no child is left."""
        async with asyncio.TaskGroup() as group:
            for role in self._roles:
                group.create_task(self._keep(role))

    async def _keep(self, role: Role) -> None:
        pause, restarts, ended = FIRST_PAUSE, 0, asyncio.create_task(self._end.wait())
        while not self._end.is_set():
            began = time.monotonic()
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                *role.arguments,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                preexec_fn=die_with(os.getpid(), signal.SIGKILL),
                start_new_session=True,  # Ctrl-C reaches the supervisor alone, which ends them in order
            )
            log.info("started", role=role.name, pid=child.pid, restarts=restarts)
            waiting = asyncio.create_task(child.wait())
            await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
            if self._end.is_set():
                await _finish(child, waiting)
                return
            restarts += 1
            pause = FIRST_PAUSE if time.monotonic() - began > STEADY_SECONDS else pause
            log.error(
                "ended by itself",
                role=role.name,
                pid=child.pid,
                exit=child.returncode,
                restarts=restarts,
                pause=pause,
            )
            with contextlib.suppress(Exception):  # counting must not end what it counts
                await self._restarted(role.name, child.returncode or 0, restarts)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), pause)
            pause = min(pause * 2, LONGEST_PAUSE)


async def _finish(child: asyncio.subprocess.Process, waiting: "asyncio.Task[int]") -> None:
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        await asyncio.wait_for(asyncio.shield(waiting), PATIENCE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await waiting


def on_ending(end: asyncio.Event) -> None:
    """Sets `end` at SIGINT, SIGTERM and SIGHUP, from now on."""
    loop = asyncio.get_running_loop()
    for number in endings():
        loop.add_signal_handler(number, end.set)


def endings() -> list[signal.Signals]:
    """Returns the signals that end a process; under nohup a hang-up is none of them."""
    return [one for one in ENDINGS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]


def die_with(parent: int, number: signal.Signals) -> Callable[[], None]:
    """Returns what a child does between fork and exec, so that it gets `number` when `parent` ends."""
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it ended between fork and prctl
            os._exit(1)

    return ask
