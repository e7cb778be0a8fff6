"""Containers: they are there, take numbers and are shown; nothing can be done to them.

zone9 drives no container, but meets them in every list and must not take their numbers. The rows have the fields
that Proxmox's schema names for them; their values were not recorded.
"""

import hashlib
from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.state import Container
from zone9.sandbox.vm.values import parse_property_string, parse_size
from zone9.sandbox.world import World

CONTAINERS = "/nodes/{node}/lxc"
CONTAINER = "/nodes/{node}/lxc/{vmid}"
NUMBERS = frozenset({"cores", "memory", "onboot", "swap", "template", "unprivileged"})


def resource(world: World, container: Container, *, pool: str | None = None) -> dict[str, Any]:
    """Is the row of /cluster/resources."""
    row: dict[str, Any] = {
        "id": f"lxc/{container.vmid}",
        "node": container.node,
        "type": "lxc",
        "vmid": container.vmid,
    }
    row.update({key: container.values[key] for key in ("tags", "lock") if key in container.values})
    if pool:
        row["pool"] = pool
    if not world.cluster.nodes[container.node].online:
        return {**row, "status": "unknown"}
    numbers = _numbers(world, container)
    numbers["maxcpu"] = numbers.pop("cpus")
    return {**row, **numbers, "template": int(container.values.get("template", "0"))}


def _numbers(world: World, container: Container) -> dict[str, Any]:
    values = container.values
    running = container.since is not None
    maxmem = int(values.get("memory", "512")) * 2**20
    uptime = 0 if container.since is None else int(world.clock.now() - container.since)
    return {
        "name": values.get("hostname", f"CT{container.vmid}"),
        "status": "running" if running else "stopped",
        "cpus": int(values.get("cores", "1")),
        "maxmem": maxmem,
        "maxdisk": parse_size(parse_property_string(values["rootfs"])["size"]),
        "uptime": uptime,
        "cpu": 0.01 if running else 0,
        "mem": maxmem // 8 if running else 0,
        "disk": 0,
        "diskread": 0,
        "diskwrite": 0,
        "netin": 0,
        "netout": 0,
    }


def _listed(world: World, container: Container) -> dict[str, Any]:
    row = {"vmid": container.vmid, "type": "lxc", **_numbers(world, container)}
    row["maxswap"] = int(container.values.get("swap", "512")) * 2**20
    row.update({key: container.values[key] for key in ("tags", "lock") if key in container.values})
    if container.values.get("template") == "1":
        row["template"] = 1
    return row


def _container(call: Call) -> Container:
    found = call.world.cluster.containers.get(call.vmid)
    if found is None or found.node != call.node:
        raise PveError(f"Configuration file 'nodes/{call.node}/lxc/{call.vmid}.conf' does not exist")
    return found


@serves("GET", CONTAINERS)
async def listing(call: Call) -> Any:
    """Lists a node's containers, as far as the user may see them."""
    containers = call.world.cluster.containers.values()
    mine = [one for one in containers if one.node == call.node and call.may(f"/vms/{one.vmid}", "VM.Audit")]
    return [_listed(call.world, one) for one in mine]


@serves("GET", CONTAINER)
async def index(call: Call) -> Any:
    names = "config status vncproxy termproxy vncwebsocket snapshot firewall rrd rrddata migrate pending"
    return [{"subdir": name} for name in names.split()]


@serves("GET", f"{CONTAINER}/config")
async def config(call: Call) -> Any:
    values = _container(call).values
    shown: dict[str, Any] = {key: int(value) if key in NUMBERS else value for key, value in values.items()}
    lines = "".join(f"{key}: {values[key]}\n" for key in sorted(values))
    return {**shown, "digest": hashlib.sha1(lines.encode(), usedforsecurity=False).hexdigest()}


@serves("GET", f"{CONTAINER}/status/current")
async def current(call: Call) -> Any:
    return {**_listed(call.world, _container(call)), "ha": {"managed": 0}}
