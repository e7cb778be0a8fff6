"""Why: nearly every puzzle with Proxmox is a missing privilege, so a region says first what it lacks.

Proxmox leaves out of lists what a token may not see, lets a token write what it may not read, and answers 403
for a VM that is absent. zone9 therefore wants its whole role on `/`, propagated, and works with nothing less.
In /access/permissions a 0 is a right that does not propagate, not a refusal: the key's presence is the right.
This module only looks.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zone9.base.errors import Unreachable
from zone9.pve.client import Client, url_path
from zone9.pve.errors import PveError, Unauthenticated

# Names as of Proxmox VE 9 (pve-access-control 9.1); VM.Monitor of version 8 is gone.
PRIVILEGES: Mapping[str, str] = {
    "VM.Allocate": "make clones, delete VMs",
    "VM.Audit": "read VMs; without it an absent VM looks forbidden",
    "VM.Clone": "clone templates",
    "VM.Config.CDROM": "the cloud-init drive",
    "VM.Config.CPU": "cores",
    "VM.Config.Cloudinit": "addresses, users, keys",
    "VM.Config.Disk": "disks and the boot order",
    "VM.Config.HWType": "smbios1, which carries a VM's identity",
    "VM.Config.Memory": "memory",
    "VM.Config.Network": "network cards",
    "VM.Config.Options": "name, tags, description",
    "VM.GuestAgent.Audit": "ask the guest agent what it sees",
    "VM.PowerMgmt": "start, stop, shut down, reboot",
    "Datastore.AllocateSpace": "disks of clones",
    "Datastore.Audit": "storage and its free space",
    "SDN.Use": "attach network cards to bridges",
    "Sys.Audit": "nodes, quorum, everybody's tasks",
    "Sys.Syslog": "the cluster log, which says who changed what",
}
_AREAS = {"/vms": "VM.", "/storage": "Datastore.", "/sdn": "SDN.", "/nodes": "Sys."}
_USER = re.compile(r"[A-Za-z0-9][\w.-]*@[A-Za-z][\w.-]*")
_NAME = re.compile(r"[A-Za-z][\w.-]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """Is one thing that is wrong. With an `error` zone9 refuses to work on the region."""

    code: str
    severity: Literal["error", "warning"]
    sentence: str


def _error(code: str, sentence: str) -> Finding:
    return Finding(code, "error", sentence)


def role_commands(user: str, token: str, role: str = "Zone9") -> tuple[str, ...]:
    """Returns the commands, for root on a node, that make the role, the user and its token. One is enough."""
    if not (_USER.fullmatch(user) and _NAME.fullmatch(token) and _NAME.fullmatch(role)):
        raise ValueError("a user is name@realm; a token and a role are plain names")
    privileges = shlex.quote(" ".join(PRIVILEGES))
    return (
        f"pveum role add {role} --privs {privileges}",
        f"pveum user add {user}",
        f"pveum acl modify / --users {user} --roles {role} --propagate 1",
        f"pveum user token add {user} {token} --privsep 1",
        f"pveum acl modify / --tokens {shlex.quote(f'{user}!{token}')} --roles {role} --propagate 1",
    )


async def self_test(
    client: Client, *, storages: tuple[str, ...] = (), max_skew: float = 60.0
) -> tuple[Finding, ...]:
    """Looks at version, privileges, quorum, nodes and storage. Never raises what Proxmox answers."""
    findings: list[Finding] = []
    looks: tuple[tuple[str, Callable[[Any], list[Finding]]], ...] = (
        ("/version", check_version),
        ("/access/permissions", check_permissions),
        ("/cluster/status", check_members),
    )
    nodes: list[str] = []
    for path, check in looks:
        try:
            data = await client.get(path)
        except (Unreachable, Unauthenticated) as error:
            # Nothing after this would tell more, and each refused token costs Proxmox 3 s.
            return (*findings, _error(error.code, error.public))
        except PveError as error:
            findings.append(_error(error.code, error.public))
            continue
        findings += check(data)
        if check is check_members:
            nodes = [
                str(row["name"])
                for row in data
                if row.get("type") == "node" and str(row.get("online")) == "1"
            ]
    seen: dict[str, list[dict[str, Any]]] = {}
    for node in nodes:
        try:
            seen[node] = await client.get(url_path("nodes", node, "storage"), node=node)
        except PveError as error:
            findings.append(_error(error.code, f"Node {node}: {error.public}"))
    findings += check_storage(seen, storages)
    skew = client.last_date_skew
    if skew is not None and abs(skew) > max_skew:
        sentence = f"A node's clock differs from zone9's by {abs(skew):.0f} seconds."
        findings.append(Finding("clock_skew", "warning", sentence))
    return tuple(findings)


def check_version(data: Mapping[str, Any]) -> list[Finding]:
    version = str(data.get("version", ""))
    major = version.split(".", 1)[0]
    if not major.isdigit() or int(major) < 9:
        shown = version or "nothing"
        return [_error("version_unsupported", f"zone9 needs Proxmox VE 9 or newer; this one says {shown}.")]
    return []


def check_permissions(data: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Wants every privilege on `/`, propagated, and not replaced by a smaller role further down."""
    root = data.get("/", {})
    if not any(data.values()):
        sentence = "The token has no privileges at all: with privilege separation it needs a role of its own."
        return [_error("no_privileges", sentence)]
    findings = []
    if missing := [name for name in PRIVILEGES if name not in root]:
        findings.append(_error("privilege_missing", f"The token lacks on /: {', '.join(missing)}."))
    if flat := [name for name in PRIVILEGES if name in root and str(root[name]) in {"0", "False"}]:
        sentence = f"The token has these on / only, without propagation: {', '.join(flat)}."
        findings.append(_error("privilege_not_propagated", sentence))
    for path, granted in sorted(data.items()):
        area = next((prefix for prefix in _AREAS if path == prefix or path.startswith(prefix + "/")), None)
        if area is None:
            continue
        wanted = [name for name in PRIVILEGES if name.startswith(_AREAS[area]) and name in root]
        if lost := [name for name in wanted if name not in granted]:
            sentence = f"A role on {path} replaces the one on / and lacks: {', '.join(lost)}."
            findings.append(_error("privilege_overridden", sentence))
    return findings


def check_members(data: list[dict[str, Any]]) -> list[Finding]:
    findings = []
    cluster = next((row for row in data if row.get("type") == "cluster"), None)
    if cluster is not None and str(cluster.get("quorate", 0)) != "1":
        findings.append(_error("no_quorum", "The Proxmox cluster has no quorum."))
    down = [row for row in data if row.get("type") == "node" and str(row.get("online", 0)) != "1"]
    findings += [Finding("node_offline", "warning", f"Node {row.get('name')} is offline.") for row in down]
    return findings


def check_storage(seen: Mapping[str, list[dict[str, Any]]], wanted: tuple[str, ...]) -> list[Finding]:
    """Wants each named storage active and for images on some node; with none named, any such storage."""
    usable: set[str] = set()
    inactive: set[str] = set()
    for rows in seen.values():
        for row in rows:
            if "images" in str(row.get("content", "")).split(","):
                (usable if str(row.get("active", 0)) == "1" else inactive).add(str(row["storage"]))
    if not wanted:
        missing = seen and not usable
        return (
            [_error("no_storage", "No active storage for disks is visible on any node.")] if missing else []
        )
    findings = []
    for name in wanted:
        if name in inactive - usable:
            findings.append(_error("storage_inactive", f"Storage {name} is not active on any node."))
        elif name not in usable:
            findings.append(_error("storage_missing", f"No storage {name} for disks is visible."))
    return findings
