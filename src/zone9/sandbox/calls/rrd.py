"""Graphs: rows at the real steps of Proxmox's archives (PVE/RRD.pm, pve-facts 6.2, rrd).

The sandbox keeps no history: a step that was over since an object has been known shows the object's numbers of
now. A row carries the time at which its step ended. The newest row is left out while it is empty (recorded: 59 rows
of an hour, 335 of a week), and an object that pvestatd never told of has no rows at all.
"""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.calls.cluster import node_numbers, world_knows
from zone9.sandbox.vm.rows import numbers
from zone9.sandbox.vm.values import NET_KEY

MINUTE = 60
# timeframe -> (rows, seconds a row)
FRAMES = {
    "hour": (60, 60), "day": (1440, 60), "week": (336, 1800), "month": (1440, 1800), "year": (1440, 21600),
    "decade": (570, 604800),
}  # fmt: skip
ABSENT = "RRD error: rrdcached@unix:/var/run/rrdcached.sock: rrd_fetch_r failed: opening '{file}': No such file or directory"
DATABASE = "/var/lib/rrdcached/db"
PRESSURES = (
    "pressurecpusome",
    "pressureiofull",
    "pressureiosome",
    "pressurememoryfull",
    "pressurememorysome",
)


def _rows(call: Call, since: float | None, file: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    if since is None:
        raise PveError(ABSENT.format(file=f"{DATABASE}/{file}"))
    count, step = FRAMES[str(call.params["timeframe"])]
    last = int(call.world.clock.now() // step) * step
    # rrdtool fills a row of many minutes of which half are known: Proxmox's archives have an xff of 0.5.
    needed = step if step == MINUTE else step / 2
    times = range(last - (count - 1) * step, last + 1, step)
    rows = [{"time": time, **(values if time - since >= needed else {})} for time in times]
    return rows if len(rows[-1]) > 1 else rows[:-1]


@serves("GET", "/nodes/{node}/qemu/{vmid}/rrddata")
async def of_vm(call: Call) -> Any:
    world, vmid = call.world, call.vmid
    vm = world.cluster.vms.get(vmid)
    if vm is not None and (not world.durations.list_lag or vmid in world.told):
        world.graphed.setdefault(vmid, vm.created_at)
    values: dict[str, Any] = {}
    if vm is not None:
        told = numbers(world, vm)
        names = ["disk", "maxcpu", "maxdisk", "maxmem"]
        if vm.running:
            names += ["cpu", "diskread", "diskwrite", "mem", "memhost", "netin", "netout"]
            values = dict.fromkeys(PRESSURES, 0)
        values |= {name: told[name] for name in names}
    return _rows(call, world.graphed.get(vmid), f"pve-vm-9.0/{vmid}", values)


@serves("GET", "/nodes/{node}/rrddata")
async def of_node(call: Call) -> Any:
    node = call.world.node(call.node)
    told = node_numbers(call.world, node)
    values: dict[str, Any] = dict.fromkeys(
        (*PRESSURES, "arcsize", "iowait", "netin", "netout", "swaptotal", "swapused"), 0
    )
    values |= {
        "cpu": told["cpu"], "loadavg": told["cpu"] * node.cpus, "maxcpu": node.cpus, "memtotal": told["maxmem"],
        "memused": told["mem"], "memavailable": told["maxmem"] - told["mem"], "roottotal": told["maxdisk"],
        "rootused": told["disk"],
    }  # fmt: skip
    since = node.booted_at if world_knows(call.world) else None
    return _rows(call, since, f"pve-node-9.0/{node.name}", values)


@serves("GET", "/nodes/{node}/storage/{storage}/rrddata")
async def of_storage(call: Call) -> Any:
    name = str(call.params["storage"])
    storage = call.world.cluster.storages.get(name)
    known = storage is not None and storage.available_on(call.node) and world_knows(call.world)
    values = {"total": storage.total, "used": storage.used(call.node)} if storage else {}
    since = call.world.node(call.node).booted_at if known else None
    return _rows(call, since, f"pve-storage-9.0/{call.node}/{name}", values)


@serves("GET", "/nodes/{node}/netstat")
async def netstat(call: Call) -> Any:
    """Counts nothing: the guests' frames never pass a bridge of this node."""
    found = []
    for vmid, vm in sorted(call.world.cluster.vms.items()):
        if vm.running and vm.node == call.node:
            cards = sorted(key for key in vm.config if NET_KEY.fullmatch(key))
            found += [{"vmid": str(vmid), "dev": card, "in": "0", "out": "0"} for card in cards]
    return found


@serves("GET", "/cluster/metrics/export")
async def export(call: Call) -> Any:
    return {"data": []}
