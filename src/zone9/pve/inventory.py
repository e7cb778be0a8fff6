"""Why: one pass tells what a whole cluster lists, in two requests however many VMs there are.

Lists lag by up to half a minute, leave out silently what the token may not see, and depend on who is up. So a
pass says whether it is `complete`, and why not; even then a missing row is a hint to look, never a deletion.
This module never reads a single VM, and never remembers the pass before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zone9.base.together import together
from zone9.pve.client import Client


@dataclass(frozen=True, slots=True)
class GuestRow:
    """Is a VM's or container's row; a new one has no name and the status `unknown` for up to 30 s."""

    vmid: int
    type: Literal["qemu", "lxc"]
    node: str
    status: str
    name: str | None = None
    tags: str | None = None
    lock: str | None = None
    template: bool = False
    pool: str | None = None
    hastate: str | None = None
    maxcpu: float | None = None
    maxmem: int | None = None
    maxdisk: int | None = None
    uptime: int = 0


@dataclass(frozen=True, slots=True)
class NodeRow:
    """Is a node; without Sys.Audit its numbers are missing."""

    node: str
    status: str
    maxcpu: float | None = None
    maxmem: int | None = None
    mem: int | None = None
    uptime: int = 0


@dataclass(frozen=True, slots=True)
class StorageRow:
    """Is a storage on a node; sizes are bytes."""

    storage: str
    node: str
    status: str
    plugintype: str | None = None
    shared: bool = False
    content: frozenset[str] = frozenset()
    disk: int | None = None
    maxdisk: int | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """Is what one pass saw. `gaps` says why it is not complete, each in one sentence."""

    guests: Mapping[int, GuestRow] = field(repr=False)
    nodes: Mapping[str, NodeRow]
    storages: tuple[StorageRow, ...] = field(repr=False)
    quorate: bool
    cluster: str | None
    gaps: tuple[str, ...]
    witness: str = ""

    @property
    def complete(self) -> bool:
        return not self.gaps


@dataclass(frozen=True, slots=True)
class Changes:
    """Names the VMIDs whose rows differ between two passes; `vanished` proves nothing."""

    appeared: frozenset[int] = frozenset()
    changed: frozenset[int] = frozenset()
    vanished: frozenset[int] = frozenset()

    @property
    def suspects(self) -> frozenset[int]:
        return self.appeared | self.changed | self.vanished


async def read(client: Client) -> Inventory:
    """Makes one pass. Needs Sys.Audit on `/`; raises what reading raises, so a failed pass is no pass."""
    status, resources = await together(client.get("/cluster/status"), client.get("/cluster/resources"))
    return assemble(status, resources, client.witness)


def assemble(status: list[dict[str, Any]], resources: list[dict[str, Any]], witness: str = "") -> Inventory:
    """Builds an inventory from the two answers; pure."""
    gaps: list[str] = []
    cluster = next((row for row in status if row.get("type") == "cluster"), None)
    quorate = cluster is None or str(cluster.get("quorate", 0)) == "1"
    if not quorate:
        gaps.append("The cluster has no quorum.")
    members = {
        str(row["name"]): str(row.get("online", 0)) == "1" for row in status if row.get("type") == "node"
    }
    gaps.extend(f"Node {name} is offline." for name, online in sorted(members.items()) if not online)
    guests: dict[int, GuestRow] = {}
    nodes: dict[str, NodeRow] = {}
    storages: list[StorageRow] = []
    for row in resources:
        match row.get("type"):
            case "qemu" | "lxc":
                guest = _guest(row)
                if guest.vmid in guests:
                    gaps.append(f"VM {guest.vmid} is listed twice.")
                guests[guest.vmid] = guest
            case "node":
                nodes[str(row["node"])] = _node(row)
            case "storage":
                storages.append(_storage(row))
            case _:
                pass
    gaps.extend(f"Node {name} is not listed." for name in sorted(members.keys() - nodes.keys()))
    if not members:
        gaps.append("The cluster names no member.")
    name = None if cluster is None else str(cluster.get("name", "")) or None
    return Inventory(guests, nodes, tuple(storages), quorate, name, tuple(gaps), witness)


def changed_rows(previous: Mapping[int, GuestRow], current: Mapping[int, GuestRow]) -> Changes:
    """Compares two passes; a growing uptime is no change, one that fell is a restart."""
    both = previous.keys() & current.keys()
    return Changes(
        appeared=frozenset(current.keys() - previous.keys()),
        changed=frozenset(vmid for vmid in both if _differs(previous[vmid], current[vmid])),
        vanished=frozenset(previous.keys() - current.keys()),
    )


_COMPARED = (
    "type",
    "node",
    "status",
    "name",
    "tags",
    "lock",
    "template",
    "pool",
    "hastate",
    "maxcpu",
    "maxmem",
    "maxdisk",
)


def _differs(before: GuestRow, after: GuestRow) -> bool:
    if after.uptime < before.uptime:
        return True
    return any(getattr(before, name) != getattr(after, name) for name in _COMPARED)


def _guest(row: dict[str, Any]) -> GuestRow:
    return GuestRow(
        vmid=int(row["vmid"]),
        type=row["type"],
        node=str(row["node"]),
        status=str(row.get("status", "unknown")),
        name=_str(row, "name"),
        tags=_str(row, "tags"),
        lock=_str(row, "lock"),
        template=str(row.get("template", 0)) == "1",
        pool=_str(row, "pool"),
        hastate=_str(row, "hastate"),
        maxcpu=_float(row, "maxcpu"),
        maxmem=_int(row, "maxmem"),
        maxdisk=_int(row, "maxdisk"),
        uptime=_int(row, "uptime") or 0,
    )


def _node(row: dict[str, Any]) -> NodeRow:
    return NodeRow(
        node=str(row["node"]),
        status=str(row.get("status", "unknown")),
        maxcpu=_float(row, "maxcpu"),
        maxmem=_int(row, "maxmem"),
        mem=_int(row, "mem"),
        uptime=_int(row, "uptime") or 0,
    )


def _storage(row: dict[str, Any]) -> StorageRow:
    return StorageRow(
        storage=str(row["storage"]),
        node=str(row["node"]),
        status=str(row.get("status", "unknown")),
        plugintype=_str(row, "plugintype"),
        shared=str(row.get("shared", 0)) == "1",
        content=frozenset(part for part in str(row.get("content", "")).split(",") if part),
        disk=_int(row, "disk"),
        maxdisk=_int(row, "maxdisk"),
    )


def _str(row: dict[str, Any], key: str) -> str | None:
    value = row.get(key)
    return None if value is None or not str(value).strip() else str(value)


def _int(row: dict[str, Any], key: str) -> int | None:
    return None if row.get(key) is None else int(row[key])


def _float(row: dict[str, Any], key: str) -> float | None:
    return None if row.get(key) is None else float(row[key])
