"""Validation against Proxmox's own API schema, plus the formats that the schema only names.

The schema comes from fakepve as data; where its validator is laxer than the real code (top-level booleans,
smbios1, cpu, cicustom), the checks here are added. What passes here is not yet allowed: rules that look at
the state of a VM live with the VM.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fakepve import schema as fake

from zone9.sandbox import firewall_formats
from zone9.sandbox.cpus import MODELS

SMBIOS_TEXT = frozenset({"version", "serial", "manufacturer", "product", "sku", "family"})
UUID = re.compile(r"[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}")
# Whether or not base64=1 is there (recorded: a colon in a plain serial is refused).
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}\n?")
BOOT_DEVICE = re.compile(
    r"(?:ide[0-3]|sata[0-5]|scsi\d{1,2}|virtio\d{1,2}|net\d{1,2}|usb\d{1,2}|hostpci\d{1,2})"
)
FORMAT_ERROR = "invalid format - format error\n"
UNKNOWN = "property is not defined in schema and the schema does not allow additional properties"
UNKNOWN_KEY = "invalid key in comma-separated list property: "
CUT_AT_LINE_END = frozenset({"pve-fw-comment-spec"})
NO_MATCH = "value does not match the regex pattern"


class Method:
    """Is one method of the API: its schema, and where in the tree it was found."""

    __slots__ = ("info", "params", "template", "verb")

    def __init__(self, verb: str, template: str, params: dict[str, str], info: dict[str, Any]) -> None:
        self.verb = verb
        self.template = template
        self.params = params
        self.info = info

    @property
    def starts_task(self) -> bool:
        return bool(fake.is_task(self.verb, self.info))


@lru_cache(maxsize=1)
def _load() -> Any:
    return fake.load()


def find(verb: str, path: str) -> Method | None:
    """Finds the method that serves a path, None where Proxmox has none."""
    match = _load().match(path)
    if match is None:
        return None
    info = match.methods.get(verb)
    return None if info is None else Method(verb, match.template, match.params, info)


def knows_path(path: str) -> bool:
    return _load().match(path) is not None


def children(template: str) -> list[str]:
    """Answers the literal names below a path, as an index method lists them."""
    return list(_load().children(template))


def paths() -> dict[str, dict[str, Any]]:
    """Is the whole schema, by path and verb."""
    found: dict[str, dict[str, Any]] = _load().paths
    return found


def _property(properties: dict[str, Any], name: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = properties.get(name)
    return found if found is not None else properties.get(name.rstrip("0123456789") + "[n]")


def validate(method: Method, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Answers the coerced values, and by parameter what is wrong with it."""
    spec = method.info.get("parameters") or {}
    properties = spec.get("properties") or {}
    coerced, errors = fake.validate(spec, values)
    for name in [
        name for name in errors if str((_property(properties, name) or {}).get("format")) in CUT_AT_LINE_END
    ]:
        # Longer comments are taken, up to the end of their first line (recorded).
        del errors[name]
        coerced[name] = values[name]
    for name, why in errors.items():
        if UNKNOWN_KEY in why:
            key = why.split(UNKNOWN_KEY, 1)[1].strip()
            errors[name] = f"{FORMAT_ERROR}{name}.{key}: {UNKNOWN}\n"
    for name, value in values.items():
        found = _property(properties, name)
        if found is None or name in errors:
            continue
        if found.get("type") == "boolean" and str(value) not in {"0", "1"}:
            errors[name] = f"type check ('boolean') failed - got '{value}'"
        check = CHECKS.get(str(found.get("format")))
        if check and (why := check(name, str(value))):
            errors[name] = why
    return coerced, errors


def _pairs(text: str) -> dict[str, str] | str:
    """Splits a property string without a default key, or says why not."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        if not equals:
            return "invalid format - value without key, but schema does not define a default key\n"
        if not key or not value:
            return "invalid format - missing key in comma-separated list property\n"
        if key in pairs:
            return f"invalid format - duplicate key in comma-separated list property: {key}\n"
        pairs[key] = value
    return pairs


def _smbios1(name: str, text: str) -> str | None:
    if not text:
        return "invalid format - missing key in comma-separated list property\n"
    pairs = _pairs(text)
    if isinstance(pairs, str):
        return pairs
    wrong = [f"{name}.{key}: {UNKNOWN}\n" for key in pairs if key not in SMBIOS_TEXT | {"uuid", "base64"}]
    if wrong:
        return FORMAT_ERROR + "".join(wrong)
    wrong += [
        f"{name}.{key}: {NO_MATCH}\n"
        for key in sorted(SMBIOS_TEXT & pairs.keys())
        if not BASE64.fullmatch(pairs[key])
    ]
    if "uuid" in pairs and not UUID.fullmatch(pairs["uuid"]):
        wrong.append(f"{name}.uuid: {NO_MATCH}\n")
    if "base64" in pairs and pairs["base64"].lower() not in {
        "0",
        "1",
        "on",
        "off",
        "yes",
        "no",
        "true",
        "false",
    }:
        wrong.append(f"{name}.base64: type check ('boolean') failed - got '{pairs['base64']}'\n")
    return FORMAT_ERROR + "".join(wrong) if wrong else None


def _cpu(name: str, text: str) -> str | None:
    model = ""
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals:
            model = part
        elif key == "cputype":
            model = value
        elif key not in {"flags", "hidden", "hv-vendor-id", "phys-bits", "guest-phys-bits", "reported-model"}:
            return f"{FORMAT_ERROR}{name}.{key}: {UNKNOWN}\n"
    if model.startswith("custom-"):
        return f"invalid format - Custom cputype '{model.removeprefix('custom-')}' not found\n"
    if model and model not in MODELS:
        return f"invalid format - Built-in cputype '{model}' is not defined (missing 'custom-' prefix?)\n"
    return None


def _cicustom(name: str, text: str) -> str | None:
    pairs = _pairs(text)
    if isinstance(pairs, str):
        return pairs
    wrong = [
        f"{name}.{key}: {UNKNOWN}\n" for key in pairs if key not in {"meta", "network", "user", "vendor"}
    ]
    wrong += [
        f"{name}.{key}: invalid format - unable to parse volume ID '{value}'\n\n"
        for key, value in pairs.items()
        if not re.fullmatch(r"[A-Za-z][\w.-]*[A-Za-z0-9]:.+", value)
    ]
    return FORMAT_ERROR + "".join(wrong) if wrong else None


def _boot(name: str, text: str) -> str | None:
    order = text.removeprefix("order=")
    if order == text:
        return None
    for device in re.split(r"[,;\s]+", order):
        if device and not BOOT_DEVICE.fullmatch(device):
            return f"{FORMAT_ERROR}{name}.order: invalid format - invalid boot device '{device}'\n\n"
    return None


CHECKS: dict[str, Callable[[str, str], str | None]] = {
    "pve-qm-smbios1": _smbios1,
    "pve-vm-cpu-conf": _cpu,
    "pve-qm-cicustom": _cicustom,
    "pve-qm-boot": _boot,
    **firewall_formats.CHECKS,
}
