"""The body of a request: a form, JSON, or a file that is sent, which goes to disk as it comes.

Proxmox decides about the user before it keeps a byte of an upload, and about the form while it reads. Here the bytes
are read first, since faults must be able to come in between; what came of it is told when Proxmox would tell.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from zone9.sandbox import decode, multipart
from zone9.sandbox.answers import Curt, PveError
from zone9.sandbox.stored import Files

UPLOAD = re.compile(r"/nodes/[^/]+/storage/[^/]+/upload")
CHUNK = 2**18


@dataclass(frozen=True, slots=True)
class Received:
    """Is a body: its values, for an upload the file's name on the node, and why it cannot be taken."""

    values: dict[str, Any] = field(default_factory=dict)
    upload: str = ""
    refusal: Exception | None = None


RECEIVED = web.RequestKey("received", Received)


def is_upload(request: web.BaseRequest, path: str) -> bool:
    return request.method == "POST" and UPLOAD.fullmatch(path) is not None


async def receive(request: web.BaseRequest, path: str, files: Files, patience: float) -> Received:
    """Reads a body; `patience` is how long the server keeps what should have been an upload and is none, in seconds."""
    content_type = request.headers.get("Content-Type", "")
    if not is_upload(request, path):
        text = await request.read()
        return Received(decode.body(text, content_type) if text else {})
    boundary = multipart.boundary_of(content_type)
    if boundary is None:
        await _throw_away(request)
        # Nothing comes back, and after a while the connection is closed (pve-facts 6.2, upload 2).
        return Received(refusal=Curt(0, "", seconds=patience))
    name = files.new_upload()
    file = files.uploads[name]
    try:
        fields = await multipart.receive(
            request.content.iter_chunked(CHUNK), boundary, lambda data: files.append(file, data)
        )
    except (Curt, PveError) as refusal:
        await _throw_away(request)
        return Received(upload=name, refusal=refusal)
    except BaseException:
        files.drop_upload(name)
        raise
    return Received({**fields, "tmpfilename": name}, name)


async def _throw_away(request: web.BaseRequest) -> None:
    """Reads what nobody needs, so that the client gets to read the answer."""
    async for _ in request.content.iter_chunked(CHUNK):
        pass
