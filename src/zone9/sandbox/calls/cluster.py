"""What is under /cluster and /storage, and /version."""

from typing import Any

from zone9.sandbox.answers import refused
from zone9.sandbox.call import Call, serves
from zone9.sandbox.calls import containers
from zone9.sandbox.state import Node, Pool, Storage
from zone9.sandbox.vm import rows
from zone9.sandbox.vm.values import parse_property_string, split_list
from zone9.sandbox.world import RELEASE, REPOID, VERSION, World

RIGHTS_OF_DATACENTER = "migration mac_prefix console keyboard ha"


@serves("GET", "/version")
async def version(call: Call) -> Any:
    return {"version": VERSION, "release": RELEASE, "repoid": REPOID}


@serves("GET", "/cluster")
async def index(call: Call) -> Any:
    names = (
        "acme backup backup-info bulk-action ceph config firewall ha jobs log mapping metrics notifications"
    )
    more = "nextid options qemu replication resources status tasks sdn"
    return [{"name": name} for name in [*names.split(), *more.split()]]


@serves("GET", "/cluster/config")
async def config_index(call: Call) -> Any:
    return [{"name": name} for name in ("nodes", "totem", "join", "qdevice", "apiversion")]


@serves("GET", "/cluster/notifications")
async def notifications(call: Call) -> Any:
    names = ("endpoints", "matchers", "targets", "matcher-fields", "matcher-field-values")
    return [{"name": name} for name in names]


@serves("GET", "/cluster/mapping")
async def mapping(call: Call) -> Any:
    return [{"name": name} for name in ("dir", "pci", "usb")]


@serves("GET", "/cluster/replication")
@serves("GET", "/cluster/metrics/server")
async def nothing(call: Call) -> Any:
    """There is nothing of this kind here."""
    return []


@serves("GET", "/cluster/resources")
async def resources(call: Call) -> Any:
    """Lists what the user may see; the rest is left out without a word."""
    wanted = call.params.get("type")
    cluster = call.world.cluster
    found: list[dict[str, Any]] = []
    if wanted in {None, "vm"}:
        pools = {vmid: pool.poolid for pool in cluster.pools.values() for vmid in pool.vms}
        for vm in cluster.vms.values():
            if call.may(f"/vms/{vm.vmid}", "VM.Audit"):
                row = rows.resource(call.world, vm, pool=pools.get(vm.vmid))
                if row is not None:
                    found.append(row)
        found += [
            containers.resource(call.world, one, pool=pools.get(one.vmid))
            for one in cluster.containers.values()
            if call.may(f"/vms/{one.vmid}", "VM.Audit")
        ]
    if wanted in {None, "node"}:
        found += [_node_row(call, node) for node in cluster.nodes.values()]
    if wanted in {None, "storage"}:
        for storage in cluster.storages.values():
            if call.may(f"/storage/{storage.name}", "Datastore.Audit"):
                found += [_storage_row(storage, node) for node in cluster.nodes if storage.available_on(node)]
    if wanted is None:
        found += [
            _pool_row(pool)
            for pool in cluster.pools.values()
            if call.may(f"/pool/{pool.poolid}", "Pool.Audit")
        ]
        if call.may("/sdn/zones/localnetwork", "SDN.Audit"):
            found += [_zone_row(node) for node in cluster.nodes]
    return found


def node_numbers(world: World, node: Node) -> dict[str, Any]:
    """Is what pvestatd tells of a node."""
    running = [vm for vm in world.cluster.vms.values() if vm.node == node.name and vm.running]
    return {
        "status": "online",
        "cpu": 0.05,
        "maxcpu": node.cpus,
        "mem": 2**30 + sum(vm.memory for vm in running),
        "maxmem": node.memory,
        "disk": 8 * 2**30,
        "maxdisk": 256 * 2**30,
        "uptime": int(world.clock.now() - node.booted_at),
        "level": "",
    }


def world_knows(world: World) -> bool:
    """Tells whether pvestatd has been round since the start; without a lag it always has."""
    return not world.durations.list_lag or world.rounds > 0


def _node_row(call: Call, node: Node) -> dict[str, Any]:
    row: dict[str, Any] = {"id": f"node/{node.name}", "node": node.name, "type": "node", "status": "unknown"}
    if not node.online:
        row["status"] = "offline"
    elif world_knows(call.world):
        # pvestatd has been round: the state is for everybody, the numbers are not (pve-facts 6.2, self-test).
        row.update({"status": "online", "level": "", "cgroup-mode": 2})
        if call.may(f"/nodes/{node.name}", "Sys.Audit"):
            row.update(node_numbers(call.world, node))
    return row


def _storage_row(storage: Storage, node: str) -> dict[str, Any]:
    return {
        "id": f"storage/{node}/{storage.name}",
        "type": "storage",
        "storage": storage.name,
        "node": node,
        "status": "available",
        "plugintype": storage.kind,
        "content": ",".join(storage.content),
        "shared": int(storage.shared),
        "disk": storage.used(node),
        "maxdisk": storage.total,
    }


def _pool_row(pool: Pool) -> dict[str, Any]:
    return {"id": f"/pool/{pool.poolid}", "type": "pool", "pool": pool.poolid}


def _zone_row(node: str) -> dict[str, Any]:
    name = f"network/{node}/zone/localnetwork"
    return {
        "id": name,
        "type": "network",
        "network": "localnetwork",
        "network-type": "zone",
        "node": node,
        "status": "ok",
    }


@serves("GET", "/cluster/status")
async def status(call: Call) -> Any:
    cluster = call.world.cluster
    nodes = [
        {
            "type": "node",
            "id": f"node/{node.name}",
            "name": node.name,
            "nodeid": node.nodeid,
            "ip": node.address,
            "online": int(node.online),
            "local": int(node.name == call.serving),
            "level": "",
        }
        for node in cluster.nodes.values()
    ]
    if len(nodes) == 1:
        # A node without corosync (recorded): itself alone, under the id 0.
        return [{**nodes[0], "nodeid": 0}]
    head = {
        "type": "cluster",
        "id": "cluster",
        "name": cluster.name,
        "nodes": len(nodes),
        "quorate": int(cluster.quorate),
        "version": len(nodes),
    }
    return [head, *nodes]


@serves("GET", "/cluster/nextid")
async def nextid(call: Call) -> Any:
    taken = call.world.cluster.taken
    if "vmid" in call.params:
        vmid = int(call.params["vmid"])
        if taken(vmid):
            raise refused(vmid=f"VM {vmid} already exists")
        return str(vmid)
    return str(next(vmid for vmid in range(100, 10**9) if not taken(vmid)))


@serves("GET", "/cluster/options")
async def options(call: Call) -> Any:
    stored = call.world.cluster.options
    shown: dict[str, Any] = {"allowed-tags": _allowed_tags(call)}
    if not call.may("/", "Sys.Audit"):
        return shown
    for key, value in stored.items():
        if key in {"tag-style", "user-tag-access"}:
            shown[key] = parse_property_string(value)
        elif key == "registered-tags":
            shown[key] = split_list(value)
        else:
            shown[key] = value
    return {"mac_prefix": "BC:24:11", "description": "", **shown}


def _allowed_tags(call: Call) -> list[str]:
    """Answers the registered tags and those of the VMs that the user sees."""
    tags = set(split_list(call.world.cluster.options.get("registered-tags", "")))
    for vm in call.world.cluster.vms.values():
        if call.may(f"/vms/{vm.vmid}", "VM.Audit"):
            tags.update(split_list(vm.config.get("tags", "")))
    return sorted(tags)


@serves("PUT", "/cluster/options")
async def set_options(call: Call) -> Any:
    cluster = call.world.cluster
    for key in split_list(str(call.params.get("delete", ""))):
        cluster.options.pop(key, None)
    for key, value in call.raw.items():
        if key != "delete":
            cluster.options[key] = str(value)


@serves("GET", "/storage")
async def storages(call: Call) -> Any:
    seen = ("Datastore.Audit", "Datastore.AllocateSpace")
    return [
        {
            "storage": storage.name,
            "type": storage.kind,
            "content": ",".join(storage.content),
            "digest": "0" * 40,
            **({"path": storage.path} if storage.path else {}),
            **({"prune-backups": "keep-all=1"} if storage.name == "local" else {}),
            **({"shared": 1} if storage.shared else {}),
        }
        for storage in call.world.cluster.storages.values()
        if any(call.may(f"/storage/{storage.name}", name) for name in seen)
    ]
