"""Why: these are all the writes that zone9 makes to Proxmox, each with only the parameters Proxmox knows.

A UPID, where one comes back, is a receipt: record it, wait for it, then read back. No function here looks
before or after, none is sent twice, and none has a parameter that unlocks, skips a lock or forces.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from zone9.pve.client import Client, Value, url_path
from zone9.pve.permit import Permit
from zone9.pve.tasks import Upid

Settings = Mapping[str, str | int | float | bool]


def _upid(data: Any) -> Upid | None:
    return Upid.parse(data) if isinstance(data, str) and data.startswith("UPID:") else None


def _vm(node: str, vmid: int, *more: str) -> str:
    return url_path("nodes", node, "qemu", vmid, *more)


async def _write(
    client: Client, permit: Permit, method: str, node: str, path: str, form: Mapping[str, Value | None]
) -> Upid | None:
    return _upid(await client.write(method, path, form, node=node, permit=permit))


async def clone(
    client: Client,
    permit: Permit,
    *,
    node: str,
    template: int,
    newid: int,
    name: str,
    description: str,
    target: str | None = None,
    storage: str | None = None,
    full: bool = False,
) -> Upid | None:
    """Clones a template; `storage` goes with a full clone only. `description` carries the marker."""
    form: dict[str, Value | None] = {
        "newid": newid,
        "name": name,
        "description": description,
        "target": target,
        "storage": storage,
        "full": full,
    }
    return await _write(client, permit, "POST", node, _vm(node, template, "clone"), form)


def _config(settings: Settings, delete: Sequence[str], digest: str) -> dict[str, Value | None]:
    if not settings and not delete:
        raise ValueError("Proxmox refuses a config change without options")
    return {**settings, "delete": list(delete) or None, "digest": digest}


async def set_config(
    client: Client,
    permit: Permit,
    *,
    node: str,
    vmid: int,
    digest: str,
    settings: Settings,
    delete: Sequence[str] = (),
) -> None:
    """Changes the config at once (PUT). Not for disks: a PUT past 30 s has an unknown outcome."""
    await _write(client, permit, "PUT", node, _vm(node, vmid, "config"), _config(settings, delete, digest))


async def post_config(
    client: Client,
    permit: Permit,
    *,
    node: str,
    vmid: int,
    digest: str,
    settings: Settings,
    delete: Sequence[str] = (),
) -> Upid | None:
    """Changes the config in a task (POST): disks, memory, whatever may be hot-plugged."""
    form = _config(settings, delete, digest)
    return await _write(client, permit, "POST", node, _vm(node, vmid, "config"), form)


async def resize(
    client: Client, permit: Permit, *, node: str, vmid: int, disk: str, size: str, digest: str
) -> Upid | None:
    """Grows a disk to `size`; an absolute one, since `+1G` sent twice would grow it twice."""
    if size.startswith("+"):
        raise ValueError("a resize is absolute")
    form = {"disk": disk, "size": size, "digest": digest}
    return await _write(client, permit, "PUT", node, _vm(node, vmid, "resize"), form)


async def start(client: Client, permit: Permit, *, node: str, vmid: int) -> Upid | None:
    return await _write(client, permit, "POST", node, _vm(node, vmid, "status", "start"), {})


async def stop(client: Client, permit: Permit, *, node: str, vmid: int) -> Upid | None:
    """Cuts the power."""
    return await _write(client, permit, "POST", node, _vm(node, vmid, "status", "stop"), {})


async def shutdown(client: Client, permit: Permit, *, node: str, vmid: int, timeout: int) -> Upid | None:  # noqa: ASYNC109 - Proxmox waits, not we
    """Asks the guest; after `timeout` seconds the task fails and the guest runs on."""
    form = {"timeout": timeout, "forceStop": False}
    return await _write(client, permit, "POST", node, _vm(node, vmid, "status", "shutdown"), form)


async def reboot(client: Client, permit: Permit, *, node: str, vmid: int, timeout: int) -> Upid | None:  # noqa: ASYNC109 - Proxmox waits, not we
    """Asks the guest; the task ends with it stopped, and a second one by root@pam starts it again."""
    form = {"timeout": timeout}
    return await _write(client, permit, "POST", node, _vm(node, vmid, "status", "reboot"), form)


async def delete(client: Client, permit: Permit, *, node: str, vmid: int) -> Upid | None:
    """Deletes a stopped VM and the disks its config names, no others; takes it out of jobs and HA."""
    form = {"purge": True, "destroy-unreferenced-disks": False}
    return await _write(client, permit, "DELETE", node, _vm(node, vmid), form)


async def regenerate_cloudinit(client: Client, permit: Permit, *, node: str, vmid: int) -> None:
    """Writes the cloud-init drive anew from the config."""
    await _write(client, permit, "PUT", node, _vm(node, vmid, "cloudinit"), {})
