"""Cloning: the placeholder, the copy of each disk, and what is new in the result.

The new config stands there at once, as a placeholder that proves nothing about whose it is; the description of
the call and the rest come with the first write, after the first disk (in alphabetical order) was copied
(pve-facts 6.2, clone-progress 1).
"""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call
from zone9.sandbox.state import Vm, Volume
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import copylog, disks
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import ConfigFile
from zone9.sandbox.vm.update import may_change_pool
from zone9.sandbox.world import World

PLACEHOLDER = {"description": " qmclone temporary file", "lock": "clone"}
# What a clone does not take over.
DROPPED = frozenset({"template", "parent", "lock", "snaptime", "vmstate", "runningmachine", "runningcpu"})
MIB = 1 << 20


async def clone(call: Call) -> Any:
    """Serves POST /nodes/{node}/qemu/{vmid}/clone; answers the UPID of the qmclone task."""
    world, newid = call.world, int(call.params["newid"])
    pool = call.params.get("pool")
    if pool is not None:
        may_change_pool(call, pool)
    target = str(call.params.get("target") or call.node)
    if target not in world.cluster.nodes:
        raise PveError(f"no such cluster node '{target}'")
    if not world.cluster.nodes[target].online:
        raise PveError(f"unable to contact node '{target}'")
    storage = call.params.get("storage")
    if storage is not None:
        world.storage(storage, call.node)
        if target != call.node:
            world.storage(storage, target)
    if not world.cluster.quorate:
        raise PveError("cluster not ready - no quorum?")
    source = world.cluster.vms.get(call.vmid)
    if source is None or source.node != call.node:
        raise PveError(f"unable to find configuration file for VM {call.vmid} on node '{call.node}'")
    if source.lock:
        raise PveError(f"VM is locked ({source.lock})")
    if (name := call.params.get("snapname")) and name not in source.file.snapshots:
        raise PveError(f"snapshot '{name}' does not exist")
    full = bool(call.params["full"]) if "full" in call.params else not source.is_template
    plan = _plan(call, source, full=full, target=target)
    other = world.cluster.vms.get(newid)
    if other is not None and other.node == call.node:
        raise PveError(f"unable to create VM {newid}: config file already exists")
    if world.cluster.taken(newid):
        return call.fork("qmclone", call.vmid, lambda task: _taken_elsewhere(call, task, newid))
    vm = Vm(newid, call.node, ConfigFile(dict(PLACEHOLDER)), world.clock.now())
    world.cluster.vms[newid] = vm
    _copy_firewall(call, source, vm)
    if pool is not None:
        world.cluster.pools[pool].vms.add(newid)
        world.cluster.version += 1

    async def worker(task: Task) -> None:
        await _work(call, task, source, vm, plan, target=target)

    return call.fork("qmclone", call.vmid, worker, undo=lambda: _undo(call, vm, []))


async def _taken_elsewhere(call: Call, task: Task, newid: int) -> None:
    """Fails as pmxcfs does: the API looks for the config on its own node only (API2/Qemu.pm, memdb.c, memdb_rename)."""
    task.log(f"creating a clone of VM {call.vmid} with ID {newid}")
    await call.world.clock.sleep(call.world.durations.clone_placeholder)
    path = f"/etc/pve/nodes/{call.node}/qemu-server/{newid}.conf"
    raise PveError(f"close (rename) atomic file '{path}' failed: File exists")


def _plan(call: Call, source: Vm, *, full: bool, target: str) -> list[tuple[str, bool]]:
    """Answers the drives to copy, each full or linked, or why it cannot be."""
    world = call.world
    plan: list[tuple[str, bool]] = []
    if not full and call.params.get("storage"):
        raise PveError("parameter 'storage' not allowed for linked clones")
    if not full and call.params.get("format"):
        raise PveError("parameter 'format' not allowed for linked clones")
    for key in sorted(key for key in source.config if text.is_disk(key)):
        line = source.config[key]
        volid = text.parse_drive(line)["file"]
        if text.is_cdrom(line) and not text.is_cloudinit(line):
            continue
        if full or text.is_cloudinit(line):
            plan.append((key, True))
            continue
        volume = world.cluster.volume(source.node, volid)
        if volume is None or "base-" not in volid.rsplit("/", 1)[-1]:
            raise PveError(f"Linked clone feature is not supported for '{volid}' ({key})")
        plan.append((key, False))
    if target != call.node:
        for key, _ in plan:
            name = call.params.get("storage") or text.parse_drive(source.config[key])["file"].split(":", 1)[0]
            if not world.storage(name).shared:
                raise PveError(f"can't clone VM to node '{target}' (VM uses local storage)")
    return plan


async def _work(
    call: Call, task: Task, source: Vm, vm: Vm, plan: list[tuple[str, bool]], *, target: str
) -> None:
    world = call.world
    made: list[str] = []
    description = call.params.get("description")
    final = _inherit(call, source, description)
    try:
        # The source's lock is held, shared, as long as the copy lasts (recorded: a DELETE of it waits).
        async with (
            world.locks.hold(source.vmid, wait=1.0, log=task.log, shared=True),
            world.locks.hold(vm.vmid, wait=1.0, log=task.log),
        ):
            task.log(f"creating a clone of VM {source.vmid} with ID {vm.vmid}")
            await world.clock.sleep(world.durations.clone_placeholder)
            for number, (key, full) in enumerate(plan):
                seconds, line, volid = _copy(call, task, source, vm, key, full=full)
                made.append(volid)
                await _wait(call, task, source, key, seconds, full=full)
                _give_up_half_way(task)
                final[key] = line
                if number < len(plan) - 1:
                    vm.file.values = {k: v for k, v in final.items() if k not in dict(plan[number + 1 :])}
                    vm.file.values["lock"] = "clone"
                    vm.file.touch()
            _give_up_half_way(task)
            vm.file.values = final
            vm.file.touch()
            vm.node = target
            world.cluster.version += 1
    except PveError as error:
        if not (task.fault and task.fault.leave):
            _undo(call, vm, made)
        raise PveError(error.text if "lock file" in error.text else f"clone failed: {error.text}") from error
    except BaseException:
        if task.stopping:
            _undo(call, vm, made)
            task.command = f"clone failed: copy failed: {task.command}"
        raise


def _give_up_half_way(task: Task) -> None:
    if task.fault and task.fault.error is not None and task.fault.leave:
        raise PveError(task.fault.error)


def _inherit(call: Call, source: Vm, description: Any) -> dict[str, str]:
    random = call.world.random
    snapshot = call.params.get("snapname")
    base = source.file.snapshots[snapshot] if snapshot else source.config
    final = {
        key: value
        for key, value in base.items()
        if key not in DROPPED and not text.is_disk(key) and not text.UNUSED_KEY.fullmatch(key)
    }
    for key in [key for key in final if text.NET_KEY.fullmatch(key)]:
        nic = text.parse_nic(final[key])
        nic["macaddr"] = text.new_mac(random)
        final[key] = text.print_nic(nic)
    drives = {key: line for key, line in base.items() if text.is_disk(key)}
    final.update({k: v for k, v in drives.items() if text.is_cdrom(v) and not text.is_cloudinit(v)})
    final["smbios1"] = text.clone_smbios(final.get("smbios1"), random)
    if "vmgenid" in final:
        final["vmgenid"] = text.new_uuid(random)
    final["name"] = str(call.params.get("name") or f"Copy-of-VM-{source.config.get('name') or source.vmid}")
    if description is not None:
        final["description"] = str(description).rstrip()
    if not final.get("description"):
        final.pop("description", None)
    return final


def _copy(call: Call, task: Task, source: Vm, vm: Vm, key: str, *, full: bool) -> tuple[float, str, str]:
    """Makes the volume of one drive; answers seconds, the new line and the volume's id."""
    world = call.world
    drive = text.parse_drive(source.config[key])
    old = world.cluster.volume(source.node, drive["file"])
    if old is None:
        raise PveError(f"volume '{drive['file']}' does not exist")
    storage = world.storage(call.params.get("storage") or drive["file"].split(":", 1)[0])
    suffix = str(call.params.get("format") or old.format) if storage.kind == "dir" else "raw"
    if text.is_cloudinit(source.config[key]):
        suffix = old.format if storage.kind == "dir" else "raw"
        name = f"vm-{vm.vmid}-cloudinit"
        seconds = world.durations.cloudinit_disk
    else:
        name = disks.free_name(world, source.node, storage, vm.vmid)
        bwlimit = int(call.params.get("bwlimit", 0)) * 1024
        seconds = old.size / (bwlimit or world.durations.copy_bytes_per_second)
    volid = disks.volume_id(storage, vm.vmid, name, suffix)
    if full:
        task.log(f"create full clone of drive {key} ({old.volid})")
        made = disks.add_volume(world, source.node, storage, vm.vmid, volid, suffix, old.size)
        made.used = old.used
        for line in copylog.formatting(storage, made):
            task.log(line)
        task.log(f"allocated target volume '{volid}'")
        task.command = _convert(world, call, old, made)
    else:
        seconds = world.durations.linked_disk
        task.log(f"create linked clone of drive {key} ({old.volid})")
        if storage.kind == "dir":
            volid = f"{old.volid}/{vm.vmid}/{name}.{suffix}"
        made = disks.add_volume(
            world, source.node, storage, vm.vmid, volid, suffix, old.size, parent=old.volid
        )
        for line in [*copylog.linked(made), *copylog.formatting(storage, made)]:
            task.log(line)
    if old.path is not None:
        # A template's disks do not change, so that even a full clone can read them through; nobody can tell.
        files = world.files
        bytes_of = files.layer(old.path, old.size) if source.is_template else files.copy(old.path)
        storage.on(source.node)[volid].path = bytes_of
    drive.pop("format", None)
    drive.update(file=volid, size=text.print_size(old.size))
    return seconds, text.print_drive(drive), volid


async def _wait(call: Call, task: Task, source: Vm, key: str, seconds: float, *, full: bool) -> None:
    """Waits while a drive is copied, and reports how far it is."""
    sleep = call.world.clock.sleep
    volume = call.world.cluster.volume(source.node, text.parse_drive(source.config[key])["file"])
    if not full or volume is None or text.is_cloudinit(source.config[key]):
        await sleep(seconds)
        return
    if source.running:
        await sleep(seconds)
        for line in copylog.mirrored(key, volume, agent=source.config.get("agent", "")):
            task.log(line)
        return
    task.log(copylog.transferred(0, volume.size))
    target = call.world.storage(call.params.get("storage") or volume.volid.split(":", 1)[0])
    room = target.total - target.used(source.node) + volume.used
    done = 0
    for amount in copylog.steps(volume):
        await sleep(seconds * (amount - done) / volume.size)
        done = amount
        if volume.used > room and done >= room:
            task.log(copylog.out_of_space(int(room)))
            raise PveError(f"copy failed: {task.command}failed: exit code 1")
        task.log(copylog.transferred(done, volume.size))


def _convert(world: World, call: Call, old: Volume, made: Volume) -> str:
    """Is the command that copies, as an interrupted or failed clone names it."""
    paths = []
    for volume in (old, made):
        storage = world.storage(volume.volid.split(":", 1)[0])
        paths.append(copylog.file_of(storage, volume))
    limit = f" -r {call.params['bwlimit']}K" if call.params.get("bwlimit") else ""
    formats = f"-f {old.format} -O {made.format}"
    return f"command '/usr/bin/qemu-img convert -p -n{limit} {formats} {paths[0]} zeroinit:{paths[1]}' "


def _copy_firewall(call: Call, source: Vm, vm: Vm) -> None:
    file = call.world.cluster.firewalls.get(source.vmid)
    if file:
        call.world.cluster.firewalls[vm.vmid] = file.copy()


def _undo(call: Call, vm: Vm, made: list[str]) -> None:
    for volid in made:
        disks.free_volume(call.world, vm.node, volid)
    cluster = call.world.cluster
    cluster.vms.pop(vm.vmid, None)
    cluster.firewalls.pop(vm.vmid, None)
    for pool in cluster.pools.values():
        pool.vms.discard(vm.vmid)
    cluster.version += 1
