"""A Proxmox of a few lines: answers by path, over the client's transport seam, and checks every request.

Each request is validated against Proxmox's own API schema, so a parameter that Proxmox does not know fails the
test that sent it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

import httpx2
from fakepve import schema

from zone9.pve.client import Client, Endpoint

SCHEMA = schema.load()
ENDPOINT = Endpoint(("https://127.0.0.1:8006",), "z9@pve!ctl=secret", fingerprint="ab" * 32)


@dataclass
class Error:
    status: int
    message: str
    errors: dict[str, str] | None = None


@dataclass
class Script:
    """`answers` maps "METHOD /path" to data, an Error, a list used up one by one, or a function of the form."""

    answers: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def client(self) -> Client:
        return Client(ENDPOINT, transport=httpx2.MockTransport(self.respond))

    def respond(self, request: httpx2.Request) -> httpx2.Response:
        raw_path, _, query = request.url.raw_path.decode().partition("?")
        path = unquote(raw_path.removeprefix("/api2/json"))
        text = request.content.decode() if request.method in {"POST", "PUT"} else query
        form = dict(parse_qsl(text, keep_blank_values=True))
        check(request.method, raw_path.removeprefix("/api2/json"), form)
        self.requests.append((request.method, path, form))
        found = self.answers[f"{request.method} {path}"]
        if isinstance(found, Series):
            found = found.next()
        if callable(found):
            found = found(form)
        if isinstance(found, Error):
            body: dict[str, Any] = {"data": None, "message": found.message + "\n"}
            if found.errors:
                body["errors"] = found.errors
            return httpx2.Response(
                found.status, json=body, extensions={"reason_phrase": found.message.encode()}
            )
        if isinstance(found, Whole):
            return httpx2.Response(200, content=json.dumps(found.document).encode())
        return httpx2.Response(200, json={"data": found})


@dataclass
class Series:
    """Gives its answers one after another, the last for ever."""

    answers: list[Any]

    def next(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@dataclass
class Whole:
    """Is an answer with more than `data` in it."""

    document: dict[str, Any]


def check(method: str, path: str, form: dict[str, str]) -> None:
    match = SCHEMA.match(path)
    assert match is not None, f"Proxmox knows no {path}"
    assert method in match.methods, f"Proxmox has no {method} {path}"
    values = {**{name: unquote(value) for name, value in match.params.items()}, **form}
    _values, errors = schema.validate(match.methods[method]["parameters"], values)
    assert not errors, f"{method} {path}: {errors}"


class Allowed:
    """Is a permit that is always valid."""

    async def confirm(self) -> None: ...

    def still_fresh(self) -> None: ...


Answer = Callable[[dict[str, str]], Any]
