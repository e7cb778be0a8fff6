"""Pointing at a VM that is there: what passes know of it becomes what is asked, so that nothing has to be written."""

from collections.abc import Mapping
from typing import Any

from zone9.base.errors import FieldProblem, Refused
from zone9.model.ports import Look
from zone9.products.servers.observe import settings_of

POINTER = "/spec/link/vmid"


async def point_at(region: str, spec: Mapping[str, Any], look: Look) -> tuple[Mapping[str, Any], str]:
    """Returns the spec with the VM's own values where none were asked for, and the VM's name.

    Raises Refused when there is no such VM for this project, or it is a template, a container or another server's.
    """
    vmid = int(spec["link"]["vmid"])
    guest = await look.guest(region, vmid)
    if guest is None:
        raise _refused(f"the region lists no VM {vmid} that belongs to this project", "link_not_found", vmid)
    if guest["server"] is not None:
        raise _refused(f"VM {vmid} is the server {guest['server']} already", "link_taken", vmid, status=409)
    if guest["type"] != "qemu" or guest["template"]:
        raise _refused(f"{vmid} is a container or a template; only VMs are managed", "link_not_a_vm", vmid)
    if guest["missing_since"] is not None or guest["digest"] is None:
        raise _refused(
            f"VM {vmid} was not read yet, or is gone; wait for a pass", "link_not_read", vmid, status=409
        )
    config = guest["config"]
    read = settings_of(config)
    own_uuid = guest["uuid"] if guest["twins"] == 0 else None
    asked = {
        **spec,
        "link": {"vmid": vmid, "uuid": own_uuid, "digest": None if own_uuid else guest["digest"]},
        "cores": spec["cores"] or (read.cores if spec["plan"] is None else None),
        "memory_mib": spec["memory_mib"] or (read.memory_mib if spec["plan"] is None else None),
    }
    return asked, str(guest["name"] or f"vm-{vmid}")


def as_asked(region: str, vmid: int, *, running: bool) -> Mapping[str, Any]:
    """Returns the spec that asks for a VM as it is: settings come from what was read, the power from what was seen.

    It is protected: whoever takes a VM over has not asked for its end.
    """
    power = "on" if running else "off"
    return {"region": region, "link": {"vmid": vmid}, "power": power, "protected": True}


def _refused(sentence: str, code: str, vmid: int, *, status: int = 422) -> Refused:
    problem = FieldProblem(POINTER, sentence, code, {"vmid": vmid})
    return Refused(sentence, code=code, status=status, fields=(problem,), vmid=vmid)
