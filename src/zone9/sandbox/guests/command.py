"""The QEMU command line of a guest, decided from its spec alone.

Where a real Proxmox starts what is on the disk, this starts the tiny guest: kernel and initrd directly. Values
that came from outside travel as JSON or with their commas doubled, as qemu-server does, so that none of them can
become an option.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zone9.sandbox.guests.seam import Disk, GuestSpec, Nic, Smbios
from zone9.sandbox.guests.tiny import Tiny

PROGRAM = "qemu-system-x86_64"
TCG = ("-accel", "tcg,thread=multi,tb-size=32", "-cpu", "qemu64,+rdrand")
KVM = ("-accel", "kvm", "-cpu", "host")
BARE = ("-nodefaults", "-no-user-config", "-display", "none")
SECCOMP = ("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
# The last five save about half a second of emulated boot; nothing in the guest is worth protecting from itself.
KERNEL_LINE = (
    "console=ttyS0 quiet panic=5 mitigations=off nokaslr no_timer_check tsc=reliable random.trust_cpu=on"
)
LEAST_MEMORY = 96  # MiB; the tiny guest does not boot in less


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits what a guest really gets, so that a sandbox of large servers fits on a small host."""

    memory: int = 128  # MiB
    cores: int = 2


def argv(
    spec: GuestSpec,
    tiny: Tiny,
    *,
    switches: Mapping[int, str],
    drive: Path | None,
    monitor: int,
    caps: Caps,
    accelerator: Sequence[str] = TCG,
) -> list[str]:
    """Answers the command; `switches` names each NIC's socket in QEMU's directory, `monitor` is QMP's descriptor."""
    memory = max(LEAST_MEMORY, min(spec.memory, caps.memory))
    cores = max(1, min(spec.cores, caps.cores))
    deaf = " zone9.deaf" if spec.ignores_acpi else ""
    command = [
        *(PROGRAM, "-name", f"z9-{spec.vmid}", "-machine", "pc,usb=off", *BARE, *SECCOMP, *accelerator),
        *("-m", str(memory), "-smp", str(cores)),
        *("-kernel", str(tiny.kernel), "-initrd", str(tiny.initrd), "-append", KERNEL_LINE + deaf),
        *("-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"),
        *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
        *_smbios(spec.smbios),
    ]
    if drive is not None:
        command += _block("cidata", {"driver": "raw", "read-only": True, "file": _file(drive)})
    for disk in spec.disks:
        command += _block(disk.slot, _backend(disk))
    for nic in spec.nics:
        command += _nic(nic, switches[nic.index])
    return command


def _smbios(smbios: Smbios) -> list[str]:
    """Writes type 1 with its keys sorted, as QemuServer.pm does, and nothing when there is nothing to say."""
    fields = {
        "family": smbios.family,
        "manufacturer": smbios.manufacturer,
        "product": smbios.product,
        "serial": smbios.serial,
        "sku": smbios.sku,
        "uuid": smbios.uuid,
        "version": smbios.version,
    }
    said = "".join(f",{name}={value.replace(',', ',,')}" for name, value in fields.items() if value)
    return ["-smbios", f"type=1{said}"] if said else []


def _block(name: str, backend: dict[str, object]) -> list[str]:
    """Attaches a block device whose serial is `name`, by which the guest tells its disks apart."""
    device = {"driver": "virtio-blk-pci", "drive": f"disk-{name}", "serial": name}
    return [
        *("-blockdev", json.dumps({"node-name": f"disk-{name}", **backend})),
        *("-device", json.dumps(device)),
    ]


def _file(path: Path) -> dict[str, object]:
    return {"driver": "file", "filename": str(path)}


def _backend(disk: Disk) -> dict[str, object]:
    """Chooses the file, or for a disk without one a device of its size that reads as zeros and keeps nothing."""
    if disk.path is None:
        return {"driver": "null-co", "size": disk.size, "read-zeroes": True}
    return {"driver": "qcow2" if disk.path.suffix == ".qcow2" else "raw", "file": _file(disk.path)}


def _nic(nic: Nic, switch: str) -> list[str]:
    """Attaches a NIC to its switch; it is always virtio, the only model for which the tiny guest has a driver."""
    address = {"type": "unix", "path": switch}
    netdev = {"type": "stream", "id": f"net{nic.index}", "server": False, "addr": address}
    device = {"driver": "virtio-net-pci", "netdev": f"net{nic.index}", "mac": nic.mac, "romfile": ""}
    return ["-netdev", json.dumps(netdev), "-device", json.dumps(device)]
