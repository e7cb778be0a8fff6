"""What is in an image that somebody uploaded: its virtual size, and why Proxmox would not trust it.

An image may name other files of the node, and a guest that boots it would read them; so Proxmox asks qemu-img and
refuses (pve-facts 6.2, upload 4). The headers are read here, VMware's from its virtual disk format, because qemu-img
need not be on this machine. The texts name the file as the node would.
"""

import tarfile
from collections.abc import Callable
from pathlib import Path

from zone9.sandbox import qcow2
from zone9.sandbox.answers import PveError

VMDK_MAGIC = b"KDMV"
VMDK_TEXT = b"# Disk DescriptorFile"
# Recorded: the real code looks for a field that the recording's qemu-img did not give.
VMDK_UNREAD = (
    "Can't use an undefined value as an ARRAY reference at /usr/share/perl5/PVE/Storage/Plugin.pm line 1255."
)


def virtual_size(path: Path, suffix: str) -> int:
    """Answers how large the disk in an image is, in bytes; for what is no qcow2 that is the file's own size."""
    found = qcow2.read(path) if suffix == "qcow2" else None
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
    found = qcow2.read(path)
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
