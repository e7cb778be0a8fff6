"""The HTTPS face: from bytes to a call and back, with every fault in between.

The order is the real code's: authentication (401 after three seconds), method (501), permission (403), node
(500 or 595), parameters (400), and only then the call itself.
"""

import asyncio
import json
import zlib
from contextlib import suppress
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from zone9.sandbox import decode, permissions, receiving, schema, websocket
from zone9.sandbox.answers import ConnectionCut, Curt, PveError, Unauthenticated, bad
from zone9.sandbox.call import CALLS, Call, Listing
from zone9.sandbox.faults import Fault
from zone9.sandbox.journal import Asked, Violation
from zone9.sandbox.receiving import RECEIVED
from zone9.sandbox.schema import Method
from zone9.sandbox.tickets import Tickets
from zone9.sandbox.world import World

PREFIX = "/api2/json"
JSON_TYPE = "application/json;charset=UTF-8"
# Answers below this stay plain (pve-facts 6.2, scale 1: /version did, 2.3 kB did not).
GZIP_FROM = 1000
# How long a request waits, in real seconds, for the task it started when time costs nothing.
TASK_PATIENCE = 20.0
OPEN = frozenset(
    {("POST", "/access/ticket"), ("GET", "/access/domains"), ("POST", "/access/openid/auth-url")}
)


class Server:
    """Answers requests for one world, as any node of it."""

    def __init__(self, world: World, tickets: Tickets, local_node: str) -> None:
        self.world = world
        self._tickets = tickets
        self._local = local_node

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Is aiohttp's low-level handler: no router, no middleware."""
        raw_path, _, query = request.raw_path.partition("?")
        path = raw_path.removeprefix(PREFIX) or "/"
        values = decode.urlencoded(query)
        asked = Asked(self.world.clock.now(), request.method, _shown(path), values, {})
        self.world.journal.requests.append(asked)
        fault = self.world.faults.take(request.method, asked.path)
        if fault:
            asked.fault = fault.reason or fault.kind
        try:
            request[RECEIVED] = received = await receiving.receive(
                request, asked.path, self.world.files, self.world.durations.upload_patience
            )
            asked.body = received.values
            response = await self._through_fault(request, asked, fault, raw_path.startswith(PREFIX))
        except ConnectionCut:
            _cut(request)
            raise
        except PveError as error:
            response = self._refusal(asked, error)
        except (ConnectionError, web.RequestPayloadError, web.HTTPException):
            # The client went away, or sent more than anybody reads.
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must fail a test, not look like Proxmox's
            self._violation(asked, f"sandbox failure: {error!r}")
            response = self._refusal(asked, PveError(f"sandbox failure: {error!r}"))
        asked.answered = True
        return response

    async def _through_fault(
        self, request: web.BaseRequest, asked: Asked, fault: Fault | None, known: bool
    ) -> web.StreamResponse:
        clock = self.world.clock
        kind = fault.kind if fault else ""
        if fault and kind == "answer":
            return self._made_up(asked, fault)
        if kind == "drop_before":
            raise ConnectionCut
        if fault and kind == "delay_apply":
            self.world.spawn(self._later(request, asked, fault))
            raise ConnectionCut
        if fault and kind == "hang":
            await clock.until(clock.now() + fault.seconds)
        response = await self._respond(request, asked, fault, known)
        if kind == "lose_answer":
            raise ConnectionCut
        return response

    async def _later(self, request: web.BaseRequest, asked: Asked, fault: Fault) -> None:
        await self.world.clock.until(self.world.clock.now() + fault.seconds)
        await self._respond(request, asked, None, known=True)

    async def _respond(
        self, request: web.BaseRequest, asked: Asked, fault: Fault | None, known: bool
    ) -> web.StreamResponse:
        try:
            if not known:
                raise PveError(f"no such file '{asked.path}'", status=404)
            data = await self._serve(request, asked, fault)
        except Unauthenticated as error:
            await self.world.clock.sleep(self.world.durations.unauthenticated)
            asked.status, asked.reason = 401, error.reason
            return web.Response(status=401, reason=error.reason, headers=self._headers(asked))
        except Curt as error:
            await self.world.clock.sleep(error.seconds)
            if not error.status:
                raise ConnectionCut from error
            asked.status, asked.reason = error.status, error.reason
            return web.Response(
                status=error.status, reason=error.reason, text=error.text, headers=self._headers(asked)
            )
        except PveError as error:
            if error.status == 401:
                await self.world.clock.sleep(self.world.durations.unauthenticated)
            return self._refusal(asked, error)
        asked.applied = True
        if asked.path.endswith("/vncwebsocket") and request.headers.get("Upgrade", "").lower() == "websocket":
            asked.status = 101
            return await websocket.join(request, self.world, int(data["port"]))
        document: dict[str, Any] = {"data": data}
        if isinstance(data, Listing):
            document["total"] = data.total
        return self._json(asked, 200, "OK", document, request.headers.get("Accept-Encoding", ""))

    async def _serve(self, request: web.BaseRequest, asked: Asked, fault: Fault | None) -> Any:
        segments = "/".join(unquote(part) for part in asked.path.split("/"))
        method = schema.find(asked.method, asked.path)
        user = self._allowed(request, asked, method)
        if method is None:
            why = f"Method '{asked.method} {segments}' not implemented"
            self._violation(asked, why)
            raise PveError(why, status=501)
        refusal = request[RECEIVED].refusal
        if refusal is not None:
            if isinstance(refusal, Curt):
                self._violation(asked, refusal.reason or "no form where an upload was due")
            raise refusal
        values = _values(asked, method)
        serving = self._reach(values.get("node"))
        if receiving.is_upload(request, asked.path):
            # It alone is not handed on: who is asked copies the file to its node.
            serving = self._local
        coerced, errors = schema.validate(method, values)
        if errors:
            self._violation(asked, "bad parameters", errors)
            raise bad(errors)
        handler = CALLS.get((asked.method, method.template))
        if handler is None:
            why = f"Method '{asked.method} {method.template}' is not modelled by the sandbox"
            self._violation(asked, why)
            raise PveError(why, status=501)
        return await self._run(asked, method, values, coerced, fault, user, serving, handler)

    def _allowed(self, request: web.BaseRequest, asked: Asked, method: Method | None) -> str:
        """Answers who asks; who may not upload is told so by the HTTP server, which has kept nothing."""
        received = request[RECEIVED]
        opened = method is not None and (asked.method, method.template) in OPEN
        try:
            asked.user = user = self._tickets.authenticate(
                request, writes=asked.method != "GET", opened=opened
            )
            if method is not None:
                permissions.check(self.world.accounts, user, method, _values(asked, method))
        except (Unauthenticated, PveError) as error:
            if not received.upload:
                raise
            self.world.files.drop_upload(received.upload)
            if isinstance(error, Unauthenticated):
                raise
            seconds = self.world.durations.unauthenticated
            raise Curt(error.status, error.reason, seconds=seconds) from error
        return user

    async def _run(
        self,
        asked: Asked,
        method: Method,
        values: dict[str, Any],
        coerced: dict[str, Any],
        fault: Fault | None,
        user: str,
        serving: str,
        handler: Any,
    ) -> Any:
        task_fault = fault.for_task() if fault else None
        if task_fault and task_fault.noop and not method.starts_task:
            return None
        call = Call(self.world, user, method, asked, values, coerced, task_fault, serving)
        if asked.method == "GET":
            return await handler(call)
        data = await self._within_patience(handler(call))
        if self.world.clock.leaps:
            for task in call.started:
                await _over(task.done, task.parked)
            for follower in call.followers:
                await follower
        return data

    async def _within_patience(self, work: Any) -> Any:
        """Waits for a write as long as pveproxy does; after that it goes on without its client."""
        clock = self.world.clock
        doing = self.world.spawn(work)
        # Most writes are done before anything can be waited for.
        await asyncio.wait({doing}, timeout=0.01)
        if not doing.done():
            timer = asyncio.ensure_future(clock.until(clock.now() + self.world.durations.proxy_patience))
            try:
                await asyncio.wait({doing, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                timer.cancel()
        if not doing.done():
            raise PveError("Connection timed out", status=596)
        return doing.result()

    def _reach(self, node: Any) -> str:
        """Answers which node serves; an absent one cannot be resolved, one that is down is 595."""
        if not isinstance(node, str) or node == "localhost":
            return self._local
        machine = self.world.cluster.nodes.get(node)
        if machine is None:
            raise PveError(
                f"hostname lookup '{node}' failed - failed to get address info for: {node}: "
                "Temporary failure in name resolution"
            )
        if not machine.online:
            raise PveError("No route to host", status=595)
        return node

    # ------------------------------------------------------------------ answering

    def _violation(self, asked: Asked, why: str, errors: dict[str, str] | None = None) -> None:
        self.world.journal.violations.append(Violation(asked.method, asked.path, why, errors or {}))

    def _made_up(self, asked: Asked, fault: Fault) -> web.StreamResponse:
        found = schema.find(asked.method, asked.path)
        names = {"node": self._local, "vmid": "100", **(found.params if found else {}), **asked.body}
        text = fault.reason
        for name in ("node", "vmid"):
            text = text.replace("{" + name + "}", str(names[name]))
        if fault.body is not None or fault.status == 401:
            asked.status, asked.reason = fault.status, text
            body = (fault.body or "").encode()
            return web.Response(status=fault.status, reason=text, body=body, headers=self._headers(asked))
        return self._refusal(asked, PveError(text, status=fault.status, errors=fault.errors))

    def _refusal(self, asked: Asked, error: PveError) -> web.StreamResponse:
        return self._json(asked, error.status, error.reason, error.body, "")

    def _json(
        self, asked: Asked, status: int, reason: str, document: Any, accepts: str
    ) -> web.StreamResponse:
        asked.status, asked.reason = status, reason
        text = b""
        if document is not None:
            text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
        headers = self._headers(asked)
        headers["Content-Type"] = JSON_TYPE
        if "gzip" in accepts and len(text) > GZIP_FROM:
            packer = zlib.compressobj(5, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
            text = packer.compress(text) + packer.flush()
            headers["Content-Encoding"] = "gzip"
        return web.Response(status=status, reason=reason, body=text, headers=headers)

    def _headers(self, asked: Asked) -> dict[str, str]:
        """Carries the serving node's own time: clocks of a cluster differ."""
        parts = asked.path.split("/")
        name = (
            parts[2]
            if len(parts) > 2 and parts[1] == "nodes" and parts[2] in self.world.cluster.nodes
            else ""
        )
        moment = self.world.clock.now() + self.world.cluster.nodes[name or self._local].skew
        return {
            "Date": formatdate(moment, usegmt=True),
            "Server": "pve-api-daemon/3.0",
            "Cache-Control": "max-age=0",
            "Pragma": "no-cache",
        }


def _values(asked: Asked, method: Method) -> dict[str, Any]:
    return {**asked.query, **asked.body, **{key: unquote(value) for key, value in method.params.items()}}


def _shown(path: str) -> str:
    """Keeps a path as the schema can take it apart: encoded slashes stay encoded."""
    return (
        path.replace("%3A", ":").replace("%3a", ":").replace("%40", "@").replace("%21", "!").rstrip("/")
        or "/"
    )


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _over(done: asyncio.Event, parked: asyncio.Event) -> None:
    waits = {asyncio.ensure_future(done.wait()), asyncio.ensure_future(parked.wait())}
    try:
        await asyncio.wait(waits, timeout=TASK_PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        for wait in waits:
            with suppress(asyncio.CancelledError):
                await wait
