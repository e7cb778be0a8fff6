"""The form of an upload as pveproxy reads it, which is narrower than any other reader of such forms.

Fields come in one order, the file comes last under one name, and what does not fit is refused by the HTTP server
itself, without JSON (pve-facts 6.2, upload 1). Whatever follows the file's part up to the closing delimiter is
file too: a field that comes late is not seen, but stored. Nothing here knows what the fields mean.
"""

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from zone9.sandbox.answers import Curt

ORDER = ("content", "checksum-algorithm", "checksum")
FILE = "filename"
DISPOSITION = re.compile(
    rb'Content-Disposition: ([^;\r\n]+); name="([^"\r\n]*)"(?:; filename="([^"\r\n]+)")?'
)
NEWLINE = re.compile(rb"\r?\n")
BLANK = re.compile(rb"\r?\n\r?\n")
SOURCE = "at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line"
FAILED = f"upload failed {SOURCE} 1370."
WRONG_NAME = "wrong field name '{name}' for file upload, expected 'filename' " + f"{SOURCE} 1325."


@dataclass(frozen=True, slots=True)
class Head:
    """Is what comes before the file's first byte, which is at `offset`."""

    fields: dict[str, str]
    offset: int


def boundary_of(content_type: str) -> bytes | None:
    """Answers the boundary that a request names, None where it is no such form."""
    kind, *options = re.split(r"\s*[;,]\s*", content_type)
    if kind != "multipart/form-data":
        return None
    for option in options:
        if match := re.fullmatch(r"\s*boundary\s*=\s*(\S+?)\s*", option):
            return match[1].strip('"').encode()
    return None


def read_head(data: bytes, boundary: bytes) -> Head | None:
    """Reads the fields and finds the file, None while more bytes are needed; raises Curt for what does not fit."""
    delimiter, left = b"--" + boundary, list(ORDER)
    fields: dict[str, str] = {}
    at = data.find(delimiter)
    while at >= 0:
        start = NEWLINE.match(data, at + len(delimiter))
        blank = BLANK.search(data, start.end()) if start else None
        if start is None or blank is None:
            return None
        match = DISPOSITION.search(data, start.end(), blank.start())
        if match is None:
            raise Curt(400, "Bad Request")
        name = match[2].decode("utf-8", "replace")
        if match[3] is not None:
            if name != FILE:
                raise Curt(500, WRONG_NAME.format(name=name), body=True)
            return Head({**fields, FILE: match[3].decode("utf-8", "replace").strip()}, blank.end())
        if name not in left:
            raise Curt(400, "Bad Request")
        del left[: left.index(name) + 1]
        at = data.find(b"\n" + delimiter, blank.end() - 1)
        if at >= 0:
            fields[name] = data[blank.end() : at].decode("utf-8", "replace").strip()
            at += 1
    return None


async def receive(
    chunks: AsyncIterator[bytes], boundary: bytes, write: Callable[[bytes], None]
) -> dict[str, str]:
    """Hands the file's bytes to `write` as they come and answers the fields; raises Curt for what does not fit."""
    closing = b"--" + boundary + b"--"
    head: Head | None = None
    held = b""
    async for chunk in chunks:
        held += chunk
        if head is None:
            head = read_head(held, boundary)
            if head is None:
                continue
            held = held[head.offset :]
        end = held.find(closing)
        if end >= 0:
            write(re.sub(rb"\r?\n\Z", b"", held[:end]))
            async for _ in chunks:
                """What comes after the end is read and not looked at."""
            return head.fields
        sure = len(held) - len(closing) - 2
        if sure > 0:
            write(held[:sure])
            held = held[sure:]
    raise Curt(500, FAILED, body=True)
