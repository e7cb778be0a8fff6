"""Volumes of a VM: names, allocation, import, attaching, and what is left when a drive line goes.

A drive line that asks for a new volume makes one each time it is sent; a drive that is taken away becomes
unusedN, a cloud-init drive is removed (pve-facts 6.2, disks 1 and 4).
"""

import re
from dataclasses import dataclass

from zone9.sandbox import volids
from zone9.sandbox.answers import PveError, bad
from zone9.sandbox.state import GIB, Storage, Vm, Volume
from zone9.sandbox.vm import copylog
from zone9.sandbox.vm import values as text
from zone9.sandbox.world import World

NEW_DISK = re.compile(r"(?P<storage>[A-Za-z][\w.-]*):(?P<size>\d+(?:\.\d+)?)")
CLOUDINIT = re.compile(r"(?P<storage>[A-Za-z][\w.-]*):cloudinit")
ENORMOUS = 2.38 * 2**40
TOO_ENORMOUS = 500
CLOUDINIT_SIZE = 4 * 2**20
IMAGE_VMID = re.compile(r"(?:vm|base|subvol)-(\d+)-")


@dataclass(frozen=True, slots=True)
class NewDisk:
    """Is what a drive line asks to be made, and how long making it takes."""

    line: str
    seconds: float = 0.0
    made: Volume | None = None


def extension(storage: Storage, wanted: str | None) -> str:
    return wanted or "raw"


def volume_id(storage: Storage, vmid: int, name: str, suffix: str) -> str:
    """Names a volume as its storage plug-in does."""
    if storage.kind == "dir":
        return f"{storage.name}:{vmid}/{name}.{suffix}"
    return f"{storage.name}:{name}"


def free_name(world: World, node: str, storage: Storage, vmid: int, prefix: str = "vm") -> str:
    """Answers the first vm-N-disk-M that no volume of this VM has, whatever its format."""
    taken = {
        int(match[1])
        for volume in storage.on(node).values()
        if (match := re.search(rf"(?:vm|base)-{vmid}-disk-(\d+)", volume.volid.rsplit("/", 1)[-1]))
    }
    number = next(n for n in range(10_000) if n not in taken)
    return f"{prefix}-{vmid}-disk-{number}"


def add_volume(
    world: World,
    node: str,
    storage: Storage,
    vmid: int,
    volid: str,
    suffix: str,
    size: int,
    parent: str | None = None,
) -> Volume:
    volume = Volume(volid, "images", suffix, size, world.now(node), vmid, parent)
    storage.on(node)[volid] = volume
    return volume


def free_volume(world: World, node: str, volid: str) -> bool:
    """Removes a volume; False when it was not there. A base that has clones is refused."""
    storage = world.cluster.storages.get(volid.split(":", 1)[0])
    volumes = storage.on(node) if storage else {}
    if volid not in volumes:
        return False
    if any(volume.parent == volid for volume in volumes.values()):
        raise PveError(f"base volume '{volid}' is still in use by linked cloned")
    world.files.remove(volumes.pop(volid).path)
    return True


def check_drive(world: World, node: str, key: str, line: str, *, root: bool) -> None:
    """Refuses a drive line whose storage or path is impossible, before anything is locked."""
    drive = text.parse_drive(line)
    file = drive.get("file", "")
    source = drive.get("import-from", "")
    if source.startswith("/") and not root:
        raise PveError(
            "Only root can pass arbitrary filesystem paths. at /usr/share/perl5/PVE/Storage.pm line 651."
        )
    if file.startswith("/"):
        raise bad({key: f"unable to associate path '{file}' to any storage"})
    if file in {"none", "cdrom"}:
        return
    match = NEW_DISK.fullmatch(file)
    if source:
        if match is None or float(match["size"]) != 0:
            why = "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>"
            raise bad({"import-from": why}) if False else bad({key: why})
        _importable(world, node, key, source)
    storage = world.storage(file.split(":", 1)[0], node)
    if (match or CLOUDINIT.fullmatch(file)) and "images" not in storage.content:
        raise PveError(f"storage '{storage.name}' does not support content-type 'images'")


def _importable(world: World, node: str, key: str, source: str) -> None:
    world.storage(source.split(":", 1)[0], node)
    kind = source.split(":", 1)[1].split("/", 1)[0]
    if kind in {"iso", "vztmpl", "backup", "snippets"}:
        raise bad({key: f"{source} has wrong type '{kind}' - needs to be 'images' or 'import'"})


def make(world: World, vm_node: str, vmid: int, key: str, line: str, log: list[str]) -> NewDisk:
    """Makes what a drive line asks for and answers the line that goes into the config."""
    drive = text.parse_drive(line)
    file = drive["file"]
    if match := CLOUDINIT.fullmatch(file):
        return _cloudinit(world, vm_node, vmid, key, drive, world.storage(match["storage"], vm_node), log)
    if match := NEW_DISK.fullmatch(file):
        storage = world.storage(match["storage"], vm_node)
        if "import-from" in drive:
            return _import(world, vm_node, vmid, key, drive, storage, log)
        size = int(float(match["size"]) * GIB)
        size = -(-size // 1024) * 1024
        if key == "efidisk0":
            size = 528 * 1024
        elif key == "tpmstate0":
            size = 4 * 2**20
        suffix = drive.pop("format", "raw") if storage.kind == "dir" else "raw"
        name = free_name(world, vm_node, storage, vmid)
        volid = volume_id(storage, vmid, name, suffix)
        if suffix == "qcow2" and size > TOO_ENORMOUS * storage.total:
            return NewDisk("", size / ENORMOUS)
        volume = add_volume(world, vm_node, storage, vmid, volid, suffix, size)
        log += copylog.formatting(storage, volume)
        if key == "efidisk0":
            log += [
                copylog.transferred(0, size),
                copylog.transferred(size, size),
                copylog.transferred(size, size),
            ]
        drive.update(file=volid, size=text.print_size(size))
        line = text.print_drive(drive)
        log.append(f"{key}: successfully created disk '{line}'")
        # A qcow2 is given its tables beforehand, which takes long for an enormous one (recorded: 200 TiB, 80 s).
        seconds = size / ENORMOUS if suffix == "qcow2" else 0.0
        return NewDisk(line, seconds, volume)
    return _existing(world, vm_node, key, drive, file, line)


def _existing(world: World, node: str, key: str, drive: dict[str, str], file: str, line: str) -> NewDisk:
    if file in {"none", "cdrom"}:
        return NewDisk(line)
    volume = world.cluster.volume(node, file)
    if volume is None:
        storage = world.storage(file.split(":", 1)[0], node)
        rest = file.split(":", 1)[1]
        if storage.kind == "dir" and not re.match(r"(?:\d+/|iso/|import/|vztmpl/|snippets/|backup/)", rest):
            raise PveError(f"unable to parse directory volume name '{rest}'")
        raise PveError(f"volume '{file}' does not exist")
    if drive.get("media") != "cdrom" or volume.content == "iso":
        drive["size"] = text.print_size(volume.size)
    return NewDisk(text.print_drive(drive))


def _cloudinit(
    world: World, node: str, vmid: int, key: str, drive: dict[str, str], storage: Storage, log: list[str]
) -> NewDisk:
    suffix = "qcow2" if storage.kind == "dir" else "raw"
    volid = volume_id(storage, vmid, f"vm-{vmid}-cloudinit", suffix)
    if volid in storage.on(node):
        raise PveError(
            f"disk image '{storage.path}/images/{vmid}/vm-{vmid}-cloudinit.{suffix}' already exists"
        )
    volume = add_volume(world, node, storage, vmid, volid, suffix, CLOUDINIT_SIZE)
    log += copylog.formatting(storage, volume)
    drive.pop("format", None)
    drive.update(file=volid, media="cdrom")
    line = text.print_drive(drive)
    log.append(f"{key}: successfully created disk '{line}'")
    return NewDisk(line, world.durations.cloudinit_disk, volume)


def _import(
    world: World, node: str, vmid: int, key: str, drive: dict[str, str], storage: Storage, log: list[str]
) -> NewDisk:
    source = drive.pop("import-from")
    volume = world.cluster.volume(node, source)
    if volume is None:
        missing = volids.parse(world.storage(source.split(":", 1)[0], node), source)
        raise PveError(f"failed to stat '{missing.path}'")
    suffix = drive.pop("format", volume.format) if storage.kind == "dir" else "raw"
    name = free_name(world, node, storage, vmid)
    volid = volume_id(storage, vmid, name, suffix)
    room = storage.total - storage.used(node)
    made = add_volume(world, node, storage, vmid, volid, suffix, volume.size)
    log.append(f"create full clone of drive ({source})")
    log += copylog.formatting(storage, made)
    log.append(f"allocated target volume '{volid}'")
    if max(volume.used, volume.file_size or 0) > room:
        done = [0, *(step for step in copylog.steps(volume) if step < room)]
        log += [*(copylog.transferred(step, made.size) for step in done), copylog.out_of_space(room)]
        free_volume(world, node, volid)
        raise PveError(
            f"cannot import from '{source}' - copy failed: {_convert(world, volume, storage, made)}failed: exit code 1"
        )
    made.path = world.files.copy(volume.path) if volume.path else None
    log += [copylog.transferred(done, made.size) for done in [0, *copylog.steps(volume)]]
    drive.update(file=volid, size=text.print_size(volume.size))
    line = text.print_drive(drive)
    log.append(f"{key}: successfully created disk '{line}'")
    return NewDisk(line, volume.size / world.durations.copy_bytes_per_second, made)


def _convert(world: World, old: Volume, storage: Storage, made: Volume) -> str:
    """Is the command that copies an import."""
    source = volids.parse(world.storage(old.volid.split(":", 1)[0]), old.volid).path
    target = copylog.file_of(storage, made)
    formats = f"-f {old.format} -O {made.format}"
    return f"command '/usr/bin/qemu-img convert -p -n {formats} {source} zeroinit:{target}' "


def owned(vm: Vm, line: str) -> str | None:
    """Answers the volume of a drive line when it belongs to this VM."""
    file = text.parse_drive(line).get("file", "")
    match = IMAGE_VMID.match(file.rsplit("/", 1)[-1].rsplit(":", 1)[-1])
    return file if match and int(match[1]) == vm.vmid else None


def detach(world: World, vm: Vm, key: str, line: str, *, force: bool = False) -> None:
    """Takes a drive line out of the config's main section: its volume becomes unusedN, or goes."""
    vm.file.values.pop(key, None)
    register_unused(world, vm, line, force=force)
    vm.file.touch()


def register_unused(world: World, vm: Vm, line: str, *, force: bool = False) -> None:
    """Keeps a volume that no line names any more as unusedN (vmconfig_register_unused_drive)."""
    if text.is_cloudinit(line) or force:
        file = text.parse_drive(line).get("file", "")
        free_volume(world, vm.node, file)
        return
    if text.is_cdrom(line):
        return
    volid = owned(vm, line)
    if volid is None or world.cluster.volume(vm.node, volid) is None:
        return
    if any(
        text.parse_drive(v)["file"] == volid
        for k, v in vm.config.items()
        if text.is_disk(k) or k.startswith("unused")
    ):
        return
    vm.file.put(text.first_free(vm.config, "unused"), volid)


def all_volumes(vm: Vm) -> list[str]:
    """Answers every volume that the config names, pending and unused ones included."""
    lines = [*vm.config.items(), *vm.file.pending.items()]
    for snapshot in vm.file.snapshots.values():
        lines += snapshot.items()
    found = [
        text.parse_drive(line)["file"] for key, line in lines if text.is_disk(key) or key.startswith("unused")
    ]
    return list(dict.fromkeys(volid for volid in found if volid not in {"none", "cdrom"}))
