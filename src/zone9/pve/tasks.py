"""Why: Proxmox answers most writes with a task id, and only the task knows whether it worked.

An HTTP 200 with a UPID is a receipt. This module reads what became of it, and finds a task again whose
receipt was lost. It never starts a task, and stops one only when handed a permit. What is said here of lists
and logs was recorded from Proxmox VE 9.2.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from zone9.pve.client import Client, url_path
from zone9.pve.errors import PveError, classify_exit
from zone9.pve.permit import Permit

_UPID = re.compile(
    r"UPID:(?P<node>[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?):(?P<pid>[0-9A-Fa-f]{8}):"
    r"(?P<pstart>[0-9A-Fa-f]{8,9}):(?P<starttime>[0-9A-Fa-f]{8}):"
    r"(?P<type>[^:\s]+):(?P<id>[^:\s]*):(?P<user>[^:\s]+):"
)
_PAGE = 500
_TAIL = 20


@dataclass(frozen=True, slots=True)
class Upid:
    """Is a task id in its parts; `user` has the token (`z9@pve!ctl`), `starttime` is the node's clock."""

    text: str
    node: str
    pid: int
    pstart: int
    starttime: int
    type: str
    id: str
    user: str

    @classmethod
    def parse(cls, text: str) -> Self:
        found = _UPID.fullmatch(text)
        if found is None:
            raise ValueError(f"not a task id: {text[:200]}")
        pid, pstart, start = (int(found[name], 16) for name in ("pid", "pstart", "starttime"))
        return cls(text, found["node"], pid, pstart, start, found["type"], found["id"], found["user"])


@dataclass(frozen=True, slots=True)
class TaskResult:
    """Is what a task's status said; `ok` covers warnings too, and says nothing about the world."""

    upid: Upid
    status: Literal["running", "stopped"]
    exitstatus: str | None = None
    log_tail: tuple[str, ...] = ()

    @property
    def error(self) -> PveError | None:
        return None if self.exitstatus is None else classify_exit(self.exitstatus)

    @property
    def ok(self) -> bool:
        return self.status == "stopped" and self.exitstatus is not None and self.error is None

    @property
    def warnings(self) -> int:
        text = self.exitstatus or ""
        return int(text.removeprefix("WARNINGS: ")) if self.ok and text.startswith("WARNINGS: ") else 0


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Is a row of a node's task list; `exitstatus` is None while it runs."""

    upid: Upid
    running: bool
    exitstatus: str | None
    endtime: int | None


def _upid(upid: Upid | str) -> Upid:
    return Upid.parse(upid) if isinstance(upid, str) else upid


def _path(upid: Upid, *more: str) -> str:
    return url_path("nodes", upid.node, "tasks", upid.text, *more)


async def task_status(client: Client, upid: Upid | str) -> TaskResult:
    """Reads one task once, with the end of its log where it warned or failed."""
    task = _upid(upid)
    row = await client.get(_path(task, "status"), node=task.node)
    if row.get("status") != "stopped":
        return TaskResult(task, "running")
    exitstatus = str(row.get("exitstatus", "unexpected status"))
    tail = () if exitstatus == "OK" else await log_tail(client, task)
    return TaskResult(task, "stopped", exitstatus, tail)


async def log_tail(client: Client, upid: Upid | str, lines: int = _TAIL) -> tuple[str, ...]:
    """Reads the last lines of a task's log: the list starts at the top and has 50 lines unless asked."""
    task = _upid(upid)
    first = await client.document(_path(task, "log"), node=task.node, limit=lines)
    total = int(first.get("total", 0))
    rows = first["data"]
    if total > lines:
        rows = await client.get(_path(task, "log"), node=task.node, start=total - lines, limit=lines)
    return tuple(str(row.get("t", "")) for row in rows)


async def wait(
    client: Client,
    upid: Upid | str,
    timeout: float,  # noqa: ASYNC109 - running out of time is a result here, not an error
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> TaskResult:
    """Polls a task until it stops; after `timeout` seconds the result is `running`."""
    task, end, pause = _upid(upid), clock() + timeout, 0.05
    while True:
        result = await task_status(client, task)
        left = end - clock()
        if result.status == "stopped" or left <= 0:
            return result
        await sleep(min(pause, left))
        pause = min(pause * 1.6, 1.0)


async def find(
    client: Client,
    node: str,
    *,
    since: int,
    typefilter: str | None = None,
    vmid: int | None = None,
    user: str | None = None,
) -> tuple[TaskRow, ...]:
    """Lists running and finished tasks started since then (the node's clock), newest first.

    A clone's `vmid` is its template's. `user` is a whole token id: rows name it in two forms, UPIDs in one.
    """
    found: dict[str, TaskRow] = {}
    start = 0
    while True:
        rows = await client.get(
            url_path("nodes", node, "tasks"),
            node=node,
            source="all",
            since=since,
            typefilter=typefilter,
            vmid=vmid,
            start=start,
            limit=_PAGE,
        )
        for row in rows:
            task = _row(row)
            # A task that ends between two pages comes twice: the finished row says more.
            if task.upid.text not in found or found[task.upid.text].running:
                found[task.upid.text] = task
        start += len(rows)
        if len(rows) < _PAGE:
            break
    wanted = (row for row in found.values() if user is None or row.upid.user == user)
    return tuple(sorted(wanted, key=lambda row: row.upid.starttime, reverse=True))


def _row(row: Mapping[str, Any]) -> TaskRow:
    status, end = row.get("status"), row.get("endtime")
    running = end is None and status in {None, "RUNNING"}
    return TaskRow(
        Upid.parse(str(row["upid"])),
        running,
        None if running else str(status),
        None if end is None else int(end),
    )


async def stop(client: Client, upid: Upid | str, permit: Permit) -> None:
    """Asks Proxmox to interrupt a task of ours; a stopped clone is cleaned up by Proxmox itself."""
    task = _upid(upid)
    await client.write("DELETE", _path(task), {}, node=task.node, permit=permit)
