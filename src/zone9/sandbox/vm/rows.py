"""How a VM looks in lists and in status/current.

The cluster's list knows what pvestatd last told: a new VM is only an id, with status `unknown` and no name, for
as long as `list_lag` says (pve-facts 6.24). The node's own list and status/current are fresh.
"""

from typing import Any

from zone9.sandbox.state import Vm
from zone9.sandbox.vm.values import NET_KEY
from zone9.sandbox.world import World


def uptime(world: World, vm: Vm) -> int:
    return int(world.clock.now() - vm.running.since) if vm.running else 0


def resource(world: World, vm: Vm, *, pool: str | None = None) -> dict[str, Any] | None:
    """Is the row of /cluster/resources, None while the row itself lags."""
    age = world.clock.now() - vm.created_at
    if age < world.durations.row_lag:
        return None
    config = vm.config
    row: dict[str, Any] = {"id": f"qemu/{vm.vmid}", "node": vm.node, "type": "qemu", "vmid": vm.vmid}
    if tags := config.get("tags"):
        row["tags"] = tags
    if vm.lock:
        row["lock"] = vm.lock
    if pool:
        row["pool"] = pool
    if vm.hastate or f"vm:{vm.vmid}" in world.cluster.ha:
        row["hastate"] = vm.hastate or world.cluster.ha[f"vm:{vm.vmid}"]["state"]
    told = world.told.get(vm.vmid) if world.durations.list_lag else numbers(world, vm)
    if told is None or not world.cluster.nodes[vm.node].online:
        row["status"] = "unknown"
    else:
        row.update(told)
    return row


def numbers(world: World, vm: Vm) -> dict[str, Any]:
    """Is what pvestatd tells of a VM."""
    memory = vm.memory
    return {
        "name": vm.name,
        "status": "running" if vm.running else "stopped",
        "template": int(vm.is_template),
        "maxcpu": min(vm.cpus, world.cluster.nodes[vm.node].cpus),
        "maxmem": memory,
        "maxdisk": vm.maxdisk,
        "uptime": uptime(world, vm),
        "cpu": 0.01 if vm.running else 0,
        "mem": memory // 4 if vm.running else 0,
        "memhost": memory // 3 if vm.running else 0,
        "disk": 0,
        "diskread": 0,
        "diskwrite": 0,
        "netin": 0,
        "netout": 0,
    }


def listed(world: World, vm: Vm, *, full: bool = False) -> dict[str, Any]:
    """Is the row of /nodes/{node}/qemu."""
    memory = vm.memory
    row: dict[str, Any] = {
        "vmid": vm.vmid,
        "name": vm.name,
        "status": "running" if vm.running else "stopped",
        "cpus": min(vm.cpus, world.cluster.nodes[vm.node].cpus),
        "maxmem": memory,
        "maxdisk": vm.maxdisk,
        "mem": memory // 4 if vm.running else 0,
        "memhost": memory // 3 if vm.running else 0,
        "cpu": 0.01 if vm.running else 0,
        "uptime": uptime(world, vm),
        "disk": 0,
        "netin": 0,
        "netout": 0,
    }
    if tags := vm.config.get("tags"):
        row["tags"] = tags
    if vm.lock:
        row["lock"] = vm.lock
    if vm.is_template:
        row["template"] = 1
    if "serial0" in vm.config:
        row["serial"] = 1
    if int(vm.config.get("balloon", "0")):
        row["balloon_min"] = int(vm.config["balloon"]) * 2**20
        row["shares"] = int(vm.config.get("shares", "1000"))
    if vm.running:
        row["pid"] = vm.running.pid
        row.update(dict.fromkeys(_pressures(), 0))
    if full:
        row["qmpstatus"] = _qmpstatus(vm)
        if vm.running:
            row["nics"] = _nics(vm)
    return row


def current(world: World, vm: Vm) -> dict[str, Any]:
    """Is status/current."""
    row = listed(world, vm, full=True)
    managed = f"vm:{vm.vmid}" in world.cluster.ha
    row["ha"] = {"managed": 1, "state": None} if managed else {"managed": 0}
    if "vga" in vm.config:
        row["clipboard"] = None
    if vm.config.get("agent", "0").removeprefix("enabled=").startswith("1"):
        row["agent"] = 1
    if vm.config.get("vga", "").startswith("qxl"):
        row["spice"] = 1
    return row


def _qmpstatus(vm: Vm) -> str:
    if vm.running is None:
        return "stopped"
    return "paused" if vm.running.paused else "running"


def _nics(vm: Vm) -> dict[str, dict[str, int]]:
    keys = [key for key in vm.config if NET_KEY.fullmatch(key)]
    return {f"tap{vm.vmid}i{key[3:]}": {"netin": 110, "netout": 0} for key in keys}


def _pressures() -> list[str]:
    return [f"pressure{part}{kind}" for part in ("cpu", "io", "memory") for kind in ("some", "full")]
