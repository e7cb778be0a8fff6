"""Backing a VM up (vzdump).

An archive keeps the config and the sizes of the disks, not their bytes. The texts are those of PVE/VZDump.pm and of the recorded answers (pve-facts 6.2, backup 4).
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call
from zone9.sandbox.state import Archive, Storage, Vm, Volume
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import values as text

SUFFIXES = {"0": "", "1": ".lzo", "lzo": ".lzo", "gzip": ".gz", "zstd": ".zst"}
LOCK = "backup"
NOT_KEPT = frozenset({"lock", "parent", "digest", "vmstate"})


@dataclass(slots=True)
class Job:
    """Is one run of vzdump: what it was asked for, and how many of its VMs failed."""

    call: Call
    task: Task
    storage: Storage
    mode: str
    failed: int = 0
    asked: dict[str, Any] = field(default_factory=dict)


def usable_storage(call: Call, name: str) -> Storage:
    """Answers the storage of a backup, or what its job ends with."""
    storage = call.world.cluster.storages.get(name)
    if storage is None:
        absent = f"storage '{name}' does not exist"
        raise PveError(
            f"could not activate storage '{name}': {absent} could not get storage information for '{name}': {absent}"
        )
    if "backup" not in storage.content:
        raise PveError(
            f"could not get storage information for '{name}': can't use storage '{name}' for backups - wrong content type"
        )
    return storage


async def back_up(job: Job, vmid: int) -> None:
    """Backs one VM up; a failure is a line in the log and counts, the job goes on."""
    vm = job.call.world.cluster.vms.get(vmid)
    try:
        if vm is None or vm.node != job.call.node:
            raise PveError(f"unable to find VM '{vmid}'")
        job.task.log(f"INFO: Starting Backup of VM {vmid} (qemu)")
        job.task.log(f"INFO: Backup started at {_moment(job.call):%Y-%m-%d %H:%M:%S}")
        await _copy(job, vm)
    except PveError as error:
        job.failed += 1
        job.task.log(f"ERROR: Backup of VM {vmid} failed - {error.text}")
        job.task.log(f"INFO: Failed at {_moment(job.call):%Y-%m-%d %H:%M:%S}")


async def _copy(job: Job, vm: Vm) -> None:
    world, task = job.call.world, job.task
    task.log(f"INFO: status = {'running' if vm.running else 'stopped'}")
    async with world.locks.hold(vm.vmid, log=task.log):
        if vm.lock:
            raise PveError(f"VM is locked ({vm.lock})")
        world.must_write(vm)
        vm.file.put("lock", LOCK)
    if not vm.running:  # its QEMU is started for the copy alone, and the guest is not
        await world.clock.sleep(world.durations.start)
    try:
        task.log(f"INFO: backup mode: {job.mode if vm.running else 'stop'}")
        task.log("INFO: ionice priority: 7")
        task.log(f"INFO: VM Name: {vm.name}")
        sizes = dict(_disks_of(job, vm))
        total = sum(sizes.values())
        name = f"vzdump-qemu-{vm.vmid}-{_moment(job.call):%Y_%m_%d-%H_%M_%S}.vma{SUFFIXES[job.asked['compress']]}"
        task.log(f"INFO: creating vzdump archive '{job.storage.path}/dump/{name}'")
        if job.storage.used(vm.node) + total // 2 > job.storage.total:
            raise PveError("job failed with err -28 - No space left on device")
        await world.clock.sleep(total / world.durations.copy_bytes_per_second)
    finally:
        if vm.config.get("lock") == LOCK:
            vm.file.values.pop("lock")
            vm.file.touch()
    kept = {
        key: value
        for key, value in vm.config.items()
        if key not in NOT_KEPT and not text.UNUSED_KEY.fullmatch(key)
    }
    volid = f"{job.storage.name}:backup/{name}"
    job.storage.on(vm.node)[volid] = Volume(
        volid, "backup", name.split(".", 1)[1], max(total // 2, 512), int(_moment(job.call).timestamp()), vm.vmid,
        used=max(total // 2, 512),
        archive=Archive(
            kept, sizes, protected=bool(job.asked.get("protected")), notes=_notes(vm, job.asked.get("notes-template"))
        ),
    )  # fmt: skip
    task.log(f"INFO: archive file size: {max(total // 2, 512) // 2**20}MB")
    task.log(
        f"INFO: Finished Backup of VM {vm.vmid} (00:00:{int(total / world.durations.copy_bytes_per_second):02d})"
    )
    task.log(f"INFO: Backup finished at {_moment(job.call):%Y-%m-%d %H:%M:%S}")


def _disks_of(job: Job, vm: Vm) -> list[tuple[str, int]]:
    """Answers the disks that go into the archive; a drive with backup=0 and every CD stay out."""
    found = []
    for key, line in sorted(vm.config.items()):
        if not text.is_disk(key) or text.is_cdrom(line):
            continue
        drive = text.parse_drive(line)
        if drive.get("backup", "1") == "0":
            job.task.log(f"INFO: exclude disk '{key}' '{drive['file']}' (backup=no)")
            continue
        volume = job.call.world.cluster.volume(vm.node, drive["file"])
        if volume is None:
            raise PveError(f"volume '{drive['file']}' does not exist")
        job.task.log(f"INFO: include disk '{key}' '{drive['file']}' {text.print_size(volume.size)}")
        found.append((key, volume.size))
    return found


def _notes(vm: Vm, template: str | None) -> str:
    filled = (template or "").replace("{{guestname}}", vm.name).replace("{{vmid}}", str(vm.vmid))
    return filled.replace("{{node}}", vm.node).replace("\\n", "\n")


def _moment(call: Call) -> datetime:
    return datetime.fromtimestamp(call.world.now(call.node), UTC)


def find_archive(call: Call, volid: str) -> Volume:
    """Answers an archive, after the right to read it; the right is asked for even where there is none (recorded)."""
    vmid = vmid_of(volid)
    if vmid is not None and not call.is_root:
        call.must(f"/vms/{vmid}", "VM.Backup")
    volume = call.world.cluster.volume(call.node, volid)
    if volume is None or volume.archive is None:
        raise PveError(f"volume '{volid}' does not exist")
    return volume


def vmid_of(volid: str) -> int | None:
    """Answers whose backup a name says it is."""
    parts = volid.rsplit("/", 1)[-1].split("-")
    return int(parts[2]) if parts[:2] == ["vzdump", "qemu"] and parts[2:] and parts[2].isdigit() else None
