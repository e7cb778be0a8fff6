"""Sends files, and asks what became of them."""

from typing import Any
from urllib.parse import quote

from sandbox_api import Answer, Api
from upload_forms import BOUNDARY, Part, form

from zone9.sandbox import Sandbox

TENANT = frozenset(
    [
        "Datastore.AllocateSpace",
        "Datastore.AllocateTemplate",
        "Datastore.Audit",
        "SDN.Use",
        "Sys.Audit",
        "VM.Allocate",
        "VM.Audit",
        "VM.Config.CDROM",
        "VM.Config.Disk",
        "VM.Config.Options",
        "VM.PowerMgmt",
    ]
)


async def send(api: Api, *parts: Part, storage: str = "vmstore", node: str = "pve1") -> Answer:
    kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    return await api.ask("POST", f"/nodes/{node}/storage/{storage}/upload", raw=form(*parts), headers=kind)


async def sent(api: Api, content: str, name: str, data: bytes, *more: Part, **where: str) -> str:
    """Uploads, and answers what the task ended with."""
    answer = await send(api, ("content", content), *more, ("filename", name, data), **where)
    assert answer.status == 200, (answer.reason, answer.errors)
    return str((await api.status(answer.data))["exitstatus"])


def leftovers(sandbox: Sandbox) -> list[int]:
    return sorted(path.stat().st_size for path in sandbox.world.files.uploads.values())


async def sizes(api: Api, content: str) -> dict[str, int]:
    rows = await api.ok("GET", "/nodes/pve1/storage/vmstore/content", content=content)
    return {row["volid"]: row["size"] for row in rows}


async def volume(api: Api, verb: str, volid: str, **params: Any) -> Answer:
    path = f"/nodes/pve1/storage/{volid.partition(':')[0]}/content/{quote(volid, safe='')}"
    return await api.ask(verb, path, **params)


async def client(sandbox: Sandbox, name: str, role: str | frozenset[str]) -> Api:
    """Makes a token with this role on everything, and its client."""
    token = sandbox.accounts.add_token(f"{name}@pve!t")
    for who in (f"{name}@pve", f"{name}@pve!t"):
        sandbox.accounts.grant("/", who, role)
    return Api(sandbox, token)
