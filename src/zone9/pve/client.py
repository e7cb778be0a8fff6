"""Why: everything that zone9 says to a Proxmox cluster goes through here, so its promises are kept once.

The token leaves only over a checked TLS connection; redirects are not followed; a write is sent once and
never again; at most `slots` requests run at a time on a node; a write asks its permit before its bytes leave.
This module never interprets what Proxmox says beyond its error class, and never waits and tries again.
"""

import asyncio
import copy
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx2

from zone9.pve import tls
from zone9.pve.errors import NotConnected, PveError, ServerFault, UnknownOutcome, classify, make
from zone9.pve.permit import Permit
from zone9.pve.tls import Endpoint

__all__ = ["Client", "Endpoint", "OnRead", "Value", "encode", "url_path"]

Value = str | int | float | bool | Sequence[str]
OnRead = Callable[[str, str], None]

# pveproxy closes an idle connection after 5 s (PVE/APIServer/AnyEvent.pm); we let go earlier, because a write
# that meets a closing connection has an unknown outcome.
_KEEPALIVE = 3.0
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


def url_path(*parts: str | int) -> str:
    """Joins segments into a path, each percent-encoded, so that no name can leave its place."""
    texts = [str(part) for part in parts]
    if any(text in {"", ".", ".."} for text in texts):
        raise ValueError(f"not a path: {texts}")
    return "".join("/" + quote(text, safe="") for text in texts)


def encode(form: Mapping[str, Value | None]) -> str:
    """Percent-encodes a form as Proxmox reads it: booleans are 1 and 0, lists are joined by commas."""
    return urlencode(
        {key: _text(value) for key, value in form.items() if value is not None}, quote_via=quote, safe=""
    )


def _text(value: Value) -> str:
    match value:
        case bool():
            return "1" if value else "0"
        case str() | int() | float():
            return str(value)
        case _:
            return ",".join(value)


@dataclass(slots=True)
class _Shared:
    """Is what a client and its recording copies have in common."""

    slots: dict[str, asyncio.Semaphore] = field(default_factory=dict)
    preferred: int = 0
    skew: float | None = None


@dataclass(slots=True)
class _Departure:
    """Follows one request through the transport, and asks the permit where its bytes would leave."""

    permit: Permit | None
    has_body: bool
    begun: bool = False

    async def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        # A request whose body does not follow its Content-Length is dropped by pveproxy, so the second check
        # can still hold a write back. Without a body the headers are the whole request.
        headers = event == "http11.send_request_headers.started"
        if headers or (event == "http11.send_request_body.started" and self.has_body):
            if self.permit is not None:
                self.permit.still_fresh()
            self.begun = True


class Client:
    """Talks to one cluster. Use it as an async context manager; `transport` is the seam for tests."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: httpx2.AsyncBaseTransport | None = None,
        slots: int = 6,
        connect_timeout: float = 10.0,
        read_timeout: float = 60.0,
        on_read: OnRead | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.endpoint = endpoint
        self._slots = slots
        self._on_read = on_read
        self._wall = wall
        self._shared = _Shared()
        inner = transport or httpx2.AsyncHTTPTransport(
            verify=tls.context(endpoint),
            trust_env=False,
            retries=0,
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=4 * slots, keepalive_expiry=_KEEPALIVE
            ),
        )
        self._http = httpx2.AsyncClient(
            transport=inner,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(read_timeout, connect=connect_timeout),
            headers={
                "Authorization": f"PVEAPIToken={endpoint.token}",
                "Accept": "application/json",
                "Accept-Encoding": "gzip",
                "User-Agent": "zone9",
            },
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    def recording(self, on_read: OnRead) -> "Client":
        """Returns a client over the same connections that reports each read (method, path) to `on_read`."""
        twin = copy.copy(self)
        twin._on_read = on_read  # noqa: SLF001 - it is our own class
        return twin

    @property
    def last_date_skew(self) -> float | None:
        """Seconds by which the last answering node's clock is ahead of ours; its header has whole seconds."""
        return self._shared.skew

    def node_now(self) -> float:
        """Seconds since 1970 by the clock of the node that answered last."""
        return self._wall() + (self._shared.skew or 0.0)

    @property
    def witness(self) -> str:
        """The address that answered last."""
        return self.endpoint.urls[self._shared.preferred]

    async def get(
        self, path: str, /, *, node: str | None = None, slot_held: bool = False, **params: Any
    ) -> Any:
        """Returns the `data` of a read. `slot_held` is for a permit's `confirm`, which runs inside a slot."""
        return (await self.document(path, node=node, slot_held=slot_held, **params))["data"]

    async def document(
        self, path: str, /, *, node: str | None = None, slot_held: bool = False, **params: Any
    ) -> dict[str, Any]:
        """Returns a read's whole answer; some have a `total` beside their `data`."""
        if self._on_read is not None:
            self._on_read("GET", path)
        if slot_held:
            return await self._read(path, params)
        async with self._slot(node, path):
            return await self._read(path, params)

    async def write(
        self, method: str, path: str, form: Mapping[str, Value | None], *, node: str, permit: Permit
    ) -> Any:
        """Sends a write once and returns its `data`. After `UnknownOutcome` nothing is known: read back.

        Another address is tried only where no connection was made, with a new confirmation.
        """
        if method not in {"POST", "PUT", "DELETE"}:
            raise ValueError(f"not a write: {method}")

        async def send(base: str) -> dict[str, Any]:
            await permit.confirm()
            return await self._send(method, base, path, form, permit)

        async with self._slot(node, path):
            return (await self._in_turn(send, (NotConnected,)))["data"]

    async def _read(self, path: str, params: Mapping[str, Any]) -> dict[str, Any]:
        async def send(base: str) -> dict[str, Any]:
            return await self._send("GET", base, path, params, None)

        return await self._in_turn(send, (NotConnected, UnknownOutcome))

    async def _in_turn(
        self, send: Callable[[str], Awaitable[dict[str, Any]]], passing: tuple[type[PveError], ...]
    ) -> dict[str, Any]:
        """Begins with the address that answered last; only errors of the kinds `passing` lead to the next."""
        urls = self.endpoint.urls
        first = self._shared.preferred
        problem: PveError | None = None
        for turn in range(len(urls)):
            index = (first + turn) % len(urls)
            try:
                answer = await send(urls[index])
            except passing as error:
                problem = error
            else:
                self._shared.preferred = index
                return answer
        assert problem is not None
        raise problem

    async def _send(
        self, method: str, base: str, path: str, form: Mapping[str, Any], permit: Permit | None
    ) -> dict[str, Any]:
        text = encode(form)
        in_body = method in {"POST", "PUT"}  # pveproxy reads a DELETE's parameters from the query only
        url = base.rstrip("/") + "/api2/json" + path + ("" if in_body or not text else "?" + text)
        departure = _Departure(permit, has_body=in_body and bool(text))
        request = self._http.build_request(
            method,
            url,
            content=text.encode() if in_body else None,
            headers={"Content-Type": "application/x-www-form-urlencoded"} if in_body else None,
            extensions={"trace": departure.trace},
        )
        if permit is not None:
            permit.still_fresh()  # for transports that know no trace
        said = f"{method} {path} at {base}"
        try:
            response = await self._http.send(request)
        except _NEVER_SENT as error:
            kind = UnknownOutcome if departure.begun else NotConnected
            raise make(kind, f"{said}: {type(error).__name__}: {error}") from error
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise make(UnknownOutcome, f"{said}: {type(error).__name__}: {error}") from error
        return self._answer(method, said, response)

    def _answer(self, method: str, said: str, response: httpx2.Response) -> dict[str, Any]:
        self._note_date(response.headers.get("Date"))
        try:
            body = json.loads(response.content) if response.content else None
        except ValueError:
            body = None
        status = response.status_code
        if status == 200 and isinstance(body, dict) and "data" in body:
            return body
        if status < 400:
            # A redirect, or a page: this is not Proxmox's API. Of a write that it took nothing is known.
            kind: type[PveError] = ServerFault if method == "GET" or status >= 300 else UnknownOutcome
            public = "The region's address did not answer as a Proxmox API does."
            raise make(kind, f"{said}: {status} without data", public=public)
        reason = response.extensions.get("reason_phrase", b"").decode("utf-8", "replace")
        error = classify(method, status, reason, body)
        error.internal = f"{error.internal} ({said})"
        raise error

    def _note_date(self, header: str | None) -> None:
        if header:
            try:
                self._shared.skew = parsedate_to_datetime(header).timestamp() - self._wall()
            except ValueError:
                self._shared.skew = None

    def _slot(self, node: str | None, path: str) -> asyncio.Semaphore:
        parts = path.split("/")
        name = node or (parts[2] if len(parts) > 2 and parts[1] == "nodes" else "")
        return self._shared.slots.setdefault(name, asyncio.Semaphore(self._slots))
