"""What is: reads a server's VM, and finds out what became of writes whose outcome is not known.

Only this module makes `ServerTruth`. It changes nothing in Proxmox. The VM is read *after* its tasks were
looked at, so that a finished task is never judged by what was read before its end.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from zone9.base.together import together
from zone9.model.evidence import Evidence
from zone9.model.facts import Intent, WriteRecord
from zone9.model.ports import Work
from zone9.model.states import Phase
from zone9.products.servers.outcomes import POWER_STEPS, Outcome, settle_open
from zone9.products.servers.truth import Nic, Place, ServerTruth, Settings
from zone9.pve import propstring, tasks
from zone9.pve.client import url_path
from zone9.pve.driver import RegionDriver
from zone9.pve.vm import (
    Absent,
    Identity,
    Pending,
    Placeholder,
    VmReading,
    locate,
    marker_of,
    read_vm,
    uuid_of,
)

OFF_STEPS = ("stop", "shutdown", "restart")


async def observe(intent: Intent, work: Work) -> ServerTruth:
    """Returns one look. A server that was never placed exists nowhere, and nobody has to be asked."""
    facts = work.facts
    place = place_of(facts)
    if place is None or (intent.phase is Phase.DELETING and intent.spec.get("forget")):
        return ServerTruth(place=place)
    driver: RegionDriver = await work.driver(intent.resolved["region"])
    outcome = await settle_open(driver, work, place)
    clone_outcome = outcome.clone
    if clone_outcome is None:
        last = work.last_write("clone")
        clone_outcome = last.outcome if last is not None and last.target == str(place.vmid) else None
    was_there = place.linked or place.identified or clone_outcome is not None or bool(work.open_writes)
    reading, node, foreign_task = await _read(driver, place, was_there=was_there)
    seen = _seen(place, reading, node)
    deleted = work.last_write("delete")
    off = work.last_write(*OFF_STEPS)
    truth = ServerTruth(
        place=place,
        clone_outcome=clone_outcome,
        unsettled=outcome.unsettled,
        failed=outcome.failed,
        deleted_by_us=deleted is not None and deleted.outcome == "done",
        restarts_done=_restarts(facts, off, outcome),
        off_seconds=_off_seconds(off, outcome),
        **_asked_power(work.last_write(*POWER_STEPS), outcome),
        booted=bool(facts.get("booted")),
        tags_ours=tuple(facts.get("tags_ours") or ()),
        foreign_task=foreign_task if seen["vm"] == "ours" else None,
        twins=work.evidence.twins,
        lost_at=facts.get("lost_at"),
        **_absence(facts, work.evidence, gone=seen["vm"] == "absent"),
        **seen,
    )
    _learn(work, place, facts, truth)
    return truth


async def _read(
    driver: RegionDriver, place: Place, *, was_there: bool
) -> tuple[VmReading | Absent | Placeholder, str, str | None]:
    """Reads the VM where it was, or where the cluster lists it now, and who else is at it there.

    Absence is the exact answer, twice; before anything was ever sent there is nothing that could have moved.
    """
    node = place.node
    reading, foreign = await together(
        read_vm(driver.client, node, place.vmid), _foreign_task(driver, node, place.vmid)
    )
    if isinstance(reading, Absent) and was_there:
        node = await locate(driver.client, place.vmid) or node
        reading, foreign = await together(
            read_vm(driver.client, node, place.vmid), _foreign_task(driver, node, place.vmid)
        )
    return reading, node, foreign


def _seen(place: Place, reading: VmReading | Absent | Placeholder, node: str) -> dict[str, Any]:
    if isinstance(reading, Absent):
        return {"vm": "absent", "node": node, "absent_text": reading.text}
    if isinstance(reading, Placeholder):
        return {"vm": "placeholder", "node": node, "lock": reading.lock}
    if not is_ours(place, reading):
        return {"vm": "foreign", "node": node, "status": reading.status, "digest": reading.digest}
    disk_key, disk_bytes = boot_disk(reading.config)
    return {
        "vm": "ours",
        "node": node,
        "status": reading.status,
        "lock": reading.lock,
        "ha_managed": reading.ha_managed,
        "uptime": reading.uptime,
        "now": settings_of(reading.config),
        "after_restart": settings_of(_merged(reading.config, reading.pending)),
        "disk_key": disk_key,
        "disk_bytes": disk_bytes,
        "digest": reading.digest,
        "config": dict(reading.config),
        "pending": {key: None if one.deleted else one.value for key, one in reading.pending.items()},
    }


def is_ours(place: Place, reading: VmReading | Identity) -> bool:
    """Tells our VM: by its uuid; until that is set for the first time, by the marker that the clone carried.

    A VM that was taken over without a uuid of its own is known by its file's digest until ours is written into it,
    and by the uuid that waits for its restart from then on.
    """
    if reading.uuid == place.uuid:
        return True
    if place.identified:
        return False
    if place.linked:
        waiting = reading.pending_uuid if isinstance(reading, VmReading) else None
        return waiting == place.uuid or reading.digest == place.link_digest
    return (reading.marker or "").endswith(f":{place.nonce}")


def _absence(facts: Mapping[str, Any], evidence: Evidence, *, gone: bool) -> dict[str, Any]:
    """Weighs an exact "does not exist": it is proof when an earlier look got it, and a good pass since lists it no more."""
    if not gone:
        return {}
    first = facts.get("absent_at")
    if first is None:
        return {"absence": "unproven", "absence_why": "it was asked for once"}
    if evidence.frozen:
        return {"absence": "unproven", "absence_why": " ".join(evidence.frozen)}
    if evidence.good_at is None or evidence.good_at <= datetime.fromisoformat(first):
        return {"absence": "unproven", "absence_why": "no complete pass of the region has begun since"}
    if evidence.missing_since is None:
        return {"absence": "unproven", "absence_why": "the region still lists it"}
    return {"absence": "proven"}


async def _foreign_task(driver: RegionDriver, node: str, vmid: int) -> str | None:
    """Names a running task on the VM that we did not start; a token's own tasks are ours."""
    path = url_path("nodes", node, "tasks")
    rows = await driver.client.get(path, node=node, source="active", vmid=vmid)
    for row in rows:
        upid = tasks.Upid.parse(str(row["upid"]))
        if upid.user != driver.token_id and row.get("endtime") is None:
            return f"{upid.type} by {upid.user}"
    return None


def place_of(facts: Mapping[str, Any]) -> Place | None:
    """Returns what was decided before the clone, or None before that."""
    if facts.get("vmid") is None:
        return None
    return Place(
        vmid=facts["vmid"],
        node=facts["node"],
        uuid=facts["uuid"],
        nonce=facts["nonce"],
        template=facts["template"],
        template_node=facts["template_node"],
        identified=bool(facts.get("identified")),
        link_digest=facts.get("link_digest"),
    )


def settings_of(config: Mapping[str, Any]) -> Settings:
    """Brings a VM's config to the one form in which plans compare it."""
    nics = {}
    for key, line in config.items():
        if key.startswith("net") and key[3:].isdigit():
            parts = propstring.parse(key, str(line))
            tag = parts.get("tag")
            nics[key] = Nic(
                mac=parts.get("macaddr", "").lower(),
                bridge=parts.get("bridge", ""),
                tag=None if tag is None else int(tag),
            )
    keys = config.get("sshkeys")
    return Settings(
        name=config.get("name"),
        cores=int(config.get("cores", 1)) * int(config.get("sockets", 1)),
        memory_mib=int(propstring.parse("memory", str(config.get("memory", 512))).get("current", 512)),
        nics=nics,
        ipconfig={
            key: _sorted_line(key, str(value))
            for key, value in config.items()
            if key.startswith("ipconfig") and str(value).strip()
        },
        ssh_keys=unquote(str(keys)).strip() or None if keys is not None else None,
        user=config.get("ciuser"),
        nameserver=config.get("nameserver"),
        tags=tuple(
            sorted(tag for tag in str(config.get("tags", "")).replace(",", ";").split(";") if tag.strip())
        ),
        uuid=uuid_of(config.get("smbios1")),
        marker=marker_of(config.get("description")),
    )


def _sorted_line(key: str, line: str) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(propstring.parse(key, line).items()))


def boot_disk(config: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """Returns the disk that carries the system: the first of the boot order that is one, else the first disk."""
    order = propstring.parse("boot", str(config.get("boot", ""))).get("order", "").split(";")
    disks = [key for key in config if key.rstrip("0123456789") in {"scsi", "virtio", "sata", "ide"}]
    candidates = [*[key for key in order if key in disks], *sorted(disks)]
    for key in candidates:
        parts = propstring.parse(key, str(config[key]))
        if parts.get("media") != "cdrom" and parts.get("size"):
            return key, propstring.size_bytes(parts["size"])
    return None, None


def _merged(config: Mapping[str, Any], pending: Mapping[str, Pending]) -> dict[str, Any]:
    merged = dict(config)
    for key, change in pending.items():
        if change.deleted:
            merged.pop(key, None)
        else:
            merged[key] = change.value
    return merged


def _restarts(facts: Mapping[str, Any], last: WriteRecord | None, outcome: Outcome) -> int:
    counts = [int(facts.get("restarts_done") or 0), outcome.restarts]
    if last is not None and last.step == "restart" and last.outcome == "done":
        counts.append(int(last.request.get("count", 0)))
    return max(counts)


def _off_seconds(last: WriteRecord | None, outcome: Outcome) -> float | None:
    """Returns how long ago we last switched it off; None when the last power act was somebody else's."""
    if outcome.powered_off:
        return 0.0
    if last is None or last.outcome != "done" or last.closed_age_seconds is None:
        return None
    return last.closed_age_seconds


def _asked_power(last: WriteRecord | None, outcome: Outcome) -> dict[str, Any]:
    """Returns the last power act of ours that Proxmox took, and how long ago."""
    if outcome.power is not None:
        return {"asked_power": outcome.power, "asked_power_seconds": 0.0}
    if last is None or last.outcome != "done" or last.closed_age_seconds is None:
        return {}
    return {"asked_power": last.step, "asked_power_seconds": last.closed_age_seconds}


def _learn(work: Work, place: Place, facts: Mapping[str, Any], truth: ServerTruth) -> None:
    """Keeps what later looks need: where the VM is, that it carries its uuid, that it has run."""
    news: dict[str, Any] = {}
    if truth.vm == "ours" and truth.now is not None:
        if truth.now.uuid == place.uuid and not place.identified:
            news["identified"] = True
        if truth.node != place.node:
            news["node"] = truth.node
        if truth.status == "running" and not facts.get("booted"):
            news["booted"] = True
        if place.linked and not place.identified and truth.digest != place.link_digest:
            news["link_digest"] = truth.digest
    if truth.vm == "absent" and facts.get("absent_at") is None:
        news["absent_at"] = work.at.isoformat()
    elif truth.vm != "absent" and facts.get("absent_at") is not None:
        news["absent_at"] = None
    lost = truth.vm in {"absent", "foreign"} and not truth.never_was and truth.unsettled is None
    if lost and facts.get("lost_at") is None:
        news["lost_at"] = work.at.isoformat()
    elif truth.vm == "ours" and facts.get("lost_at") is not None:
        news["lost_at"] = None
    if news:
        work.learn(**news)
