"""Taking over a VM that zone9 did not make: read it, compare it with what was pointed at, write down that it is ours.

Nothing is written to Proxmox here. A VM with a uuid of its own is known by it from now on; one without is known by its
file's digest, until the plan has given it a uuid.
"""

import uuid
from typing import Any

from zone9.base.errors import Later, Never
from zone9.model.facts import Intent
from zone9.model.ports import Work
from zone9.pve.driver import RegionDriver
from zone9.pve.vm import VmFile, VmReading, locate, read_file, read_vm

SIZES = ("cores", "sockets", "memory")  # which are asked for as they run, when nobody said otherwise


async def link(driver: RegionDriver, intent: Intent, work: Work) -> None:
    """Raises Never when the VM is not the one that was pointed at, Later while it cannot be read."""
    asked: Any = intent.spec["link"]
    vmid = int(asked["vmid"])
    node = await locate(driver.client, vmid)
    found = None if node is None else await read_file(driver.client, node, vmid)
    if node is None or found is None:
        raise Later(f"VM {vmid} is not listed or being made", code="link_not_there", delay=5.0, vmid=vmid)
    if not _is_meant(asked, found):
        raise Never(
            f"VM {vmid} is not the machine that was pointed at; nothing was written",
            code="link_mismatch",
            vmid=vmid,
        )
    if waiting := await _waiting(driver, node, vmid):
        # Taken over now, the first thing that is written would undo what an operator has asked for.
        raise Later(
            f"VM {vmid} has changes that wait for its restart ({waiting}); "
            "it is taken over when they have taken effect or were taken back",
            code="link_has_pending",
            delay=20.0,
            vmid=vmid,
            fields=waiting,
        )
    await work.link(
        region=intent.resolved["region"],
        vmid=vmid,
        facts={
            "node": node,
            "uuid": asked["uuid"] or str(uuid.uuid4()),
            "nonce": "",
            "template": 0,
            "template_node": "",
            "identified": bool(asked["uuid"]),
            "booted": False,
            "link_digest": found.digest,
        },
    )


async def _waiting(driver: RegionDriver, node: str, vmid: int) -> str:
    reading = await read_vm(driver.client, node, vmid)
    if not isinstance(reading, VmReading):
        return ""
    config, pending = reading.config, reading.pending
    return ", ".join(
        key for key in SIZES if key in pending and str(pending[key].value) != str(config.get(key))
    )


def _is_meant(asked: Any, found: VmFile) -> bool:
    if str(found.shown.get("template", 0)) == "1":
        return False
    if asked["uuid"]:
        return bool(found.uuid == asked["uuid"])
    return bool(found.digest == asked["digest"])
