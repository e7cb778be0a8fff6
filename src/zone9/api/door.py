"""What every request passes first: it gets an id, a bounded body that is strict JSON, and one line of log.

Two things that JSON and URLs allow would fail only in the database, late and badly: the character U+0000 and half
of a surrogate pair. They are refused here, as are NaN and Infinity, which are no JSON at all.
"""

import json
import re
import time
import uuid
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zone9.api import problems

log = structlog.get_logger("zone9.api")

BODY_LIMIT = 2**20
MEDIA_TYPES = ("application/json", "application/merge-patch+json")
SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")


class Door:
    """Is the outermost layer of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request_id, status = time.perf_counter(), f"req_{uuid.uuid4().hex[:20]}", 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request=request_id)
        refusal, reading = await _read(scope, receive)
        if refusal is not None:
            answer = problems.plain(Headers(scope=scope), *refusal)
            await answer(scope, reading, sending)
        else:
            await self._app(scope, reading, sending)
        milliseconds = round((time.perf_counter() - began) * 1000, 1)
        log.info(
            "request", method=scope["method"], path=scope["path"], status=status, milliseconds=milliseconds
        )


async def _read(scope: Scope, receive: Receive) -> tuple[tuple[int, str, str] | None, Receive]:
    """Returns what is wrong with the request, if anything, and a `receive` that gives the body again."""
    if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
        return (400, "bad_parameter", "the address holds a character that it may not"), receive
    if scope["method"] in {"GET", "HEAD", "OPTIONS"}:
        return None, receive
    chunks: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        chunks.append(message.get("body", b""))
        length += len(chunks[-1])
        if length > BODY_LIMIT:
            return (413, "body_too_large", "the body is too large; 1 MiB at most"), receive
        if not message.get("more_body"):
            break
    body, given = b"".join(chunks), False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return _wrong(Headers(scope=scope).get("content-type", ""), body), again


def _wrong(media_type: str, body: bytes) -> tuple[int, str, str] | None:
    if not body:
        return None
    if media_type.split(";", maxsplit=1)[0].strip().lower() not in MEDIA_TYPES:
        return 415, "unsupported_media_type", "the body must be application/json"
    try:
        text = body.decode()
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return 400, "bad_json", "the body is not valid JSON"
    if (SUSPECT.search(body) or "\x00" in text) and not _storable(value):
        return 400, "bad_character", "the body holds a character that cannot be stored"
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _storable(value: Any) -> bool:
    """Tells whether all text in a JSON value can be stored. Goes by a list, since nesting may be deep."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            rest.extend(one)
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
        elif isinstance(one, str) and any(char == "\x00" or "\ud800" <= char <= "\udfff" for char in one):
            return False
    return True
