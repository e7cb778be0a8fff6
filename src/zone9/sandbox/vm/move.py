"""Moving a disk to another storage, or giving it to another VM.

The source stays as unusedN unless its removal was asked for, and may have another name at the target
(pve-facts 6.2, disks 6).
"""

from typing import Any

from zone9.sandbox.answers import PveError, bad
from zone9.sandbox.call import Call
from zone9.sandbox.state import Storage, Vm, Volume
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import copylog, disks
from zone9.sandbox.vm import values as text

MODIFIED = "detected modified configuration - file changed by other user? Try again."
EITHER = "either set 'storage' or 'target-vmid', but not both"


async def move_disk(call: Call) -> Any:
    """Serves POST move_disk."""
    if "target-vmid" in call.params and "storage" in call.params:
        raise bad({"storage": EITHER, "target-vmid": EITHER})
    if "target-vmid" in call.params:
        return _reassign(call)
    if "storage" not in call.params:
        raise bad({"storage": "either set storage or target-vmid"})
    vm = call.vm
    _unlocked(vm)
    digest = call.params.get("digest")
    if digest and digest != vm.file.digest:
        raise PveError(MODIFIED)
    key = str(call.params["disk"])
    if key not in vm.config:
        raise PveError(f"disk '{key}' does not exist")
    call.must(f"/storage/{call.params['storage']}", "Datastore.AllocateSpace")
    storage = call.world.storage(str(call.params["storage"]), call.node)
    old = _volume(call, vm, key)
    suffix = str(call.params.get("format") or old.format) if storage.kind == "dir" else "raw"
    if old.volid.split(":", 1)[0] == storage.name and suffix == old.format:
        raise PveError("you can't move to the same storage with same format")

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            vm = call.vm
            _unlocked(vm)
            call.world.must_write(vm)
            await _move(call, task, vm, key, storage, suffix)

    return call.fork("qmmove", call.vmid, worker)


async def _move(call: Call, task: Task, vm: Vm, key: str, storage: Storage, suffix: str) -> None:
    world = call.world
    old = _volume(call, vm, key)
    source = old.volid.split(":", 1)[0]
    drive = text.parse_drive(vm.config[key])
    cloudinit = text.is_cloudinit(vm.config[key])
    task.log(
        f"copying volume '{old.volid}' from current storage '{source}' to target storage '{storage.name}'"
    )
    task.log(f"create full clone of drive {key} ({old.volid})")
    plain = disks.free_name(world, vm.node, storage, vm.vmid)
    name = f"vm-{vm.vmid}-cloudinit" if cloudinit else plain
    volid = disks.volume_id(storage, vm.vmid, name, suffix)
    made = disks.add_volume(world, vm.node, storage, vm.vmid, volid, suffix, old.size)
    made.used, made.path = old.used, world.files.copy(old.path) if old.path else None
    for line in copylog.formatting(storage, made):
        task.log(line)
    task.log(f"allocated target volume '{volid}'")
    await world.clock.sleep(old.size / world.durations.copy_bytes_per_second)
    if vm.running and not cloudinit:
        for line in copylog.moved(key, old):
            task.log(line)
    elif not cloudinit:
        for amount in [0, *copylog.steps(old)]:
            task.log(copylog.transferred(amount, old.size))
    drive["file"] = volid
    vm.file.put(key, text.print_drive(drive))
    if call.flag("delete"):
        task.log(f"removing source volume '{old.volid}' after successful copy")
        disks.free_volume(world, vm.node, old.volid)
    elif cloudinit:
        task.log(f"found unused cloudinit disk '{old.volid}', removing it")
        disks.free_volume(world, vm.node, old.volid)
    else:
        unused = text.first_free(vm.config, "unused")
        vm.file.put(unused, old.volid)
        task.log(f"adding source volume '{old.volid}' as '{unused}' to config")


def _reassign(call: Call) -> str:
    world = call.world
    key, target = str(call.params["disk"]), int(call.params["target-vmid"])
    slot = str(call.params.get("target-disk") or key)
    call.must(f"/vms/{target}", "VM.Config.Disk")
    source = call.vm
    other = world.vm(target, call.node)
    if key not in source.config:
        raise PveError(f"Disk '{key}' for VM {source.vmid} does not exist")
    if slot in other.config:
        raise PveError(f"Target disk key '{slot}' is already in use for VM {target}")

    async def worker(task: Task) -> None:
        first, second = sorted((call.vmid, target))
        async with world.locks.hold(first, log=task.log), world.locks.hold(second, log=task.log):
            task.log(f"reassign disk '{key}' from VM '{call.vmid}' as '{slot}' to VM '{target}'")
            await world.clock.sleep(world.durations.config)
            old = _volume(call, source, key)
            storage = world.storage(old.volid.split(":", 1)[0])
            name = disks.free_name(world, call.node, storage, target)
            volumes = storage.on(call.node)
            del volumes[old.volid]
            old.volid = disks.volume_id(storage, target, name, old.format)
            old.vmid = target
            volumes[old.volid] = old
            task.log(f"removing disk '{key}' from VM '{call.vmid}' config")
            del source.file.values[key]
            source.file.touch()
            task.log(f"update VM {target}: -{slot} {old.volid}")
            other.file.put(slot, f"{old.volid},size={text.print_size(old.size)}")

    return call.fork("qmmove", f"{call.vmid}-{key}>{target}-{slot}", worker)


def _volume(call: Call, vm: Vm, key: str) -> Volume:
    volid = text.parse_drive(vm.config[key])["file"]
    volume = call.world.cluster.volume(vm.node, volid)
    if volume is None:
        raise PveError(f"volume '{volid}' does not exist")
    return volume


def _unlocked(vm: Vm) -> None:
    if vm.lock:
        raise PveError(f"VM is locked ({vm.lock})")
