"""What is under /nodes but for VMs and tasks."""

from typing import Any

from zone9.sandbox import volids
from zone9.sandbox.answers import PveError, refused
from zone9.sandbox.call import Call, serves
from zone9.sandbox.calls.cluster import node_numbers, world_knows
from zone9.sandbox.cpus import VENDORS
from zone9.sandbox.state import Storage, Volume
from zone9.sandbox.world import RELEASE, REPOID, VERSION

NODE = "/nodes/{node}"


@serves("GET", "/nodes")
async def listing(call: Call) -> Any:
    """Lists every node to everybody, with numbers only to who may see them (pve-facts 6.5)."""
    found = []
    for node in call.world.cluster.nodes.values():
        row: dict[str, Any] = {
            "id": f"node/{node.name}",
            "node": node.name,
            "type": "node",
            "ssl_fingerprint": call.world.fingerprint,
            "status": "online" if node.online else "offline",
        }
        if node.online and not world_knows(call.world):
            row["status"] = "unknown"
        elif node.online:
            row["level"] = ""
            if call.may(f"/nodes/{node.name}", "Sys.Audit"):
                row.update(node_numbers(call.world, node))
        found.append(row)
    return found


@serves("GET", NODE)
async def index(call: Call) -> Any:
    names = (
        "qemu lxc tasks storage network status version time dns services report rrddata sdn firewall disks"
    )
    return [{"name": name} for name in names.split()]


@serves("GET", f"{NODE}/status")
async def status(call: Call) -> Any:
    node = call.world.node(call.node)
    numbers = node_numbers(call.world, node)
    free = numbers["maxmem"] - numbers["mem"]
    return {
        "uptime": numbers["uptime"],
        "cpu": numbers["cpu"],
        "wait": 0,
        "idle": 0,
        "loadavg": ["0.10", "0.10", "0.10"],
        "pveversion": f"pve-manager/{VERSION}/{REPOID}",
        "kversion": "Linux 6.17.2-1-pve #1 SMP",
        "cpuinfo": {
            "cpus": node.cpus,
            "cores": node.cpus,
            "sockets": 1,
            "model": "Sandbox CPU",
            "mhz": "2100.000",
            "user_hz": 100,
        },
        "memory": {
            "total": numbers["maxmem"],
            "used": numbers["mem"],
            "free": free,
            "available": free,
        },
        "rootfs": {
            "total": numbers["maxdisk"],
            "used": numbers["disk"],
            "free": numbers["maxdisk"] - numbers["disk"],
            "avail": numbers["maxdisk"] - numbers["disk"],
        },
        "swap": {"total": 0, "used": 0, "free": 0},
        "ksm": {"shared": 0},
        "boot-info": {"mode": "legacy-bios"},
        "current-kernel": {
            "sysname": "Linux",
            "release": "6.17.2-1-pve",
            "version": "#1 SMP",
            "machine": "x86_64",
        },
    }


@serves("GET", f"{NODE}/version")
async def version(call: Call) -> Any:
    return {"version": VERSION, "release": RELEASE, "repoid": REPOID}


@serves("GET", f"{NODE}/time")
async def time(call: Call) -> Any:
    moment = call.world.now(call.node)
    return {"time": moment, "localtime": moment, "timezone": "UTC"}


@serves("GET", f"{NODE}/dns")
async def dns(call: Call) -> Any:
    return {"dns1": "10.99.0.1", "search": "test.invalid"}


@serves("GET", f"{NODE}/services")
async def nothing(call: Call) -> Any:
    """There are no services to show."""
    return []


@serves("GET", f"{NODE}/capabilities")
async def capabilities(call: Call) -> Any:
    return [{"name": "qemu"}]


@serves("GET", f"{NODE}/capabilities/qemu")
async def qemu_capabilities(call: Call) -> Any:
    return [{"name": name} for name in ("cpu", "cpu-flags", "machines", "migration")]


@serves("GET", f"{NODE}/capabilities/qemu/cpu")
async def cpu_models(call: Call) -> Any:
    found: list[dict[str, Any]] = []
    for vendor, names in VENDORS.items():
        for name in sorted(names):
            abstract = {"abstract": 1} if name.startswith("x86-64-v") else {}
            found.append({"name": name, "vendor": vendor, "custom": 0, **abstract})
    return found


@serves("GET", f"{NODE}/capabilities/qemu/migration")
async def migration_capabilities(call: Call) -> Any:
    return {"has-dbus-vmstate": False}


@serves("GET", f"{NODE}/certificates/info")
async def certificates(call: Call) -> Any:
    return [{"filename": "pve-ssl.pem", "fingerprint": call.world.fingerprint, "pem": call.world.certificate}]


@serves("GET", f"{NODE}/subscription")
async def subscription(call: Call) -> Any:
    url = "https://www.proxmox.com/en/proxmox-virtual-environment/pricing"
    found: dict[str, Any] = {"status": "notfound", "message": "There is no subscription key", "url": url}
    if call.may(f"/nodes/{call.node}", "Sys.Audit"):
        found["serverid"] = None
    return found


@serves("GET", f"{NODE}/config")
async def node_config(call: Call) -> Any:
    return {}


@serves("GET", f"{NODE}/network/{{iface}}")
async def interface(call: Call) -> Any:
    name = str(call.params["iface"])
    bridges = call.world.node(call.node).bridges
    if name not in bridges:
        raise PveError("interface does not exist", status=400)
    return {key: value for key, value in _bridge(name, bridges[name]).items() if key != "iface"}


@serves("GET", f"{NODE}/network")
async def network(call: Call) -> Any:
    """Lists bridges; empty, and no error, to whoever may not see them (pve-facts 6.2, self-test 7)."""
    found = []
    for name, cidr in call.world.node(call.node).bridges.items():
        seen = any(call.may(f"/sdn/zones/localnetwork/{name}", right) for right in ("SDN.Audit", "SDN.Use"))
        wanted = call.params.get("type")
        if not seen or (wanted and wanted not in {"bridge", "any_bridge", "any_local_bridge", "include_sdn"}):
            continue
        found.append(_bridge(name, cidr))
    return found


def _bridge(name: str, cidr: str) -> dict[str, Any]:
    address, _, prefix = cidr.partition("/")
    row: dict[str, Any] = {
        "iface": name,
        "type": "bridge",
        "active": 1,
        "autostart": 1,
        "bridge_fd": "0",
        "bridge_ports": "",
        "bridge_stp": "off",
        "families": ["inet"],
        "method": "static" if cidr else "manual",
        "method6": "manual",
        "priority": 3,
    }
    if cidr:
        row.update(address=address, netmask=prefix, cidr=cidr)
    return row


def _formats(storage: Storage) -> dict[str, Any]:
    names = ["qcow2", "raw", "subvol", "vmdk"] if storage.kind == "dir" else ["raw", "subvol"]
    return {"formats": {"default": "raw", "supported": names}, "format": [dict.fromkeys(names, 1), "raw"]}


def _numbers(call: Call, storage: Storage) -> dict[str, Any]:
    used = storage.used(call.node)
    return {
        "type": storage.kind,
        "content": ",".join(storage.content),
        "active": 1,
        "enabled": 1,
        "shared": int(storage.shared),
        "total": storage.total,
        "used": used,
        "avail": storage.total - used,
    }


@serves("GET", f"{NODE}/storage")
async def storages(call: Call) -> Any:
    wanted = call.params.get("storage")
    if wanted and wanted not in call.world.cluster.storages:
        raise refused(storage="No such storage.")
    found = []
    for storage in call.world.cluster.storages.values():
        rights = ("Datastore.Audit", "Datastore.AllocateSpace")
        if not storage.available_on(call.node) or not any(
            call.may(f"/storage/{storage.name}", r) for r in rights
        ):
            continue
        if wanted and storage.name != wanted:
            continue
        content = call.params.get("content")
        if content and not set(str(content).split(",")) & set(storage.content):
            continue
        numbers = _numbers(call, storage)
        fraction = numbers["used"] / numbers["total"] if numbers["total"] else 0
        row = {"storage": storage.name, **numbers, "used_fraction": fraction}
        if call.flag("format"):
            row.update(_formats(storage))
        found.append(row)
    return found


@serves("GET", f"{NODE}/storage/{{storage}}/status")
async def storage_status(call: Call) -> Any:
    return _numbers(call, call.world.storage(str(call.params["storage"]), call.node))


@serves("GET", f"{NODE}/storage/{{storage}}/content")
async def content(call: Call) -> Any:
    """Lists volumes; with `vmid` the import volumes come too (pve-facts 6.20)."""
    storage = call.world.storage(str(call.params["storage"]), call.node)
    wanted, vmid = call.params.get("content"), call.params.get("vmid")
    found = []
    for volume in storage.on(call.node).values():
        if wanted and volume.content != wanted:
            continue
        if vmid and volume.vmid not in {None, int(vmid)}:
            continue
        if _readable(call, storage, volume):
            found.append(_volume_row(volume))
    return found


def _readable(call: Call, storage: Storage, volume: Volume) -> bool:
    try:
        volids.must_read(call, volids.parse(storage, volume.volid))
    except PveError:
        return False
    return True


def _volume_row(volume: Volume) -> dict[str, Any]:
    row: dict[str, Any] = {
        "volid": volume.volid,
        "content": volume.content,
        "format": volume.format,
        "size": volume.file_size or volume.size,
        "ctime": volume.ctime,
    }
    if volume.archive is not None:
        row.update(vmid=volume.vmid, subtype="qemu")
        if volume.archive.notes:
            row["notes"] = volume.archive.notes
        if volume.archive.protected:
            row["protected"] = 1
    elif volume.vmid is not None:
        parent = volume.parent
        row.update(vmid=volume.vmid, used=volume.used, parent=None)
        if parent:
            row["parent"] = "../" + parent.split(":", 1)[1] if "/" in parent else parent
    return row
