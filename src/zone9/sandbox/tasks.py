"""Workers and their records: UPIDs, logs, exit texts, and the cluster log that tells of them.

A worker is a coroutine. What it raises as PveError is its exit text; that the HTTP call which started it had
long answered 200 is the point (pve-facts 6.1).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.clock import Clock
from zone9.sandbox.state import Cluster, Node

UPID_PARTS = 9
# Proxmox rotates its task index at about this length (pve-facts 4.3).
KEPT = 20_000
LOG_KEPT = 2_000


@dataclass(frozen=True, slots=True)
class TaskFault:
    """Is what a fault does to the task that a request starts.

    `error` ends it with that text, `leave` after its first half; `warnings` lets it work and end in
    `WARNINGS: n`; `noop` lets it do nothing and end OK; `hold` keeps it running until it is released.
    """

    error: str | None = None
    leave: bool = False
    warnings: int = 0
    noop: bool = False
    hold: bool = False


@dataclass(slots=True, eq=False)
class Task:
    """Is one worker and what is known of it afterwards."""

    upid: str
    node: str
    kind: str
    id: str
    user: str
    pid: int
    pstart: int
    starttime: int
    fault: TaskFault | None = None
    lines: list[str] = field(default_factory=list)
    exitstatus: str | None = None
    endtime: int | None = None
    stopping: bool = False
    command: str = ""
    warnings: int = 0
    # Takes back what the request had done before its worker began.
    undo: Callable[[], None] | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    parked: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    worker: "asyncio.Task[None] | None" = None

    @property
    def running(self) -> bool:
        return self.exitstatus is None

    @property
    def userid(self) -> str:
        return self.user.split("!", 1)[0]

    @property
    def tokenid(self) -> str | None:
        return self.user.split("!", 1)[1] if "!" in self.user else None

    @property
    def failed(self) -> bool:
        return self.exitstatus not in {None, "OK"} and not (self.exitstatus or "").startswith("WARNINGS: ")

    def log(self, text: str) -> None:
        self.lines += text.split("\n")

    def warn(self, text: str) -> None:
        """Adds a warning, which makes the exit text `WARNINGS: n`."""
        self.warnings += 1
        self.log(f"WARN: {text}")


Body = Callable[[Task], Awaitable[None]]


def parse_upid(upid: str) -> list[str]:
    """Takes a UPID apart, or refuses it as Proxmox does."""
    parts = upid.split(":")
    if len(parts) != UPID_PARTS or parts[0] != "UPID":
        raise refused(upid="unable to parse worker upid")
    return parts


class Tasks:
    """Starts workers and remembers them, newest last."""

    def __init__(self, clock: Clock, cluster: Cluster) -> None:
        self._clock = clock
        self._cluster = cluster
        self.by_upid: dict[str, Task] = {}
        # In the order in which they ended, which is that of Proxmox's index.
        self.finished: deque[Task] = deque(maxlen=KEPT)
        self.log: deque[dict[str, Any]] = deque(maxlen=LOG_KEPT)
        self._uid = 0

    def node_time(self, node: Node) -> int:
        return int(self._clock.now() + node.skew)

    def record(self, node: str, user: str, text: str, *, tag: str = "pvedaemon", pri: int = 6) -> None:
        """Writes a row of the cluster log."""
        self._uid += 1
        self.log.appendleft(
            {
                "uid": str(self._uid),
                "id": f"{self._uid}:{node}",
                "node": node,
                "user": user,
                "tag": tag,
                "pid": 130,
                "pri": pri,
                "time": self.node_time(self._cluster.nodes[node]),
                "msg": text,
            }
        )

    def start(
        self,
        node: str,
        kind: str,
        ident: str,
        user: str,
        body: Body,
        fault: TaskFault | None = None,
        undo: Callable[[], None] | None = None,
    ) -> Task:
        """Starts a worker and answers its record at once."""
        machine = self._cluster.nodes[node]
        pid = machine.new_pid()
        starttime = self.node_time(machine)
        pstart = int(max(0.0, self._clock.now() - machine.booted_at) * 100)
        upid = f"UPID:{node}:{pid:08X}:{pstart:08X}:{starttime:08X}:{kind}:{ident}:{user}:"
        task = Task(upid, node, kind, ident, user, pid, pstart, starttime, fault, undo=undo)
        self.by_upid[upid] = task
        if len(self.by_upid) > KEPT:
            self._forget_oldest()
        self.record(node, user, f"starting task {upid}")
        task.worker = asyncio.ensure_future(self._run(task, body))
        return task

    def release(self, upid: str | None = None) -> int:
        """Lets a held task go on, or all of them; answers how many."""
        held = [
            t for t in self.by_upid.values() if t.running and t.parked.is_set() and upid in {None, t.upid}
        ]
        for task in held:
            task.released.set()
        return len(held)

    async def stop(self, task: Task) -> None:
        """Interrupts a worker, as DELETE of a task does; it cleans up after itself."""
        if task.worker and task.running:
            task.stopping = True
            task.worker.cancel()
            await self._clock.sleep(1.0)
            await task.done.wait()

    async def kill(self, task: Task) -> None:
        """Ends a worker as SIGKILL does: nothing is cleaned up (pve-facts 6.2, clone-progress 9)."""
        if task.worker and task.running:
            task.worker.cancel()
            await task.done.wait()

    async def close(self) -> None:
        workers = [task.worker for task in self.by_upid.values() if task.worker and not task.worker.done()]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _run(self, task: Task, body: Body) -> None:
        fault = task.fault
        try:
            if fault and fault.hold:
                await self._held(task)
            if fault and task.undo and (fault.noop or (fault.error is not None and not fault.leave)):
                task.undo()
            if fault and fault.error is not None and not fault.leave:
                raise PveError(fault.error)
            if not (fault and fault.noop):
                await body(task)
            if fault and fault.error is not None:
                raise PveError(fault.error)
            if fault:
                task.warnings += fault.warnings
            self._end(task, f"WARNINGS: {task.warnings}" if task.warnings else "OK")
        except PveError as error:
            task.log(f"TASK ERROR: {error.exit_text}")
            self._end(task, error.exit_text)
        except asyncio.CancelledError:
            interrupted = (
                f"{task.command}failed: interrupted by signal" if task.command else "received interrupt"
            )
            if task.stopping:
                task.log(f"TASK ERROR: {interrupted}")
            self._end(task, interrupted if task.stopping else "unexpected status")
        except Exception as error:
            self._end(task, f"sandbox failure: {error!r}")
            raise

    @staticmethod
    async def _held(task: Task) -> None:
        """Waits to be released; one that is stopped instead cleans up, as any interrupted worker does."""
        task.parked.set()
        try:
            await task.released.wait()
        except asyncio.CancelledError:
            if task.stopping and task.undo:
                task.undo()
            raise

    def _end(self, task: Task, exitstatus: str) -> None:
        if exitstatus == "OK":
            task.log("TASK OK")
        elif exitstatus.startswith("WARNINGS: "):
            task.log(f"TASK {exitstatus}")
        task.exitstatus = exitstatus
        task.endtime = self.node_time(self._cluster.nodes[task.node])
        self.record(task.node, task.user, f"end task {task.upid} {exitstatus}", pri=3 if task.failed else 6)
        self.finished.append(task)
        task.done.set()

    def _forget_oldest(self) -> None:
        oldest = next(iter(self.by_upid))
        if not self.by_upid[oldest].running:
            del self.by_upid[oldest]
