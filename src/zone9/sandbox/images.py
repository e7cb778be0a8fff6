"""What is in an image that somebody uploaded: its virtual size, and why Proxmox would not trust it.

An image may name other files of the node, and a guest that boots it would read them; so Proxmox asks qemu-img and
refuses (pve-facts 6.2, upload 4). The headers are read here, from QEMU's docs/interop/qcow2.txt and VMware's virtual
disk format, because qemu-img need not be on this machine. The texts name the file as the node would.
"""

import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zone9.sandbox.answers import PveError

QCOW2_MAGIC = b"QFI\xfb"
QCOW2_VERSIONS = frozenset({2, 3})
# Magic, version, backing file's offset and length (no name is at 0), cluster bits, virtual size; all big-endian.
QCOW2_HEAD = struct.Struct(">4sIQIIQ")
# Where version 3 says what a reader must know; bit 2 of it is an external data file.
QCOW2_INCOMPATIBLE = 72
DATA_FILE = 1 << 2
VMDK_MAGIC = b"KDMV"
VMDK_TEXT = b"# Disk DescriptorFile"
# Recorded: the real code looks for a field that the recording's qemu-img did not give.
VMDK_UNREAD = (
    "Can't use an undefined value as an ARRAY reference at /usr/share/perl5/PVE/Storage/Plugin.pm line 1255."
)


@dataclass(frozen=True, slots=True)
class Qcow2:
    """Is what a qcow2 header says; `size` is the virtual size in bytes."""

    size: int
    backed: bool = False
    data_file: bool = False


def read_qcow2(path: Path) -> Qcow2 | None:
    """Answers the header of a qcow2 image, None where it is something else or cut off."""
    with path.open("rb") as file:
        head = file.read(112)
        if len(head) < QCOW2_HEAD.size:
            return None
        magic, version, backing, _, _, size = QCOW2_HEAD.unpack_from(head)
        if magic != QCOW2_MAGIC or version not in QCOW2_VERSIONS:
            return None
        incompatible = 0
        if version > 2:
            if len(head) < QCOW2_INCOMPATIBLE + 8:
                return None
            (incompatible,) = struct.unpack_from(">Q", head, QCOW2_INCOMPATIBLE)
    return Qcow2(size, backing != 0, bool(incompatible & DATA_FILE))


def virtual_size(path: Path, suffix: str) -> int:
    """Answers how large the disk in an image is, in bytes; for what is no qcow2 that is the file's own size."""
    found = read_qcow2(path) if suffix == "qcow2" else None
    return path.stat().st_size if found is None else found.size


def must_be_trusted(path: Path, suffix: str, shown: str, log: Callable[[str], None]) -> None:
    """Raises what the task ends with when an image of this format cannot be read, or refers to other files."""
    match suffix:
        case "qcow2":
            _check_qcow2(path, shown, log)
        case "vmdk":
            _check_vmdk(path, shown, log)
        case "ova":
            _check_ova(path, shown)
        case _:
            """Whatever it is, as raw it is bytes: a qcow2 under that name passes (recorded)."""


def _check_qcow2(path: Path, shown: str, log: Callable[[str], None]) -> None:
    found = read_qcow2(path)
    if found is None:
        raise _unreadable(shown, "qcow2", "Image is not in qcow2 format", log)
    if found.data_file:
        raise PveError(f"{shown}: 'data-file' references are not allowed!")
    if found.backed:
        raise PveError(f"backing file not allowed for untrusted image '{shown}'!")


def _check_vmdk(path: Path, shown: str, log: Callable[[str], None]) -> None:
    with path.open("rb") as file:
        head = file.read(len(VMDK_TEXT))
    if not head.startswith((VMDK_MAGIC, VMDK_TEXT)):
        raise _unreadable(shown, "vmdk", "Image not in VMDK format", log)
    raise PveError(VMDK_UNREAD)


def _unreadable(shown: str, suffix: str, why: str, log: Callable[[str], None]) -> PveError:
    log(f"command '/usr/bin/qemu-img info '--output=json' {shown} -f {suffix}' failed: exit code 1")
    return PveError(f"qemu-img: Could not open '{shown}': {why}")


def _check_ova(path: Path, shown: str) -> None:
    """An appliance is a tar file with a description in it (pve-storage, API2/Storage/Status.pm)."""
    try:
        with tarfile.open(path, "r:") as archive:
            names = archive.getnames()
    except (tarfile.TarError, OSError) as error:
        raise PveError(f"command 'tar -t -f {shown}' failed: exit code 2") from error
    if not any(name.endswith(".ovf") for name in names):
        raise PveError("ova archive has no .ovf file inside")
