"""Making a VM from an archive (qmrestore): which of its values come back, and which are new.

A restored VM keeps its MACs and its uuid unless `unique` is given, so two VMs may then be the same machine to
whoever goes by them; only vmgenid is always new (qemu-server, QemuServer.pm, restore_update_config_line). Its disks
are as large as they were; their bytes are not in the archive.
"""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call
from zone9.sandbox.state import Vm, Volume
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import backup, delete, disks
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import ConfigFile


async def restore(call: Call) -> Any:
    """Serves POST /nodes/{node}/qemu with an `archive`; answers the UPID of the qmrestore task."""
    world, vmid = call.world, call.vmid
    volume = backup.find_archive(call, str(call.params["archive"]))
    there = world.cluster.vms.get(vmid)
    prefix = f"unable to restore VM {vmid} - "
    if there is not None and not call.flag("force"):
        raise PveError(f"{prefix}VM {vmid} already exists on node '{there.node}'")
    if vmid in world.cluster.containers:
        raise PveError(f"{prefix}CT {vmid} already exists on node '{world.cluster.containers[vmid].node}'")
    if there is not None and (
        there.node != call.node or there.running or there.config.get("protection") == "1"
    ):
        why = "VM is running" if there.running else f"VM {vmid} cannot be overwritten"
        raise PveError(f"{prefix}{why}")

    async def worker(task: Task) -> None:
        async with world.locks.hold(vmid, log=task.log):
            await _unpack(call, task, volume)

    return call.fork("qmrestore", vmid, worker)


async def _unpack(call: Call, task: Task, volume: Volume) -> None:
    world, vmid, archive = call.world, call.vmid, volume.archive
    assert archive is not None
    if (there := world.cluster.vms.get(vmid)) is not None:
        delete.destroy(world, there, unreferenced=False)
    vm = Vm(vmid, call.node, ConfigFile(), world.clock.now())
    vm.file.values = {"lock": "create"}
    world.cluster.vms[vmid] = vm
    values = dict(archive.values)
    made: list[str] = []
    try:
        for key, size in archive.disks.items():
            drive = text.parse_drive(values[key])
            name = str(call.params.get("storage") or drive["file"].split(":", 1)[0])
            storage = world.storage(name, call.node)
            suffix = "raw" if storage.kind != "dir" else drive["file"].rsplit(".", 1)[-1]
            volid = disks.volume_id(storage, vmid, disks.free_name(world, call.node, storage, vmid), suffix)
            disks.add_volume(world, call.node, storage, vmid, volid, suffix, size)
            made.append(volid)
            task.log(f"new volume ID is '{volid}'")
            await world.clock.sleep(size / world.durations.copy_bytes_per_second)
            values[key] = text.print_drive({**drive, "file": volid, "size": text.print_size(size)})
        _remake(call, values, made)
    except (PveError, BaseException):
        for volid in made:
            disks.free_volume(world, call.node, volid)
        world.cluster.vms.pop(vmid, None)
        raise
    vm.file.values = {}
    for key, value in values.items():
        vm.file.put(key, value)
    world.cluster.version += 1


def _remake(call: Call, values: dict[str, str], made: list[str]) -> None:
    """Makes the cloud-init drive, and what a restored VM must have anew: with `unique` its MACs and its uuid too."""
    world, vmid = call.world, call.vmid
    for key, line in sorted(values.items()):
        if text.is_disk(key) and text.is_cloudinit(line):
            storage = world.storage(text.parse_drive(line)["file"].split(":", 1)[0], call.node)
            new = disks.make(world, call.node, vmid, key, f"{storage.name}:cloudinit", [])
            values[key] = new.line
            if new.made:
                made.append(new.made.volid)
        elif call.flag("unique") and text.NET_KEY.fullmatch(key):
            values[key] = text.print_nic({**text.parse_nic(line), "macaddr": text.new_mac(world.random)})
    if "vmgenid" in values:
        values["vmgenid"] = text.new_uuid(world.random)
    if call.flag("unique"):
        parts = text.parse_property_string(values.get("smbios1", ""))
        parts["uuid"] = text.new_uuid(world.random)
        values["smbios1"] = text.print_property_string(parts)
