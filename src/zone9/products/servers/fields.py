"""A server's fields: what is asked of each, what was read, how they are compared, and what in Proxmox changes them. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zone9.model.facts import FieldDiff, Intent
from zone9.model.states import ChangeClass
from zone9.products.servers.truth import Nic, ServerTruth, Settings

# Live at once on a running VM; the others wait for a restart unless hot-plugged (recorded from 9.2).
HOT = {"name", "tags", "marker"}

POWER_TASKS = frozenset(
    {"qmstart", "qmstop", "qmshutdown", "qmreboot", "qmreset", "qmsuspend", "qmresume", "qmpause"}
)
# What replaces the whole config, so that it may be behind any difference.
WHOLESALE = frozenset({"qmrollback", "qmrestore", "qmcreate"})
KEYS = {
    "cores": {"cores", "sockets"},
    "memory_mib": {"memory"},
    "uuid": {"smbios1"},
    "marker": {"description"},
    "ssh_keys": {"sshkeys"},
    "user": {"ciuser"},
    "disk_bytes": {"resize"},
    "power": POWER_TASKS,
    "vm": {"qmdestroy"},
}


def wanted(intent: Intent, truth: ServerTruth) -> Settings:
    """Returns the settings that the intent asks for; what others wrote beside ours is kept.

    A server that was taken over has no plan: what was not asked of it stays as it is.
    """
    spec, resolved, place = intent.spec, intent.resolved, truth.place
    assert place is not None
    assert truth.after_restart is not None
    theirs = [tag for tag in truth.after_restart.tags if tag not in truth.tags_ours]
    return Settings(
        name=resolved.get("vm_name") or intent.name,
        cores=spec["cores"] or resolved["cores"] or truth.after_restart.cores,
        memory_mib=spec["memory_mib"] or resolved["memory_mib"] or truth.after_restart.memory_mib,
        nics={
            f"net{number}": Nic(mac=nic["mac"], bridge=nic["bridge"], tag=nic["vlan"])
            for number, nic in enumerate(resolved["networks"])
        },
        ipconfig={f"ipconfig{number}": nic["ipconfig"] for number, nic in enumerate(resolved["networks"])},
        ssh_keys=resolved["ssh_keys"] or None,
        user=resolved["user"],
        nameserver=resolved["nameserver"],
        tags=tuple(sorted({*theirs, *spec["tags"]})),
        uuid=place.uuid,
        marker=None if place.linked else f"zone9:{intent.id}:{place.nonce}",
    )


def differences(asked: Settings, read: Settings, *, running: bool) -> list[FieldDiff]:
    """Returns the fields of ours that differ. A key that was not asked for (no user, no keys) is not ours."""
    found = []
    for field in ("name", "cores", "memory_mib", "tags", "uuid", "marker"):
        one, other = getattr(asked, field), getattr(read, field)
        if one != other and not (field == "marker" and one is None):
            found.append(FieldDiff(field, plain(one), plain(other), _class(field, running=running)))
    for field in ("ssh_keys", "user", "nameserver"):
        one, other = getattr(asked, field), getattr(read, field)
        if one is not None and one != other:
            found.append(FieldDiff(field, one, other))
    for key, nic in asked.nics.items():
        if read.nics.get(key) != nic:
            there = read.nics.get(key)
            found.append(FieldDiff(key, nic.model_dump(), there.model_dump() if there else None))
    for key, line in asked.ipconfig.items():
        if read.ipconfig.get(key) != line:
            found.append(FieldDiff(key, line, read.ipconfig.get(key)))
    return found


def _class(field: str, *, running: bool) -> ChangeClass:
    return ChangeClass.PENDING_RESTART if running and field not in HOT else ChangeClass.HOT


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def traces(field: str) -> frozenset[str]:
    """Returns the config keys and task types of Proxmox that change a field; a key that is ours has its own name."""
    return frozenset(KEYS.get(field, {field})) | WHOLESALE


def traced(diffs: list[FieldDiff]) -> tuple[FieldDiff, ...]:
    """Returns the differences, each with what may be behind it."""
    return tuple(replace(diff, traces=traces(diff.field)) for diff in diffs)


def values(truth: ServerTruth) -> Mapping[str, Any]:
    """Returns our fields as they were read, each as a difference in it would say."""
    now = truth.now
    if now is None:
        return {"vm": "present"}
    plain_fields = ("name", "cores", "memory_mib", "tags", "uuid", "marker", "ssh_keys", "user", "nameserver")
    return {
        **{field: plain(getattr(now, field)) for field in plain_fields},
        **{key: nic.model_dump() for key, nic in now.nics.items()},
        **now.ipconfig,
        "disk_bytes": truth.disk_bytes,
        "power": truth.status,
        "vm": "present",
    }
