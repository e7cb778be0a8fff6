"""A VM's config file: sections, types and the digest.

Values are kept as the text that stands in the file, because reading it back is what gives them their types and
quirks (integers become numbers, an empty value becomes one space; pve-facts 6.10, 6.13). The digest is over the
rendered file, so whatever changes a byte of it (a lock, a pending value, a snapshot) changes the digest.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

# Everything that PVE::Tools::encode_text leaves alone: printable ASCII without % and colon.
PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "%:")
INTEGER_KEYS = frozenset(
    [
        "balloon",
        "cores",
        "cpuunits",
        "migrate_speed",
        "shares",
        "smp",
        "sockets",
        "vcpus",
        "snaptime",
        "vmstate",
    ]
)
BOOLEAN_KEYS = frozenset(
    [
        "acpi",
        "allow-ksm",
        "autostart",
        "ciupgrade",
        "freeze",
        "keephugepages",
        "kvm",
        "localtime",
        "numa",
        "onboot",
        "protection",
        "reboot",
        "tablet",
        "tdf",
        "template",
    ]
)
MASK = "*" * 10
SECRETS = frozenset({"cipassword"})


def encode_line(text: str) -> str:
    return quote(text, safe=PLAIN)


def stored(key: str, value: str) -> str:
    """Answers what a value is after it was written and read: trailing space goes, nothing becomes a space."""
    if key == "description":
        return value.rstrip()
    return value.strip() or " "


def typed(key: str, value: str) -> Any:
    """Gives a value the JSON type that Proxmox answers with."""
    if key in INTEGER_KEYS:
        return int(value)
    if key in BOOLEAN_KEYS:
        return 1 if value.lower() in {"1", "on", "yes", "true"} else 0
    return value


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{key}: {values[key]}\n" for key in sorted(values) if key != "description")


def _comment(values: Mapping[str, str]) -> str:
    text = values.get("description", "")
    return "".join(f"#{encode_line(line)}\n" for line in text.split("\n")) if text else ""


@dataclass(slots=True)
class ConfigFile:
    """Is /etc/pve/nodes/NODE/qemu-server/VMID.conf, in sections."""

    values: dict[str, str] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)
    deleting: dict[str, bool] = field(default_factory=dict)
    snapshots: dict[str, dict[str, str]] = field(default_factory=dict)
    # The [special:cloudinit] section: what the cloud-init drive still has, and what was added since.
    cloudinit: dict[str, str] = field(default_factory=dict)
    _digest: str = ""

    def render(self) -> str:
        text = _comment(self.values) + _lines(self.values)
        if self.pending or self.deleting:
            text += "\n[PENDING]\n" + _comment(self.pending)
            if self.deleting:
                text += (
                    "delete: "
                    + ",".join(("F" if self.deleting[k] else "") + k for k in sorted(self.deleting))
                    + "\n"
                )
            text += _lines(self.pending)
        if self.cloudinit:
            text += "\n[special:cloudinit]\n" + _lines(self.cloudinit)
        for name in sorted(self.snapshots):
            text += f"\n[{name}]\n" + _comment(self.snapshots[name]) + _lines(self.snapshots[name])
        return text

    @property
    def digest(self) -> str:
        if not self._digest:
            self._digest = hashlib.sha1(self.render().encode(), usedforsecurity=False).hexdigest()
        return self._digest

    def touch(self) -> None:
        """Must follow every change: it makes the digest new."""
        self._digest = ""

    def put(self, key: str, value: str) -> None:
        """Writes a value to the main section."""
        text = stored(key, value)
        if key == "description" and not text:
            self.values.pop(key, None)
        else:
            self.values[key] = text
        self._digest = ""

    def merged(self) -> dict[str, str]:
        """Is what the plain GET config shows: pending changes as if they were done (pve-facts 6.10)."""
        values = {key: value for key, value in self.values.items() if key not in self.deleting}
        values.update(self.pending)
        return values

    def answer(self, values: Mapping[str, str], *, mask: bool = True) -> dict[str, Any]:
        """Gives values their types and hides the password."""
        shown = {key: typed(key, value) for key, value in values.items()}
        if mask and "cipassword" in shown:
            shown["cipassword"] = MASK
        return shown

    def pending_rows(self) -> list[dict[str, Any]]:
        """Is the answer of GET pending; the digest is a row too."""
        rows: list[dict[str, Any]] = []
        for key, value in self.values.items():
            row: dict[str, Any] = {"key": key, "value": MASK if key in SECRETS else typed(key, value)}
            if key in self.pending:
                row["pending"] = MASK if key in SECRETS else typed(key, self.pending[key])
            if key in self.deleting:
                row["delete"] = 2 if self.deleting[key] else 1
            rows.append(row)
        rows += [
            {"key": key, "pending": MASK if key in SECRETS else typed(key, value)}
            for key, value in self.pending.items()
            if key not in self.values
        ]
        rows.append({"key": "digest", "value": self.digest})
        return rows

    def clean_pending(self) -> None:
        """Forgets pending changes that change nothing (PVE::AbstractConfig, cleanup_pending)."""
        for key in [k for k, v in self.pending.items() if self.values.get(k) == v]:
            del self.pending[key]
        for key in [k for k in self.deleting if k not in self.values]:
            del self.deleting[key]
        self.touch()

    def copy(self) -> "ConfigFile":
        return ConfigFile(
            dict(self.values),
            dict(self.pending),
            dict(self.deleting),
            {name: dict(values) for name, values in self.snapshots.items()},
            dict(self.cloudinit),
        )


CLOUDINIT_KEYS = frozenset(
    ["cicustom", "cipassword", "citype", "ciuser", "ciupgrade", "nameserver", "searchdomain", "sshkeys"]
)
IPCONFIG_KEY = re.compile(r"ipconfig\d+")
