"""The files of the recordings, made again: a row says how an upload was put together, not what was in it.

What stands for a file has its length, and is of the kind that the row's note says; so sizes come out equal and
checksums do not, which are paired. The web server of the recordings is here as well, on loopback.
"""

import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

# What the recordings' own images were, by what the rows say of them.
SMALL_DISK = 48 * 2**20
# As long as theirs, so that a request is as long as it was.
BOUNDARY = "0123456789"
SERVED = {"big.qcow2": 21299200, "evil.qcow2": 196616}


def qcow2(length: int, size: int = SMALL_DISK, *, backing: bytes = b"", data_file: bool = False) -> bytes:
    """Answers a version 3 image of so many bytes that says it is a disk of `size`."""
    offset = 512 if backing else 0
    head = struct.pack(">4sIQIIQIIQQIIQQQQII", b"QFI\xfb", 3, offset, len(backing), 16, size, 0, 1, 196608,
                       65536, 1, 0, 0, 4 if data_file else 0, 0, 0, 4, 104)  # fmt: skip
    return (head.ljust(512, b"\0") + backing).ljust(length, b"\0")


def made(name: str, length: int, note: str) -> bytes:
    """Answers bytes that are what a row's note says of them, or else what their name says."""
    if "raw content" in note:
        return bytes(length)
    if "backing" in note or name == "evil.qcow2":
        return qcow2(length, backing=b"/etc/passwd")
    if "data file" in note:
        return qcow2(length, data_file=True)
    if name.endswith(".qcow2") or "qcow2 content" in note:
        return qcow2(length)
    if name.endswith(".vmdk"):
        return b"KDMV".ljust(length, b"\0")
    return bytes(length)


def multipart(body: dict[str, Any], note: str) -> tuple[bytes, str, dict[str, bytes]]:
    """Answers a recorded form's bytes, its content type, and its files by the checksum that it names."""
    text, files, checksum = b"", [], ""
    for part in body["multipart"]:
        text += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{part["name"]}"'.encode()
        if part["filename"] is not None:
            text += f'; filename="{part["filename"]}"'.encode()
        if part["content_type"]:
            text += f"\r\nContent-Type: {part['content_type']}".encode()
        value = part["value"].encode()
        if match := re.fullmatch(r"<(\d+) bytes>", part["value"]):
            value = made(part["filename"], int(match[1]), note)
            files.append(value)
        elif part["name"] == "checksum":
            checksum = part["value"]
        text += b"\r\n\r\n" + value + b"\r\n"
    text += f"--{BOUNDARY}--\r\n".encode()
    named = {checksum: files[0]} if files and set(checksum) - {"0"} else {}
    return text, f"multipart/form-data; boundary={BOUNDARY}", named


def fetched(form: str) -> dict[str, bytes]:
    """Answers the file that a recorded form wants fetched, by the checksum that it names."""
    values = dict(parse_qsl(form))
    name, checksum = values.get("url", "").rsplit("/", 1)[-1], values.get("checksum", "0")
    return {checksum: made(name, SERVED[name], "")} if name in SERVED and set(checksum) - {"0"} else {}


@asynccontextmanager
async def web_server() -> AsyncIterator[int]:
    """Serves the files that the recordings fetched, and answers the port."""

    async def answer(request: web.BaseRequest) -> web.Response:
        name = request.path.rsplit("/", 1)[-1]
        if name not in SERVED:
            return web.Response(status=404, reason="File not found")
        kind = "application/octet-stream"
        return web.Response(body=made(name, SERVED[name], ""), content_type=kind)

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
