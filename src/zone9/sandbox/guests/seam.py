"""The seam between the sandbox's API and its machines.

The API server decides *that* a VM runs; what running means is behind `Guests`: a QEMU process
(`qemu.QemuGuests`) or nothing but a note (`rows.RowGuests`). Nothing here knows HTTP or QEMU, and a
`GuestSpec` never carries a default that Proxmox would not have chosen.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class StartFailed(Exception):
    """Says in `text`, as a task's exit status would, why a guest did not start."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True, slots=True)
class Smbios:
    """Holds the decoded fields of `smbios1`: plain text, whatever `base64` said."""

    uuid: str
    serial: str = ""
    sku: str = ""
    manufacturer: str = ""
    product: str = ""
    version: str = ""
    family: str = ""


@dataclass(frozen=True, slots=True)
class Nic:
    """Is `netN`; `index` is N. Two NICs meet when `bridge` and `tag` are the same."""

    index: int
    mac: str
    bridge: str
    tag: int | None = None
    model: str = "virtio"
    link_down: bool = False


@dataclass(frozen=True, slots=True)
class Disk:
    """Is a disk; without a `path` it reads as zeros and keeps nothing. `size` is in bytes, `base` names its template."""

    slot: str
    size: int
    path: Path | None = None
    base: str = ""


@dataclass(frozen=True, slots=True)
class CloudInit:
    """Holds the cloud-init keys of a config as text; `sshkeys` stays percent-encoded, as Proxmox has it."""

    ciuser: str | None = None
    cipassword: str | None = None
    ciupgrade: bool = True
    sshkeys: str | None = None
    nameserver: str | None = None
    searchdomain: str | None = None
    ipconfig: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """Is everything a guest is started from; `memory` is in MiB.

    `cloudinit` is None for a VM without a cloud-init drive. `ignores_acpi` makes a guest that does not
    react to its power button, to try a shutdown that times out.
    """

    vmid: int
    name: str
    node: str
    memory: int
    cores: int
    smbios: Smbios
    nics: tuple[Nic, ...] = ()
    disks: tuple[Disk, ...] = ()
    cloudinit: CloudInit | None = None
    ignores_acpi: bool = False


class Guests(Protocol):
    """Runs guests by VMID.

    `start` raises StartFailed and leaves nothing behind; starting a running guest is StartFailed too. The
    other verbs on a guest that does not run do nothing (`shutdown` answers True: it is off). `on_exit` is
    called with the VMID when a guest ended without `stop`, `shutdown` or `close` having asked for it: it
    powered itself off, or its process died. It may be set at any time and is called on the event loop.
    `needs_files` tells whether a disk must be a file to keep what its guest writes.
    """

    needs_files: bool
    on_exit: Callable[[int], None]

    async def start(self, spec: GuestSpec) -> None: ...

    async def stop(self, vmid: int) -> None: ...

    async def shutdown(self, vmid: int, timeout: float) -> bool:  # noqa: ASYNC109 - Proxmox's own parameter
        """Presses the power button, and tells whether the guest was off within `timeout` seconds."""
        ...

    async def reset(self, vmid: int) -> None: ...

    async def pause(self, vmid: int) -> None: ...

    async def resume(self, vmid: int) -> None: ...

    async def grow(self, vmid: int, slot: str, size: int) -> None:
        """Shows a running guest that one of its disks has `size` bytes now."""
        ...

    def running(self, vmid: int) -> bool: ...

    def pid(self, vmid: int) -> int | None: ...

    def page_url(self, vmid: int) -> str | None:
        """Answers the loopback URL that reaches port 80 of the guest's first static IPv4 address, if it has one.

        It is there from the start, and takes connections before the guest answers them: ask with a short timeout.
        """
        ...

    def console(self, vmid: int) -> bytes:
        """Answers the tail of the serial console, also of a guest that has ended."""
        ...

    def console_end(self, vmid: int) -> int:
        """Answers how many bytes the serial console has said since the guest's start, kept or not."""
        ...

    def type_in(self, vmid: int, data: bytes) -> None:
        """Types on the serial console; whether it echoes is the guest's affair."""
        ...

    async def close(self) -> None: ...
