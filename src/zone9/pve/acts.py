"""Why: who changed a VM is written down in two places, and neither has everything.

A config write is a row of the cluster log, whoever sent it and however (`update VM 101: -cores 4`), and makes no task
when it is a plain PUT; a start, a deletion or a migration is a task. Edits of the file itself leave no trace. Values
in the log can be secrets, so only the names of keys are taken from it. Pure (pve-facts 4.3).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from zone9.pve.tasks import Upid

_UPDATE = re.compile(r"update (?:VM|CT) (\d+): (.*)", re.DOTALL)
_KEY = re.compile(
    r"(?:name|hostname|cores|sockets|vcpus|cpu|cpulimit|cpuunits|memory|balloon|shares|swap|tags|smbios1|description|"
    r"sshkeys|ciuser|cipassword|citype|ciupgrade|cicustom|nameserver|searchdomain|boot|bios|machine|ostype|agent|onboot|"
    r"startup|protection|template|hotplug|hookscript|lock|kvm|acpi|args|tablet|vga|rng0|watchdog|numa|affinity|scsihw|"
    r"vmgenid|efidisk0|tpmstate0|rootfs|resize|disk|"
    r"(?:net|ipconfig|scsi|virtio|sata|ide|unused|hostpci|usb|serial|parallel|numa|mp|dev|virtiofs)\d{1,3})"
)
# A value may be empty, also the last one: then nothing comes after the key.
_SAID = re.compile(rf"(?:^|\s)--?(?:(?:delete|revert)\s+(\S+)|({_KEY.pattern})(?=\s|$))")


@dataclass(frozen=True, slots=True)
class Act:
    """Is one thing that somebody did to one guest; `at` is seconds since 1970 by that node's clock.

    `touched` are config keys, or the type of a task; `uid` is unique in the cluster.
    """

    uid: str
    vmid: int
    at: int
    who: str
    what: str
    touched: frozenset[str]


def of_log(rows: Iterable[Mapping[str, Any]]) -> list[Act]:
    """Returns the config writes among rows of the cluster log; tasks are in their own list."""
    found = []
    for row in rows:
        said = _UPDATE.fullmatch(str(row.get("msg", "")))
        if said is None:
            continue
        keys = frozenset(_keys(said[2]))
        what = f"update: {', '.join(sorted(keys))}" if keys else "update"
        found.append(
            Act(f"log:{row['id']}", int(said[1]), int(row["time"]), str(row.get("user", "")), what, keys)
        )
    return found


def _keys(text: str) -> Iterable[str]:
    if text.startswith("resize"):
        yield "resize"
    for match in _SAID.finditer(text):
        if match[2] is not None:
            yield match[2]
        else:
            yield from (key for key in match[1].split(",") if re.fullmatch(_KEY, key))


def of_task(upid: Upid) -> Act | None:
    """Returns what a task's id says; None when it is about no guest. A clone's is about its template."""
    if not (upid.id.isdecimal() and upid.type.startswith(("qm", "vz", "resize", "move", "imgdel"))):
        return None
    return Act(upid.text, int(upid.id), upid.starttime, upid.user, upid.type, frozenset({upid.type}))


def has_gap(rows: Iterable[Mapping[str, Any]], seen: Mapping[str, int]) -> bool:
    """Tells whether rows of the log may have been lost since `seen` (node -> the last number read from it).

    Each node numbers its own rows. What was read last is either still in the list, or directly before its oldest row;
    a number that fell means that the node began anew.
    """
    oldest: dict[str, int] = {}
    newest: dict[str, int] = {}
    for row in rows:
        node, uid = str(row["node"]), int(row["uid"])
        oldest[node] = min(uid, oldest.get(node, uid))
        newest[node] = max(uid, newest.get(node, uid))
    return any(
        node in oldest and (oldest[node] > last + 1 or newest[node] < last) for node, last in seen.items()
    )


def last_seen(rows: Iterable[Mapping[str, Any]], seen: Mapping[str, int]) -> dict[str, int]:
    """Returns where each node's rows were read to; a node that began anew counts from there."""
    newest: dict[str, int] = {}
    for row in rows:
        node, uid = str(row["node"]), int(row["uid"])
        newest[node] = max(uid, newest.get(node, uid))
    return {**seen, **newest}
