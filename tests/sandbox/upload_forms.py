"""Files and forms to send, and a web server to fetch from."""

import io
import struct
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

BOUNDARY = "b0undary"
CLUSTER = 65536
ISO = bytes(range(256)) * 300
Part = tuple[str, str | bytes] | tuple[str, str, bytes]


def qcow2(size: int = 48 * 2**20, *, backing: bytes = b"", incompatible: int = 0) -> bytes:
    """Answers an image that QEMU opens: header, refcounts and an empty first table, a cluster each."""
    offset = 200 if backing else 0
    places = (2 * CLUSTER + CLUSTER, CLUSTER)
    head = struct.pack(
        ">4sIQIIQIIQQIIQQQQII", b"QFI\xfb", 3, offset, len(backing), 16, size, 0, 1, *places, 1, 0, 0, incompatible,
        0, 0, 4, 104,
    )  # fmt: skip
    clusters = (
        head.ljust(200, b"\0") + backing,
        struct.pack(">Q", 2 * CLUSTER),
        struct.pack(">4H", 1, 1, 1, 1),
    )
    return b"".join(cluster.ljust(CLUSTER, b"\0") for cluster in clusters) + bytes(8)


def ova(*names: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    return packed.getvalue()


def form(*parts: Part) -> bytes:
    text = b""
    for name, *rest in parts:
        *filename, value = rest
        file = f'; filename="{filename[0]}"' if filename else ""
        data = value.encode() if isinstance(value, str) else value
        text += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
        text += data + b"\r\n"
    return text + f"--{BOUNDARY}--\r\n".encode()


@asynccontextmanager
async def web_server(files: dict[str, bytes]) -> AsyncIterator[int]:
    async def answer(request: web.BaseRequest) -> web.Response:
        name = request.path.removeprefix("/")
        if name.startswith("to/"):
            return web.Response(status=302, headers={"Location": f"http://{name.removeprefix('to/')}"})
        if name not in files:
            return web.Response(status=404, reason="File not found")
        return web.Response(body=files[name], content_type="application/octet-stream")

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    try:
        await (web.TCPSite(runner, "127.0.0.1", 0)).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
