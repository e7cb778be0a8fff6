"""Why: Proxmox re-prints what it is given, so two lines that mean the same are seldom the same text.

`virtio=BC:24:11:..,bridge=vmbr0` is a model, a MAC and a bridge; `size=1G` is `size=1024M`; a clone's
smbios1 comes back in another order. Lines are compared as they are parsed, and changed only in the sub-keys
asked for. The formats are those of PVE/JSONSchema.pm (parse_property_string) and PVE/QemuServer (net, drive,
smbios1, ipconfig, agent). This module never drops a sub-key that it does not know.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping
from urllib.parse import unquote

Parts = dict[str, str]

_NIC_MODELS = frozenset(
    {"e1000", "e1000-82540em", "e1000-82544gc", "e1000-82545em", "e1000e", "i82551", "i82557b", "i82559er"}
    | {"ne2k_isa", "ne2k_pci", "pcnet", "rtl8139", "virtio", "vmxnet3"}
)
_DRIVE = re.compile(r"(?:scsi|virtio|ide|sata|unused)\d+|efidisk0|tpmstate0")
_DEFAULT_KEYS = {
    "net": "model",
    "agent": "enabled",
    "cpu": "cputype",
    "vga": "type",
    "memory": "current",
    "boot": "legacy",
    "machine": "type",
    "rng": "source",
    "usb": "host",
    "hostpci": "host",
    "watchdog": "model",
    "virtiofs": "dirid",
    "startup": "order",
    "ipconfig": "",
    "smbios": "",
    "numa": "",
    "audio": "",
    "meta": "",
    "cicustom": "",
    "ivshmem": "",
}
_LISTS = frozenset({"tags", "hotplug", "nameserver"})
_YES, _NO = frozenset({"1", "on", "yes", "true"}), frozenset({"0", "off", "no", "false"})
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MASK = "**********"


def default_key(key: str) -> str | None:
    """Returns the default sub-key of a config key, "" if it has none, None if it is no property string."""
    if _DRIVE.fullmatch(key):
        return "file"
    return _DEFAULT_KEYS.get(key.rstrip("0123456789"))


def parse(key: str, line: str) -> Parts:
    """Parses a line into its sub-keys, in order; a NIC's model and MAC become `model` and `macaddr`."""
    default = default_key(key)
    if default is None:
        raise ValueError(f"{key} is not a property string")
    parts: Parts = {}
    for text in line.split(","):
        if not text.strip():
            continue
        name, equals, value = text.strip().partition("=")
        found = {name: value} if equals else {default: name}
        if equals and default == "model" and name in _NIC_MODELS:
            found = {"model": name, "macaddr": value}
        if "" in found or found.keys() & parts.keys():
            raise ValueError(f"{key}: a value without a key, or a key given twice")
        parts |= found
    return parts


def format_line(key: str, parts: Mapping[str, str]) -> str:
    """Prints sub-keys in their order, the default one first and without its name."""
    default = default_key(key)
    rest = dict(parts)
    texts = []
    if default == "model" and rest.get("model") in _NIC_MODELS and "macaddr" in rest:
        texts.append(f"{rest.pop('model')}={rest.pop('macaddr')}")
    elif default and default in rest:
        texts.append(rest.pop(default))
    return ",".join([*texts, *(f"{name}={value}" for name, value in rest.items())])


def merge(
    key: str,
    line_read: str,
    changes: Mapping[str, str | int | None] | None = None,
    /,
    **more: str | int | None,
) -> str:
    """Sets only the given sub-keys on the line just read; None takes one away, the rest stays as it is."""
    parts = parse(key, line_read)
    for name, value in {**(changes or {}), **more}.items():
        if value is None:
            parts.pop(name, None)
        else:
            parts[name] = str(int(value)) if isinstance(value, bool) else str(value)
    return format_line(key, parts)


def size_bytes(text: str) -> int:
    """Returns the bytes of a size as Proxmox prints it: `8G`, `1088M`, `104858K`, plain bytes."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a size: {text}")
    return int(float(found[1]) * _UNITS[found[2]]) if "." in found[1] else int(found[1]) * _UNITS[found[2]]


def format_size(count: int) -> str:
    """Prints bytes in the largest unit that stays whole, as PVE::JSONSchema::format_size does."""
    for unit in ("T", "G", "M", "K"):
        if count and count % _UNITS[unit] == 0:
            return f"{count // _UNITS[unit]}{unit}"
    return str(count)


def same(key: str, one: object, other: object) -> bool:
    """Tells whether two values of a config key mean the same. None, "" and " " are all absence.

    `cipassword` reads back masked, so it cannot be compared: ValueError.
    """
    if key == "cipassword":
        raise ValueError("cipassword reads back masked")
    return _meaning(key, one) == _meaning(key, other)


def _meaning(key: str, value: object) -> object:
    text = "" if value is None else str(int(value)) if isinstance(value, bool) else str(value)
    if not text.strip():
        return None
    if key in _LISTS:
        return frozenset(part.lower() for part in re.split(r"[;,\s]+", text) if part)
    if key == "description":
        return text.rstrip()
    if key == "sshkeys":
        return tuple(line.strip() for line in unquote(text).splitlines() if line.strip())
    if default_key(key) is None:
        return _scalar(text)
    try:
        parts = parse(key, text)
    except ValueError:
        return text
    if key == "smbios1":
        return _smbios(parts)
    return {name: _part(name, part) for name, part in parts.items()}


def _scalar(text: str) -> object:
    plain = text.strip()
    try:
        return float(plain)
    except ValueError:
        return plain


def _part(name: str, text: str) -> object:
    if name == "size":
        try:
            return size_bytes(text)
        except ValueError:
            return text
    if name in {"macaddr", "uuid"}:
        return text.lower()
    if name in {"ip", "ip6", "gw", "gw6"}:
        try:
            return ipaddress.ip_interface(text)
        except ValueError:
            return text
    if text in _YES:
        return True
    if text in _NO:
        return False
    return _scalar(text)


def _smbios(parts: Parts) -> dict[str, str]:
    coded = parts.get("base64") in _YES
    plain = {name: text for name, text in parts.items() if name != "base64"}
    return {
        name: text.lower() if name == "uuid" else _decoded(text) if coded else text
        for name, text in plain.items()
    }


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True).decode(
            "utf-8", "surrogateescape"
        )
    except (binascii.Error, ValueError):
        return text


def smbios1(uuid: str, **fields: str) -> str:
    """Writes a whole `smbios1` line with its uuid and base64 fields (`serial`, `manufacturer`, ...)."""
    coded = {name: base64.b64encode(text.encode()).decode() for name, text in fields.items()}
    flag = {"base64": "1"} if coded else {}
    line = format_line("smbios1", {**flag, "uuid": uuid, **coded})
    if len(line) > 512:
        raise ValueError("smbios1 holds at most 512 characters")
    return line


def smbios_fields(line: str | None) -> dict[str, str]:
    """Returns a `smbios1` line's fields in plain text, the uuid in lower case."""
    return _smbios(parse("smbios1", line)) if line and line.strip() else {}


def masked(value: object) -> bool:
    """Tells whether Proxmox hid the value."""
    return value == _MASK
