"""What is under /nodes/{node}/tasks, and /cluster/tasks and /cluster/log.

Running tasks show only with source=active or all; their user is still the whole token id, which finished rows
have split off (pve-facts 6.2, clone-progress 7).
"""

from typing import Any

from zone9.sandbox.answers import refused
from zone9.sandbox.call import Call, Listing, serves
from zone9.sandbox.tasks import Task, parse_upid
from zone9.sandbox.vm.values import split_list

TASKS = "/nodes/{node}/tasks"
# Finished tasks a node that /cluster/tasks still shows (pve-facts 4.3).
SHOWN = 25


def _find(call: Call) -> Task:
    upid = str(call.params["upid"])
    parse_upid(upid)
    task = call.world.tasks.by_upid.get(upid)
    if task is None:
        raise refused(upid="no such task")
    return task


def _own(call: Call, task: Task) -> bool:
    return call.user in {task.user, task.userid}


@serves("GET", TASKS)
async def listing(call: Call) -> Any:
    params = call.params
    source = params.get("source", "archive")
    sees_all = call.may(f"/nodes/{call.node}", "Sys.Audit")
    wanted = [task for task in _ordered(call) if task.node == call.node]
    wanted = [task for task in wanted if (sees_all or _own(call, task)) and _passes(task, params, source)]
    start, limit = int(params.get("start", 0)), int(params.get("limit", 50))
    end = start + limit if limit else None
    return Listing([_row(task) for task in wanted[start:end]], len(wanted))


def _ordered(call: Call) -> list[Task]:
    tasks = call.world.tasks
    running = [task for task in tasks.by_upid.values() if task.running]
    return [*running, *reversed(tasks.finished)]


def _passes(task: Task, params: dict[str, Any], source: str) -> bool:
    if task.running and source not in {"active", "all"}:
        return False
    if not task.running and source == "active":
        return False
    if "vmid" in params and task.id != str(params["vmid"]):
        return False
    if params.get("errors") and not task.failed:
        return False
    if "typefilter" in params and task.kind != params["typefilter"]:
        return False
    if "since" in params and task.starttime < int(params["since"]):
        return False
    if "until" in params and task.starttime > int(params["until"]):
        return False
    if "userfilter" in params and str(params["userfilter"]).lower() not in task.user.lower():
        return False
    return "statusfilter" not in params or _status(task) in split_list(str(params["statusfilter"]))


def _status(task: Task) -> str:
    if task.exitstatus == "OK":
        return "ok"
    if task.exitstatus is None or task.exitstatus == "unexpected status":
        return "unknown"
    return "error" if task.failed else "warning"


def _row(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = {
        "upid": task.upid,
        "node": task.node,
        "pid": task.pid,
        "pstart": task.pstart,
        "starttime": task.starttime,
        "type": task.kind,
        "id": task.id,
    }
    if task.running:
        return {**row, "user": task.user, "status": "RUNNING", "saved": "0"}
    row.update(user=task.userid, status=task.exitstatus, endtime=task.endtime)
    if task.tokenid:
        row["tokenid"] = task.tokenid
    return row


@serves("GET", f"{TASKS}/{{upid}}")
async def index(call: Call) -> Any:
    return [{"name": "log"}, {"name": "status"}]


@serves("GET", f"{TASKS}/{{upid}}/status")
async def status(call: Call) -> Any:
    task = _find(call)
    if not _own(call, task):
        call.must(f"/nodes/{task.node}", "Sys.Audit")
    row: dict[str, Any] = {
        "upid": task.upid,
        "node": task.node,
        "pid": task.pid,
        "pstart": task.pstart,
        "starttime": task.starttime,
        "type": task.kind,
        "id": task.id,
        "user": task.userid,
        "status": "running" if task.running else "stopped",
    }
    if task.tokenid:
        row["tokenid"] = task.tokenid
    if not task.running:
        row["exitstatus"] = task.exitstatus
    return row


@serves("GET", f"{TASKS}/{{upid}}/log")
async def log(call: Call) -> Any:
    task = _find(call)
    if not _own(call, task):
        call.must(f"/nodes/{task.node}", "Sys.Audit")
    start, limit = int(call.params.get("start", 0)), int(call.params.get("limit", 50))
    end = start + limit if limit else None
    numbered = [{"n": number, "t": line} for number, line in enumerate(task.lines, 1)]
    return Listing(
        numbered[start:end] or ([] if numbered else [{"n": 1, "t": "no content"}]), len(numbered) or 1
    )


@serves("DELETE", f"{TASKS}/{{upid}}")
async def stop(call: Call) -> Any:
    task = _find(call)
    if not _own(call, task):
        call.must(f"/nodes/{task.node}", "Sys.Modify")
    await call.world.tasks.stop(task)


@serves("GET", "/cluster/tasks")
async def cluster_tasks(call: Call) -> Any:
    sees_all = call.may("/", "Sys.Audit")
    rows: list[dict[str, Any]] = []
    shown: dict[str, int] = {}
    for task in _ordered(call):
        if not sees_all and not _own(call, task):
            continue
        if not task.running:
            shown[task.node] = shown.get(task.node, 0) + 1
            if shown[task.node] > SHOWN:
                continue
        row = _row(task)
        row.pop("pstart")
        row["user"] = task.userid
        if task.tokenid:
            row["tokenid"] = task.tokenid
        if task.running:
            row.pop("status")
        else:
            row.pop("pid")
            row["saved"] = "1"
        rows.append(row)
    return rows


@serves("GET", "/cluster/log")
async def cluster_log(call: Call) -> Any:
    limit = int(call.params.get("max", 50))
    sees_all = call.may("/", "Sys.Syslog")
    rows = [row for row in call.world.tasks.log if sees_all or row["user"] == call.user]
    return rows[: limit or None]
