"""How a VM is, and how it would have to be: the oracle's own comparison, which shares no code with zone9."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zone9.sandbox.state import Vm

OURS = re.compile(r"name|cores|sockets|memory|tags|smbios1|net\d+|ipconfig\d+")
SIZE = re.compile(r"size=(\d+)([KMGT]?)")
UNIT = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


@dataclass(frozen=True)
class Snapshot:
    """Is a VM at one moment."""

    values: Mapping[str, str]
    waiting: frozenset[str]
    running: bool


def snapshot(vm: Vm) -> Snapshot:
    """Takes a VM as it is; a value that waits to become what it is already changes nothing."""
    values = dict(vm.file.values)
    waiting = {key for key, value in vm.file.pending.items() if values.get(key) != value}
    return Snapshot(values, frozenset({*waiting, *vm.file.deleting}), vm.running is not None)


def differs(seen: Snapshot, row: Mapping[str, Any]) -> list[str]:
    """Returns in what a VM is not as a server's row asks for."""
    spec, resolved, values = row["spec"], row["resolved"], seen.values
    found = []

    def same(what: str, asked: Any, read: Any) -> None:
        if asked != read:
            found.append(f"{what}: asked {asked}, is {read}")

    same("name", resolved.get("vm_name") or row["name"], values.get("name"))
    if cores := spec["cores"] or resolved["cores"]:
        same("cores", cores, int(values.get("cores", 1)) * int(values.get("sockets", 1)))
    if memory := spec["memory_mib"] or resolved["memory_mib"]:
        same("memory", memory, int(values.get("memory", 512)))
    same("power", spec["power"], "on" if seen.running else "off")
    tags = set(re.split(r"[;, ]+", values.get("tags", "")))
    same("tags", set(), set(spec["tags"]) - tags)
    for number, network in enumerate(resolved["networks"]):
        line = values.get(f"net{number}", "").lower()
        same(f"net{number}", True, network["mac"] in line and f"bridge={network['bridge']}" in line)
        asked = sorted(network["ipconfig"].split(","))
        same(f"ipconfig{number}", asked, sorted(values.get(f"ipconfig{number}", "").split(",")))
    if waiting := sorted(key for key in seen.waiting if OURS.fullmatch(key)):
        found.append(f"still waiting: {', '.join(waiting)}")
    asked_disk = int(resolved.get("disk_gib") or 0) << 30
    if asked_disk and _disk(values) < asked_disk:
        found.append(f"disk: asked {asked_disk}, is {_disk(values)}")
    return found


def _disk(values: Mapping[str, str]) -> int:
    line = SIZE.search(values.get("scsi0", ""))
    return 0 if line is None else int(line[1]) << UNIT[line[2]]


def uuid_in(vm: Vm, *, waiting: bool = False) -> str | None:
    """Returns the uuid by which a VM is known, or the one that waits for its restart."""
    values = vm.file.pending if waiting else vm.file.values
    found = re.search(r"uuid=([0-9a-fA-F-]{36})", values.get("smbios1", ""))
    return None if found is None else found[1].lower()
