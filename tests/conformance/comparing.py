"""Compares an answer of the sandbox with a recorded one.

What differs between any two runs (task ids, digests, MACs, uuids, times, measured numbers) is paired up as it first
appears and must then stay paired; everything else must be equal.
"""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

UPID = re.compile(r"UPID:[\w-]+:[0-9A-F]{8}:[0-9A-F]{8}:[0-9A-F]{8}:\w+:[^:]*:[^:\s]+:")
DIGEST = re.compile(r"\b[0-9a-f]{40}\b")
MAC = re.compile(r"\bBC:24:11(?::[0-9A-F]{2}){3}\b", re.IGNORECASE)
UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
CHECKSUM = re.compile(r"\b[0-9a-f]{64}\b")
TEMPORARY = re.compile(r"\bpveupload-[0-9a-f]{32}\b|\btmp_dwnl\.\d+\b")
SERVER = re.compile(r"\b10\.99\.0\.1:\d{4,5}\b")
ENCODED_SERVER = re.compile(r"(?<![\d.])10\.99\.0\.1%3A\d{4,5}\b")
PAIRED = (UPID, DIGEST, MAC, UUID, CHECKSUM, TEMPORARY, SERVER)
# When wget asked and how fast it was.
WGET = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\(\d+(?:\.\d+)? [KMG]B/s\)|(?<=% ) *[\d.]+[KMG]?=[\d.]+s")
# Which ports were free on the recordings' host is chance.
CONSOLE_PORT = re.compile(r"(?<=/usr/bin/termproxy )59\d\d\b|(?<=waiting for port ')59\d\d\b")
# Numbers that were measured, times, and what only the recording's machine had: present or absent, never compared.
MEASURED = frozenset(
    [
        "cpu",
        "mem",
        "memhost",
        "uptime",
        "disk",
        "netin",
        "netout",
        "in",
        "out",
        "diskread",
        "diskwrite",
        "pid",
        "pstart",
        "starttime",
        "endtime",
        "next-run",
        "time",
        "ctime",
        "used",
        "avail",
        "total",
        "available",
        "used_fraction",
        "free",
        "wait",
        "idle",
        "ssl_fingerprint",
        "snaptime",
        "uid",
        "loadavg",
        "saved",
        "cpuinfo",
        "current-kernel",
        "kversion",
        "pveversion",
    ]
)
# What a row of a graph has besides measured numbers.
GRAPHED_LIMITS = frozenset({"maxcpu", "maxdisk", "maxmem"})
NODE_NUMBERS = frozenset({"maxmem", "maxcpu", "maxdisk", "level", "cgroup-mode"})


@dataclass
class Pairs:
    """Pairs values of the recording with ours."""

    ours: dict[str, str] = field(default_factory=dict)
    theirs: dict[str, str] = field(default_factory=dict)

    def meet(self, recorded: str, ours: str) -> bool:
        """Tells whether the two may stand for each other, and pairs them when they are new."""
        known = self.ours.get(recorded)
        if known is None and ours not in self.theirs:
            self.ours[recorded] = ours
            self.theirs[ours] = recorded
            return True
        return known == ours

    def translate(self, text: str) -> str:
        """Puts our values where the recording has its own."""
        for pattern in PAIRED:
            text = pattern.sub(lambda match: self.ours.get(match[0], match[0]), text)
        return ENCODED_SERVER.sub(lambda match: quote(self.ours.get(unquote(match[0]), match[0])), text)


class Comparison:
    """Compares one answer; `why` says where it first differs."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self.why = ""

    def same(self, recorded: Any, ours: Any, path: str = "", row: Any = None) -> bool:
        if _is_measured(path, row):
            return (recorded is None) == (ours is None)
        if isinstance(recorded, dict) and isinstance(ours, dict):
            if recorded.keys() != ours.keys():
                missing, extra = sorted(recorded.keys() - ours.keys()), sorted(ours.keys() - recorded.keys())
                return self._no(path, f"missing {missing}", f"extra {extra}")
            return all(self.same(recorded[k], ours[k], f"{path}.{k}", recorded) for k in recorded)
        if isinstance(recorded, list) and isinstance(ours, list):
            if len(recorded) != len(ours):
                return self._no(path, f"{len(recorded)} rows", f"{len(ours)} rows")
            left, right = sorted(recorded, key=_order), sorted(ours, key=_order)
            return all(
                self.same(a, b, f"{path}[{i}]", a) for i, (a, b) in enumerate(zip(left, right, strict=True))
            )
        if type(recorded) is not type(ours):
            return self._no(path, recorded, ours)
        if isinstance(recorded, str):
            return self._text(recorded, ours) or self._no(path, recorded, ours)
        return recorded == ours or self._no(path, recorded, ours)

    def _text(self, recorded: str, ours: str) -> bool:
        if recorded == ours:
            return True
        for pattern in PAIRED:
            left, right = pattern.findall(recorded), pattern.findall(ours)
            if len(left) != len(right) or not all(map(self._pairs.meet, left, right)):
                return False
            recorded, ours = pattern.sub("#", recorded), pattern.sub("#", ours)
        recorded, ours = (CONSOLE_PORT.sub("#", WGET.sub("#", text)) for text in (recorded, ours))
        recorded, ours = (
            re.sub(r"creation-qemu=[\d.]+,ctime=\d+", "meta", text) for text in (recorded, ours)
        )
        return (
            sorted(recorded.split(",")) == sorted(ours.split(","))
            if path_like(recorded)
            else recorded == ours
        )

    def _no(self, path: str, recorded: Any, ours: Any) -> bool:
        self.why = f"{path or 'answer'}: {str(recorded)[:160]!r} != {str(ours)[:160]!r}"
        return False


def path_like(text: str) -> bool:
    """Tells whether a text is a list in any order: content types of a storage."""
    return bool(re.fullmatch(r"(?:images|iso|import|vztmpl|backup|snippets|rootdir)(?:,\w+)*", text))


def _is_measured(path: str, row: Any) -> bool:
    name = path.rsplit(".", 1)[-1]
    if isinstance(row, dict) and "time" in row and not row.keys() & {"uid", "upid"}:
        return name not in GRAPHED_LIMITS
    if name in MEASURED or (name == "id" and isinstance(row, dict) and "uid" in row):
        return True
    return name in NODE_NUMBERS and isinstance(row, dict) and row.get("type") in {"node", "storage"}


def _order(row: Any) -> str:
    if not isinstance(row, dict):
        return str(row)
    for name in ("n", "key", "volid", "vmid", "sid", "iface", "userid", "roleid", "storage", "id", "name"):
        if name in row and "upid" not in row and "uid" not in row:
            return f"{name}:{row[name]:>9}"
    return ""
