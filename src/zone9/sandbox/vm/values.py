"""Values of a VM's config: how Proxmox parses, fills in and prints them again.

Everything is pure but for the random MACs and uuids, which come from the generator that is passed in.
"""

import random
import re
import uuid
from collections.abc import Iterable

DISK_KEY = re.compile(r"(?:ide[0-3]|sata[0-5]|scsi(?:[12]?\d|30)|virtio(?:1[0-5]|\d)|efidisk0|tpmstate0)")
DRIVE_BUSES = ("ide", "scsi", "virtio", "sata", "efidisk", "tpmstate")
UNUSED_KEY = re.compile(r"unused\d{1,3}")
NET_KEY = re.compile(r"net(?:[12]?\d|3[01])")
NIC_MODELS = frozenset(
    [
        "e1000",
        "e1000-82540em",
        "e1000-82544gc",
        "e1000-82545em",
        "e1000e",
        "i82551",
        "i82557b",
        "i82559er",
        "ne2k_isa",
        "ne2k_pci",
        "pcnet",
        "rtl8139",
        "virtio",
        "vmxnet3",
    ]
)
# The order in which a NIC is printed again (qemu-server, print_net: model first, then the schema's own order).
NIC_ORDER = ("bridge", "firewall", "host-tunnel", "link_down", "mtu", "queues", "rate", "tag", "trunks")
SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT])?")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def drive_rank(key: str) -> tuple[int, str, int]:
    """Orders drives as qemu-server's valid_drive_names does; other keys come after, by name."""
    base = key.rstrip("0123456789")
    if not is_disk(key):
        return len(DRIVE_BUSES), key, 0
    return DRIVE_BUSES.index(base), "", int(key[len(base) :])


def is_disk(key: str) -> bool:
    """Tells whether a key names a drive, cloud-init and CD-ROM drives included."""
    return DISK_KEY.fullmatch(key) is not None


def parse_property_string(text: str, default_key: str = "") -> dict[str, str]:
    """Reads `a=1,b=2`; a part without `=` is the value of the default key."""
    values: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        if equals:
            values[key] = value
        else:
            values[default_key] = part
    return values


def print_property_string(values: dict[str, str], default_key: str = "") -> str:
    """Prints the default key first and bare, the others sorted, as PVE::JSONSchema does."""
    parts = [values[default_key]] if default_key in values else []
    parts += [f"{key}={values[key]}" for key in sorted(values) if key != default_key]
    return ",".join(parts)


def parse_drive(text: str) -> dict[str, str]:
    """Reads a drive line; the volume is under `file`."""
    drive = parse_property_string(text, "file")
    if "volume" in drive:
        drive["file"] = drive.pop("volume")
    return drive


def print_drive(drive: dict[str, str]) -> str:
    return print_property_string(drive, "file")


def is_cloudinit(text: str | None) -> bool:
    """Tells whether a drive line is a cloud-init drive."""
    return (
        bool(text) and re.search(r"vm-\d+-cloudinit|:cloudinit", parse_drive(text or "")["file"]) is not None
    )


def is_cdrom(text: str) -> bool:
    drive = parse_drive(text)
    return drive.get("media") == "cdrom"


def parse_size(text: str) -> int:
    """Answers bytes of `1G`, `64M`, `104858K` or a bare number."""
    match = SIZE.fullmatch(text)
    if match is None:
        message = f"not a size: {text}"
        raise ValueError(message)
    return int(float(match[1]) * UNITS.get(match[2] or "", 1))


def print_size(size: int) -> str:
    """Prints bytes in the largest unit that divides them (qemu-server, format_size)."""
    if size == 0:
        return "0T"
    for unit in "TGMK":
        if size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]}{unit}"
    return str(size)


def new_mac(random_source: random.Random) -> str:
    """Makes a MAC in Proxmox's own range (datacenter default BC:24:11)."""
    return "BC:24:11:" + ":".join(f"{random_source.randrange(256):02X}" for _ in range(3))


def new_uuid(random_source: random.Random) -> str:
    return str(uuid.UUID(int=random_source.getrandbits(128), version=4))


def parse_nic(text: str) -> dict[str, str]:
    """Reads a NIC line into `model`, `macaddr` and the rest."""
    nic: dict[str, str] = {}
    for key, value in parse_property_string(text, "model").items():
        if key in NIC_MODELS:
            nic["model"], nic["macaddr"] = key, value.upper()
        else:
            nic[key] = value
    return nic


def print_nic(nic: dict[str, str]) -> str:
    parts = [f"{nic['model']}={nic['macaddr']}"]
    parts += [f"{key}={nic[key]}" for key in sorted(nic) if key not in {"model", "macaddr"}]
    return ",".join(parts)


def with_mac(text: str, random_source: random.Random) -> str:
    """Prints a NIC again, with a new MAC where none was sent (pve-facts 6.12)."""
    nic = parse_nic(text)
    if not nic.get("macaddr"):
        nic["macaddr"] = new_mac(random_source)
    nic["macaddr"] = nic["macaddr"].upper()
    return print_nic(nic)


def unique_tags(text: str, style: dict[str, str]) -> str:
    """Sorts, lower-cases and de-duplicates tags as the datacenter's tag-style says (pve-facts 6.13)."""
    tags = split_list(text)
    if style.get("case-sensitive") != "1":
        tags = [tag.lower() for tag in tags]
    tags = list(dict.fromkeys(tags))
    if style.get("ordering") != "config":
        tags.sort()
    return ";".join(tags)


def split_list(text: str) -> list[str]:
    """Splits as PVE::Tools::split_list: commas, semicolons and white space."""
    return [part for part in re.split(r"[,;\s]+", text) if part]


def clone_smbios(text: str | None, random_source: random.Random) -> str:
    """Prints smbios1 again with a new uuid, as a clone does (pve-facts 6.9)."""
    fields = parse_property_string(text or "")
    fields["uuid"] = new_uuid(random_source)
    return print_property_string(fields)


def first_free(taken: Iterable[str], prefix: str, limit: int = 256) -> str:
    """Answers the first `prefixN` that is not taken."""
    names = set(taken)
    return next(f"{prefix}{index}" for index in range(limit) if f"{prefix}{index}" not in names)
