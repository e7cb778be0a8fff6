"""Creating a VM: what is refused at once, and what the worker does.

Without a name, uuid, vmgenid or boot order Proxmox fills them in; with smbios1 it adds no uuid (pve-facts 6.8).
A password given here stays in clear (6.11), so a client sets it later.
"""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call
from zone9.sandbox.state import Vm
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import delete, disks, power, restore, rights
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import ConfigFile
from zone9.sandbox.vm.options import plain_values
from zone9.sandbox.vm.update import may_change_pool
from zone9.sandbox.world import QEMU


async def create(call: Call) -> Any:
    """Serves POST /nodes/{node}/qemu; answers the UPID of the qmcreate task, or of the qmrestore with an archive."""
    world, vmid, path = call.world, call.vmid, f"/vms/{call.vmid}"
    pool = call.params.get("pool")
    if pool is not None:
        may_change_pool(call, pool)
    elif not call.may(path, "VM.Allocate"):
        raise PveError("Permission check failed", status=403)
    if "archive" in call.params:
        return await restore.restore(call)
    values = plain_values(call)
    if "cdrom" in values:
        values["ide2"] = values.pop("cdrom")
    if not world.cluster.quorate:
        raise PveError("cluster not ready - no quorum?")
    for key, value in values.items():
        if text.is_disk(key):
            disks.check_drive(world, call.node, key, value, root=call.is_root)
        elif text.NET_KEY.fullmatch(key):
            values[key] = text.with_mac(value, world.random)
    where = path if pool is None else f"/pool/{pool}"
    rights.may_change(call, where, values)
    rights.may_use_disks(call, where, values)
    rights.may_use_bridges(call, values)
    if "tags" in values:
        rights.may_tag(call, "", values["tags"])
        style = text.parse_property_string(world.cluster.options.get("tag-style", ""))
        values["tags"] = text.unique_tags(values["tags"], style)
    try:
        async with world.locks.hold(vmid, wait=5.0):
            taken = world.cluster.vms.get(vmid) or world.cluster.containers.get(vmid)
            if taken is not None:
                kind = "VM" if isinstance(taken, Vm) else "CT"  # PVE::Cluster, check_vmid_unused
                raise PveError(f"{kind} {vmid} already exists on node '{taken.node}'")
            world.cluster.vms[vmid] = vm = Vm(vmid, call.node, ConfigFile(), world.clock.now())
            vm.file.values = {"lock": "create"}
    except PveError as error:
        raise PveError(f"unable to create VM {vmid} - {error.text}") from error
    if pool is not None:
        world.cluster.pools[pool].vms.add(vmid)
        world.cluster.version += 1

    async def worker(task: Task) -> None:
        async with world.locks.hold(vmid, log=task.log):
            await _work(call, task, vm, values)
        if call.flag("start"):
            await power.start_vm(world, vm, task)

    return call.fork("qmcreate", vmid, worker, undo=lambda: delete.destroy(world, vm, unreferenced=False))


async def _work(call: Call, task: Task, vm: Vm, values: dict[str, str]) -> None:
    world = call.world
    made: list[str] = []
    try:
        if task.fault and task.fault.error:
            raise PveError(task.fault.error)
        await world.clock.sleep(world.durations.create)
        for key in sorted((key for key in values if text.is_disk(key)), key=text.drive_rank):
            lines: list[str] = []
            try:
                new = disks.make(world, call.node, vm.vmid, key, values[key], lines)
            finally:
                for line in lines:
                    task.log(line)
            if new.made:
                made.append(new.made.volid)
            await world.clock.sleep(new.seconds)
            values[key] = new.line
    except (PveError, BaseException) as error:
        if task.stopping or isinstance(error, PveError):
            for volid in made:
                disks.free_volume(world, vm.node, volid)
            del world.cluster.vms[vm.vmid]
        if isinstance(error, PveError):
            raise PveError(f"unable to create VM {vm.vmid} - {error.text}") from error
        raise
    fill_in(call, values)
    vm.file.values = {}
    for key, value in values.items():
        vm.file.put(key, value)
    world.cluster.version += 1


def fill_in(call: Call, values: dict[str, str]) -> None:
    """Adds what Proxmox adds to a new VM."""
    world = call.world
    if not values.get("boot"):
        # Nothing to boot from is an empty order, which reads back as one space (recorded).
        values["boot"] = default_boot(values)
    if not values.get("smbios1"):
        values["smbios1"] = f"uuid={text.new_uuid(world.random)}"
    if values.get("vmgenid", "1") == "1":
        values["vmgenid"] = text.new_uuid(world.random)
    values["meta"] = f"creation-qemu={QEMU},ctime={world.now(call.node)}"


def default_boot(values: dict[str, str]) -> str:
    """Answers the boot order of a VM that was given none: first disk, first CD, first NIC."""
    drives = sorted(key for key in values if text.is_disk(key) and key not in {"efidisk0", "tpmstate0"})
    first_disk = [key for key in drives if not text.is_cdrom(values[key])][:1]
    first_cd = [key for key in drives if text.is_cdrom(values[key]) and not text.is_cloudinit(values[key])][
        :1
    ]
    first_nic = sorted(key for key in values if text.NET_KEY.fullmatch(key))[:1]
    order = [*first_disk, *first_cd, *first_nic]
    return f"order={';'.join(order)}" if order else ""
