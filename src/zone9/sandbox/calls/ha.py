"""What is under /cluster/ha. The manager itself is not there: states are asked for and stay queued.

That is how the recorded node, which ran no manager, answered too (pve-facts 6.2, ha).
"""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves

HA = "/cluster/ha"
NO_GROUPS = "cannot index groups: ha groups have been migrated to rules"


def _sid(call: Call) -> str:
    sid = str(call.params["sid"])
    return sid if ":" in sid else f"vm:{sid}"


def _row(sid: str, values: dict[str, str]) -> dict[str, Any]:
    shown = {key: value for key, value in values.items() if key in {"state", "comment"}}
    return {"sid": sid, "type": "vm", "digest": "0" * 40, **shown}


@serves("GET", HA)
async def index(call: Call) -> Any:
    return [{"id": name} for name in ("status", "resources", "groups", "rules")]


@serves("GET", f"{HA}/status/current")
async def status(call: Call) -> Any:
    cluster = call.world.cluster
    quorate = int(cluster.quorate)
    found: list[dict[str, Any]] = [
        {
            "id": "quorum",
            "type": "quorum",
            "node": call.serving,
            "status": "OK" if quorate else "No quorum on node",
            "quorate": quorate,
        },
        {
            "id": "fencing",
            "type": "fencing",
            "node": call.serving,
            "armed-state": "standby",
            "status": "standby (CRM watchdog standby)",
        },
    ]
    for sid, values in cluster.ha.items():
        vm = cluster.vms.get(int(sid.split(":")[1]))
        node = vm.node if vm else call.serving
        row = {
            "id": f"service:{sid}",
            "sid": sid,
            "type": "service",
            "node": node,
            "state": "queued",
            "request_state": values["state"],
            "status": f"{sid} ({node}, queued)",
            "failback": 1,
            "max_relocate": 1,
            "max_restart": 1,
        }
        found.append(row | ({"comment": values["comment"]} if "comment" in values else {}))
    return found


@serves("GET", f"{HA}/status/manager_status")
async def manager(call: Call) -> Any:
    quorum = {"quorate": str(int(call.world.cluster.quorate)), "node": call.serving}
    return {"manager_status": {"node_status": {}}, "quorum": quorum}


@serves("GET", f"{HA}/groups")
async def groups(call: Call) -> Any:
    raise PveError(NO_GROUPS)


@serves("GET", f"{HA}/rules")
async def rules(call: Call) -> Any:
    return []


@serves("GET", f"{HA}/resources")
async def resources(call: Call) -> Any:
    return [_row(sid, values) for sid, values in call.world.cluster.ha.items()]


@serves("GET", f"{HA}/resources/{{sid}}")
async def resource(call: Call) -> Any:
    sid = _sid(call)
    values = call.world.cluster.ha.get(sid)
    if values is None:
        raise PveError(f"no such resource '{sid}'")
    return _row(sid, values)


@serves("POST", f"{HA}/resources")
async def add(call: Call) -> Any:
    sid = _sid(call)
    cluster = call.world.cluster
    if int(sid.split(":")[1]) not in cluster.vms:
        raise PveError(f"resource '{sid}' does not exist in cluster")
    if sid in cluster.ha:
        raise PveError(f"create resource failed: resource ID '{sid}' already defined")
    cluster.ha[sid] = {"state": str(call.params.get("state", "started"))}
    if "comment" in call.params:
        cluster.ha[sid]["comment"] = str(call.params["comment"])


@serves("PUT", f"{HA}/resources/{{sid}}")
async def change(call: Call) -> Any:
    sid = _sid(call)
    values = call.world.cluster.ha.get(sid)
    if values is None:
        raise PveError(f"no such resource '{sid}'")
    for key in ("state", "comment"):
        if key in call.params:
            values[key] = str(call.params[key])


@serves("DELETE", f"{HA}/resources/{{sid}}")
async def drop(call: Call) -> Any:
    sid = _sid(call)
    if call.world.cluster.ha.pop(sid, None) is None:
        raise PveError(f"cannot delete service '{sid}', not HA managed!")
