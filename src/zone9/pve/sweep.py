"""Why: ten thousand VMs are watched with 5 + N requests a pass, N being the nodes, however many VMs there are.

The lists say where to look: rows that changed, what the cluster log and the tasks tell of, tasks that ended since.
Nothing here decides what became of a VM. A node that does not answer is a gap of the pass, never a reason to
believe less of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zone9.base.together import together
from zone9.pve import acts
from zone9.pve.acts import Act
from zone9.pve.client import Client, url_path
from zone9.pve.errors import PveError
from zone9.pve.inventory import Inventory, assemble
from zone9.pve.tasks import Upid

LOG_ROWS = 1000
TASK_ROWS = 500
# `since` compares the START of a task; what runs is listed whenever it began, so seconds are enough.
OVERLAP_SECONDS = 60
FIRST_SECONDS = 3600  # what the first pass of all wants to know


@dataclass(frozen=True, slots=True)
class Cursor:
    """Is where the pass before read to.

    `running` are tasks that had not ended then, with their guests; `known` those of the overlap that had.
    """

    log_seen: Mapping[str, int] = field(default_factory=dict)
    tasks_since: int = 0
    running: Mapping[str, int] = field(default_factory=dict)
    known: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Swept:
    """Is what one pass read.

    `touched` are the guests that somebody (ourselves too) did something to since the cursor, or whose task ended.
    `log_gap`: rows or tasks may have been missed, so everything is to be looked at.
    """

    inventory: Inventory
    acts: tuple[Act, ...] = field(repr=False)
    touched: frozenset[int]
    log_gap: bool
    cursor: Cursor
    requests: int
    skew: float | None


async def sweep(client: Client, cursor: Cursor) -> Swept:
    """Makes one pass. Raises what reading the lists raises: a failed pass is no pass."""
    status, resources, log, tasks, ha = await together(
        client.get("/cluster/status"),
        client.get("/cluster/resources"),
        client.get("/cluster/log", max=LOG_ROWS),
        client.get("/cluster/tasks"),
        client.get("/cluster/ha/status/current"),
    )
    seen = assemble(status, resources, client.witness)
    online = sorted(name for name, node in seen.nodes.items() if node.status == "online")
    now = int(client.node_now())
    since = cursor.tasks_since - OVERLAP_SECONDS if cursor.tasks_since else now - FIRST_SECONDS
    answers = await together(*(_tasks_of(client, node, since) for node in online))
    gaps = [
        f"Node {node} does not tell its tasks."
        for node, rows in zip(online, answers, strict=True)
        if rows is None
    ]
    gaps += [f"High availability is wanting: {row.get('status')}." for row in ha if _no_quorum(row)]
    rows = {str(row["upid"]): row for part in (tasks, *(one or () for one in answers)) for row in part}
    full = any(one is not None and len(one) >= TASK_ROWS for one in answers)
    told, running = _of_tasks(rows)
    from_log = acts.of_log(log)
    ended = {vmid for upid, vmid in cursor.running.items() if upid not in running}
    new = [act for act in (*from_log, *told) if _is_new(act, cursor, since)]
    return Swept(
        inventory=_with(seen, gaps),
        acts=tuple(new),
        touched=frozenset({act.vmid for act in new} | ended),
        log_gap=full or acts.has_gap(log, cursor.log_seen),
        cursor=Cursor(
            acts.last_seen(log, cursor.log_seen),
            now,
            running,
            frozenset(act.uid for act in told if act.at >= now - OVERLAP_SECONDS) - running.keys(),
        ),
        requests=5 + len(online),
        skew=client.last_date_skew,
    )


async def _tasks_of(client: Client, node: str, since: int) -> list[dict[str, Any]] | None:
    try:
        rows: list[dict[str, Any]] = await client.get(
            url_path("nodes", node, "tasks"), node=node, source="all", since=since, limit=TASK_ROWS
        )
    except PveError:
        return None
    return rows


def _of_tasks(rows: Mapping[str, Mapping[str, Any]]) -> tuple[list[Act], dict[str, int]]:
    """Returns what the tasks tell of, and the running ones with their guests."""
    told: list[Act] = []
    running: dict[str, int] = {}
    for text, row in rows.items():
        try:
            act = acts.of_task(Upid.parse(text))
        except ValueError:
            continue  # a task of a kind that this code does not know is no act on a guest
        if act is not None:
            told.append(act)
            if row.get("endtime") is None:
                running[text] = act.vmid
    return told, running


def _is_new(act: Act, cursor: Cursor, since: int) -> bool:
    if act.uid.startswith("log:"):
        uid, _, node = act.uid.removeprefix("log:").partition(":")
        return int(uid) > cursor.log_seen.get(node, -1)
    return act.at >= since and act.uid not in cursor.running and act.uid not in cursor.known


def _no_quorum(row: Mapping[str, Any]) -> bool:
    return row.get("type") == "quorum" and str(row.get("quorate", 1)) != "1"


def _with(seen: Inventory, gaps: list[str]) -> Inventory:
    return Inventory(
        seen.guests, seen.nodes, seen.storages, seen.quorate, seen.cluster, (*seen.gaps, *gaps), seen.witness
    )
