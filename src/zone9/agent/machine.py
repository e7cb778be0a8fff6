"""What the machine says of itself: SMBIOS, as Proxmox sets it, and the kernel's boot id.

`serial` carries `z9:<token>`; `sku` the API's address and the pins of its key, `https://host:port#sha256[,sha256]`.
A plain process has the same as files in a directory of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from zone9.wire.messages import TOKEN, UUID

DMI = Path("/sys/class/dmi/id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SKU = re.compile(r"(https://[^\s#/]{1,200})/?#([0-9a-f]{64})(?:,([0-9a-f]{64}))?")


class NotAnAppliance(Exception):
    """Means that SMBIOS does not say what an appliance needs to know."""


@dataclass(frozen=True)
class Machine:
    """Is one machine in one boot; `token` is None where the serial carries none."""

    uuid: str
    boot_id: str
    url: str
    pins: tuple[str, ...]
    token: str | None = field(default=None, repr=False)


def read(dmi: Path = DMI, boot_id: Path = BOOT_ID) -> Machine:
    """Raises NotAnAppliance when there is no address with a pin, or no uuid."""
    uuid = _text(dmi / "product_uuid").lower()
    if not UUID.fullmatch(uuid):
        raise NotAnAppliance("the machine's uuid is not readable")
    found = _SKU.fullmatch(_text(dmi / "product_sku"))
    if found is None:
        raise NotAnAppliance("SMBIOS's sku carries no https address with the pin of a key")
    serial = _text(dmi / "product_serial")
    token = serial[3:] if serial.startswith("z9:") and TOKEN.fullmatch(serial[3:]) else None
    pins = tuple(pin for pin in (found[2], found[3]) if pin is not None)
    return Machine(uuid, _text(boot_id).lower(), found[1], pins, token)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip("\x00 \t\r\n")
    except OSError:
        return ""
