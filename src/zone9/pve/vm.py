"""Why: what a VM is takes three reads, which must be of one moment, and an identity that survives reuse.

The config is read as it runs (`current=1`; the plain one merges pending changes in and would read back our
own write), then the status, then what is pending. Config and pending carry the file's digest; when both are
equal nothing was written between them. This module never writes, and never says that a VM is gone: `Absent`
is one answer of one node.
"""

import re
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from zone9.base.errors import Later, Problem
from zone9.base.together import together
from zone9.pve.client import Client, url_path
from zone9.pve.errors import NotFound
from zone9.pve.propstring import smbios_fields

_MARKER = re.compile(r"zone9:[^:\s]+:\S+")
_CLONING = "qmclone temporary file"
_LOOKS = 3
# What anybody who may see a VM may be shown: no description, no password, no key, no serial number.
_SHOWN = re.compile(
    r"name|cores|sockets|vcpus|cpu|cpulimit|memory|balloon|tags|boot|bios|machine|ostype|agent|onboot|protection|lock|"
    r"template|scsihw|nameserver|searchdomain|meta|(?:net|ipconfig|scsi|virtio|sata|ide|unused|mp)\d+|efidisk0|tpmstate0"
)


@dataclass(frozen=True, slots=True)
class Pending:
    """Is a change that waits for a restart: a new value, or the key's removal."""

    value: str | int | float | None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class VmReading:
    """Is one VM as it runs, of one digest; `config` has Proxmox's own value types (memory is a string)."""

    node: str
    vmid: int
    digest: str
    status: str
    qmpstatus: str
    lock: str | None
    uptime: int
    name: str
    ha_managed: bool
    config: Mapping[str, Any] = field(repr=False)
    pending: Mapping[str, Pending] = field(repr=False)
    witness: str = ""

    @property
    def running(self) -> bool:
        return self.status == "running"

    @property
    def template(self) -> bool:
        return str(self.config.get("template", 0)) == "1"

    @property
    def description(self) -> str:
        return str(self.config.get("description", ""))

    @property
    def marker(self) -> str | None:
        return marker_of(self.description)

    @property
    def uuid(self) -> str | None:
        return uuid_of(self.config.get("smbios1"))

    @property
    def pending_uuid(self) -> str | None:
        """The uuid that the VM will have from its next start on."""
        change = self.pending.get("smbios1")
        return None if change is None or change.value is None else uuid_of(str(change.value))


@dataclass(frozen=True, slots=True)
class Absent:
    """Is the exact answer of one node that it has no such config file; evidence, not proof."""

    node: str
    vmid: int
    text: str
    witness: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """Is whose a VM is: its uuid, and our line of its description; `digest` is its file's."""

    uuid: str | None
    marker: str | None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Is a VM being made whose config does not say yet whose it is."""

    node: str
    vmid: int
    lock: Literal["clone", "create"]
    digest: str
    witness: str = ""


@dataclass(frozen=True, slots=True)
class VmFile:
    """Is a VM's config as it runs, of one digest; `shown` are the keys that hold no secret."""

    vmid: int
    digest: str
    uuid: str | None
    marker: str | None
    shown: Mapping[str, Any] = field(repr=False)


async def read_identity(client: Client, node: str, vmid: int) -> Identity | Absent | Placeholder:
    """Reads whose VM this is, in one request, inside the slot that a permit's `confirm` holds."""
    config = await _config(client, node, vmid, slot_held=True)
    if isinstance(config, Absent | Placeholder):
        return config
    return Identity(
        uuid_of(config.get("smbios1")), marker_of(str(config.get("description", ""))), str(config["digest"])
    )


async def _config(
    client: Client, node: str, vmid: int, *, slot_held: bool = False
) -> dict[str, Any] | Absent | Placeholder:
    """Reads the config as it runs."""
    path = url_path("nodes", node, "qemu", vmid, "config")
    try:
        config: dict[str, Any] = await client.get(path, node=node, slot_held=slot_held, current=True)
    except NotFound as error:
        text = error.words["text"]
        if text != f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist":
            raise  # said of another VM or node, so it says nothing about this one
        return Absent(node, vmid, text, client.witness)
    lock, description = config.get("lock"), str(config.get("description", ""))
    if description.strip() == _CLONING or (lock in {"clone", "create"} and marker_of(description) is None):
        kind: Literal["clone", "create"] = "create" if lock == "create" else "clone"
        return Placeholder(node, vmid, kind, str(config["digest"]), client.witness)
    return config


async def read_file(client: Client, node: str, vmid: int) -> VmFile | None:
    """Reads a config alone, in one request; None where it is not there or still being made."""
    config = await _config(client, node, vmid)
    if isinstance(config, Absent | Placeholder):
        return None
    return VmFile(
        vmid=vmid,
        digest=str(config["digest"]),
        uuid=uuid_of(config.get("smbios1")),
        marker=marker_of(str(config.get("description", ""))),
        shown={key: value for key, value in config.items() if _SHOWN.fullmatch(key)},
    )


async def is_absent(client: Client, node: str, vmid: int) -> bool:
    """Tells whether the node says exactly that it has no such VM; any other answer, or none, says nothing."""
    try:
        return isinstance(await _config(client, node, vmid), Absent)
    except Problem:
        return False


async def read_vm(client: Client, node: str, vmid: int) -> VmReading | Absent | Placeholder:
    """Reads a VM on the node where it is thought to be. Raises Later when it keeps changing meanwhile."""

    def get(*more: str) -> Coroutine[Any, Any, Any]:
        return client.get(url_path("nodes", node, "qemu", vmid, *more), node=node)

    for _look in range(_LOOKS):
        config = await _config(client, node, vmid)
        if isinstance(config, Absent | Placeholder):
            return config
        digest, lock = str(config["digest"]), config.get("lock")
        try:
            status, rows = await together(get("status", "current"), get("pending"))
        except NotFound:
            continue  # moved or deleted meanwhile: the config's own answer decides
        if digest != next((str(row.get("value")) for row in rows if row.get("key") == "digest"), None):
            continue
        return VmReading(
            node=node,
            vmid=vmid,
            digest=digest,
            status=str(status.get("status", "unknown")),
            qmpstatus=str(status.get("qmpstatus", status.get("status", "unknown"))),
            lock=lock or status.get("lock"),
            uptime=int(status.get("uptime") or 0),
            name=str(config.get("name", "")),
            ha_managed=str((status.get("ha") or {}).get("managed", 0)) == "1",
            config={key: value for key, value in config.items() if key != "digest"},
            pending=_pending(rows),
            witness=client.witness,
        )
    raise Later(
        "The VM's configuration keeps changing while it is read.",
        delay=2.0,
        code="vm_changing",
        internal=f"no two equal digests of VM {vmid} on {node} in {_LOOKS} looks",
    )


def _pending(rows: list[dict[str, Any]]) -> dict[str, Pending]:
    changes = {}
    for row in rows:
        if row.get("delete"):
            changes[str(row["key"])] = Pending(None, deleted=True)
        elif "pending" in row:
            changes[str(row["key"])] = Pending(row["pending"])
    return changes


async def locate(client: Client, vmid: int) -> str | None:
    """Returns the node that lists the VM now. None says only that no visible row has it."""
    rows = await client.get("/cluster/resources", type="vm")
    for row in rows:
        if row.get("type") == "qemu" and int(row.get("vmid", 0)) == vmid:
            return str(row["node"])
    return None


def marker_of(description: str | None) -> str | None:
    """Returns our line of a description, `zone9:<resource>:<nonce>`, or None."""
    for line in (description or "").split("\n"):
        if _MARKER.fullmatch(line.strip()):
            return line.strip()
    return None


def with_marker(description: str | None, marker: str) -> str:
    """Puts our line into a description: in place of ours if there is one, else on top; keeps every other."""
    if not _MARKER.fullmatch(marker):
        raise ValueError("a marker is zone9:<resource>:<nonce>")
    lines = (description or "").split("\n")
    ours = [number for number, line in enumerate(lines) if _MARKER.fullmatch(line.strip())]
    if not ours:
        return f"{marker}\n{description}" if description and description.strip() else marker
    kept = [line for number, line in enumerate(lines) if number not in ours[1:]]
    kept[ours[0]] = marker
    return "\n".join(kept)


def uuid_of(smbios1: str | None) -> str | None:
    """Returns the uuid of a `smbios1` line in lower case, or None."""
    try:
        return smbios_fields(smbios1).get("uuid") or None
    except ValueError:
        return None
