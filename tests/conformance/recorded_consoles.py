"""Consoles in a replay: tickets and ports of the recording stand for ours, and a client comes and goes."""

from __future__ import annotations

import re
import ssl
from typing import Any
from urllib.parse import quote

import aiohttp

from zone9.sandbox import Sandbox

PORT = re.compile(r"(vncwebsocket\?port=)(\d+)(&vncticket=)<VNCTICKET>")


class Consoles:
    """Knows, by the recording's port, what a proxy of ours was opened as."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}
        self._clients: dict[str, tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse]] = {}

    def keep(self, recorded: Any, ours: Any) -> None:
        """Pairs the two answers of one call that opened a proxy, and masks ours as the recording is."""
        for one in (recorded, ours):
            if not (isinstance(one, dict) and isinstance(one.get("data"), dict) and "ticket" in one["data"]):
                return
        theirs, data = recorded["data"], ours["data"]
        if "port" not in theirs or "port" not in data:
            return
        self._known.pop(theirs["port"], None)
        self._known[theirs["port"]] = dict(data)
        data["port"] = theirs["port"]
        masks = {"password": "<VNC_PASSWORD>", "cert": "<PEM>", "ticket": "<VNCTICKET>"}
        if "password" in data:
            masks["ticket"] = "<VNC_PASSWORD>:<VNCTICKET>"
        data.update({key: mask for key, mask in masks.items() if key in data})

    def url(self, url: str) -> str:
        """Puts our port and ticket where the recording has its own."""

        def ours(match: re.Match[str]) -> str:
            known = self._known.get(match[2])
            if known is None:
                return match[0]
            return f"{match[1]}{known['port']}{match[3]}{quote(known['ticket'], safe='')}"

        return PORT.sub(ours, url)

    def shown(self, document: Any) -> None:
        """Shows a port that the sandbox answers alone as the recording's."""
        data = document.get("data") if isinstance(document, dict) else None
        if isinstance(data, dict) and list(data) == ["port"]:
            known = reversed(self._known.items())  # a port is given out again: the newest counts
            data["port"] = next((port for port, one in known if one["port"] == data["port"]), data["port"])

    async def come(self, sandbox: Sandbox, token: str, vmid: int, port: str, line: str | None) -> None:
        """Connects as the recording's client did; with a line of its own it is turned away."""
        known = self._known[port]
        context = ssl.create_default_context(cadata=sandbox.certificate_pem)
        session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))
        ticket = quote(known["ticket"], safe="")
        node = known["upid"].split(":")[1]
        url = f"{sandbox.url}/api2/json/nodes/{node}/qemu/{vmid}/vncwebsocket?port={known['port']}&vncticket={ticket}"
        client = await session.ws_connect(
            aiohttp.client.URL(url, encoded=True),
            headers={"Authorization": f"PVEAPIToken={token}"},
            protocols=("binary",),
        )
        await client.send_str(line or f"{known['user']}:{known['ticket']}\n")
        answer = await client.receive(timeout=5)
        assert line is not None or answer.data == b"OK", answer
        self._clients[port] = session, client
        if line is not None:
            await self.go(port)

    async def go(self, port: str) -> None:
        session, client = self._clients.pop(port)
        await client.close()
        await session.close()
