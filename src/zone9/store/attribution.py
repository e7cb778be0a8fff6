"""Whose a guest is that zone9 did not make: an administrator says it, nothing is written to Proxmox, and it is audited."""

from zone9.base.errors import Refused
from zone9.store import audit
from zone9.store.database import Connection, Row, run
from zone9.store.waking import emit


async def attribute(connection: Connection, guest: Row, project: str | None) -> bool:
    """Gives a guest (a locked row of `inventory.guest`) to a project, or to none; False when it was there already.

    Raises Refused for a server's VM.
    """
    if guest["origin"] != "adopted":
        raise Refused(
            f"VM {guest['vmid']} is the server {guest['server_name']}; its project is the server's",
            code="guest_managed",
            status=409,
            vmid=guest["vmid"],
            server=guest["server_name"],
        )
    if guest["project_id"] == project:
        return False
    await run(
        connection,
        """
        UPDATE guests SET project = CAST(:project AS text), changed_at = z9_now()
        WHERE region = :region AND vmid = :vmid
        """,
        project=project,
        region=guest["region"],
        vmid=guest["vmid"],
    )
    said: dict[str, object] = {"region": guest["region"], "vmid": guest["vmid"]}
    for told in {guest["project_id"], project} - {None}:
        await emit(connection, "guest", project=told, resource=None, data=said)
    return True


async def note(connection: Connection, guest: Row, project: str | None, *, actor: str) -> None:
    """Appends to the audit whose a guest is from now on; called last in its transaction."""
    await audit.append(
        connection,
        actor=actor,
        action="attribute",
        kind="guest",
        name=f"{guest['region_name']}/{guest['vmid']}",
        resource=guest["region"],
        project=project,
    )
