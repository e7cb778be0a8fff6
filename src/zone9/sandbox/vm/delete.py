"""Deleting a VM: what is refused at once, what fails in the task, and what stays behind."""

from typing import Any

from zone9.sandbox.answers import PveError, bad
from zone9.sandbox.call import Call
from zone9.sandbox.state import Vm
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import disks
from zone9.sandbox.world import World


async def delete(call: Call) -> Any:
    """Serves DELETE /nodes/{node}/qemu/{vmid}; answers the UPID of the qmdestroy task."""
    if call.flag("skiplock") and not call.is_root:
        raise bad({"skiplock": "Only root may use this option."})
    vm = call.vm
    _refuse(call, vm)

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            vm = call.vm
            if vm.lock and not call.flag("skiplock"):
                raise PveError(f"VM is locked ({vm.lock})")
            _refuse(call, vm)
            call.world.must_write(vm)
            if disks.all_volumes(vm):
                await call.world.clock.sleep(call.world.durations.delete)
            if call.flag("purge"):
                task.log(f"purging VM {vm.vmid} from related configurations..")
                if f"vm:{vm.vmid}" in call.world.cluster.ha:
                    task.log(f"NOTE: removed VM {vm.vmid} from HA resource configuration.")
            destroy(call.world, vm, unreferenced=bool(call.params.get("destroy-unreferenced-disks", 0)))

    return call.fork("qmdestroy", call.vmid, worker)


def _refuse(call: Call, vm: Vm) -> None:
    if vm.config.get("protection") == "1":
        raise PveError(f"can't remove VM {vm.vmid} - protection mode enabled")
    if f"vm:{vm.vmid}" in call.world.cluster.ha and not call.flag("purge"):
        raise PveError(f"unable to remove VM {vm.vmid} - used in HA resources and purge parameter not set.")
    if vm.running:
        raise PveError(f"VM {vm.vmid} is running - destroy failed")


def destroy(world: World, vm: Vm, *, unreferenced: bool) -> None:
    """Removes the VM and its own volumes; a base that has clones stops it before anything is gone."""
    own = [volid for volid in disks.all_volumes(vm) if disks.owned(vm, volid)]
    for volid in own:
        _refuse_base(world, vm, volid)
    for volid in own:
        disks.free_volume(world, vm.node, volid)
    if unreferenced:
        for storage in world.cluster.storages.values():
            for volid, volume in list(storage.on(vm.node).items()):
                if volume.vmid == vm.vmid and volume.content == "images":
                    del storage.on(vm.node)[volid]
    cluster = world.cluster
    cluster.vms.pop(vm.vmid, None)
    cluster.firewalls.pop(vm.vmid, None)
    cluster.ha.pop(f"vm:{vm.vmid}", None)
    for pool in cluster.pools.values():
        pool.vms.discard(vm.vmid)
    cluster.version += 1


def _refuse_base(world: World, vm: Vm, volid: str) -> None:
    volume = world.cluster.volume(vm.node, volid)
    if volume is None:
        return
    storage = world.storage(volid.split(":", 1)[0])
    if any(other.parent == volid for other in storage.on(vm.node).values()):
        raise PveError(f"base volume '{volid}' is still in use by linked cloned")
