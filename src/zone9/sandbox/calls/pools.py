"""Pools: named sets of VMs and storages, in which a token may have its only rights (pve-facts 6.2, pools 1)."""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.calls import containers
from zone9.sandbox.state import Pool
from zone9.sandbox.vm import rows
from zone9.sandbox.vm.values import split_list


@serves("GET", "/pools")
async def pools(call: Call) -> Any:
    """Lists pools; with `poolid` the one with its members, still as a list."""
    if "poolid" in call.params:
        return [_whole(call, _pool(call))]
    found = [
        pool for pool in call.world.cluster.pools.values() if call.may(f"/pool/{pool.poolid}", "Pool.Audit")
    ]
    return [{"poolid": pool.poolid, **({"comment": pool.comment} if pool.comment else {})} for pool in found]


@serves("POST", "/pools")
async def add(call: Call) -> Any:
    poolid = str(call.params["poolid"])
    cluster = call.world.cluster
    if poolid in cluster.pools:
        raise PveError(f"create pool failed: pool '{poolid}' already exists")
    parent = poolid.rpartition("/")[0]
    if parent and parent not in cluster.pools:
        raise PveError(f"create pool failed: parent '{parent}' of pool '{poolid}' does not exist")
    cluster.pools[poolid] = Pool(poolid, str(call.params.get("comment", "")))
    cluster.version += 1


@serves("PUT", "/pools/{poolid}")
@serves("PUT", "/pools")
async def change(call: Call) -> Any:
    """Adds or removes members, all or none; a VM need not be there to be added."""
    cluster = call.world.cluster
    pool = _pool(call, "update pools failed: ")
    vms, storages = set(pool.vms), set(pool.storages)
    moved: dict[int, str] = {}
    for text in split_list(str(call.params.get("vms", ""))):
        vmid = int(text)
        call.must(f"/vms/{vmid}", "VM.Allocate")
        if call.flag("delete"):
            if vmid not in vms:
                raise PveError(f"update pools failed: VM {vmid} is not a pool member")
            vms.discard(vmid)
            continue
        other = cluster.pool_of(vmid)
        if other == pool.poolid:
            raise PveError(f"update pools failed: VM {vmid} is already a pool member")
        if other is not None:
            if not call.flag("allow-move"):
                why = f"VM {vmid} belongs already to pool '{other}' and 'allow-move' is not set"
                raise PveError(f"update pools failed: {why}")
            moved[vmid] = other
        vms.add(vmid)
    for name in split_list(str(call.params.get("storage", ""))):
        call.must(f"/storage/{name}", "Permissions.Modify", "Datastore.Allocate", any_of=True)
        if (name in storages) != call.flag("delete"):
            what = "is not a" if call.flag("delete") else "is already a"
            raise PveError(f"update pools failed: storage '{name}' {what} pool member")
        (storages.discard if call.flag("delete") else storages.add)(name)
    for vmid, other in moved.items():
        cluster.pools[other].vms.discard(vmid)
    pool.vms, pool.storages = vms, storages
    if "comment" in call.params:
        pool.comment = str(call.params["comment"])
    cluster.version += 1


@serves("GET", "/pools/{poolid}")
async def members(call: Call) -> Any:
    return _whole(call, _pool(call))


@serves("DELETE", "/pools/{poolid}")
@serves("DELETE", "/pools")
async def drop(call: Call) -> Any:
    cluster = call.world.cluster
    pool = _pool(call, "delete pool failed: ")
    if pool.vms or pool.storages:
        raise PveError(f"delete pool failed: pool '{pool.poolid}' is not empty")
    del cluster.pools[pool.poolid]
    cluster.version += 1


def _pool(call: Call, prefix: str = "") -> Pool:
    poolid = str(call.params["poolid"])
    pool = call.world.cluster.pools.get(poolid)
    if pool is None:
        raise PveError(f"{prefix}pool '{poolid}' does not exist")
    return pool


def _whole(call: Call, pool: Pool) -> dict[str, Any]:
    cluster = call.world.cluster
    known = [rows.resource(call.world, cluster.vms[vmid]) for vmid in pool.vms if vmid in cluster.vms]
    held = [cluster.containers[vmid] for vmid in pool.vms if vmid in cluster.containers]
    known += [containers.resource(call.world, one) for one in held]
    shown = [{k: v for k, v in row.items() if k not in {"tags", "pool"}} for row in known if row]
    return {"poolid": pool.poolid, "members": shown, **({"comment": pool.comment} if pool.comment else {})}
