"""A client that shows answers as they came."""

import json
import ssl
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import aiohttp

from zone9.sandbox import Sandbox


@dataclass(frozen=True)
class Answer:
    status: int
    reason: str
    data: Any
    errors: dict[str, str] = field(default_factory=dict)
    message: str = ""
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Api:
    """Asks as one token; `ok` insists on 200 and answers the data alone."""

    def __init__(self, sandbox: Sandbox, token: str | None = None) -> None:
        self.sandbox = sandbox
        context = ssl.create_default_context(cadata=sandbox.certificate_pem)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))
        self.headers = {"Authorization": f"PVEAPIToken={token or sandbox.token}"}

    async def ask(
        self, method: str, path: str, /, *, raw: str | bytes | None = None, headers: Any = None, **params: Any
    ) -> Answer:
        named = {key.replace("_", "-"): value for key, value in params.items()}
        text = "&".join(f"{quote(key)}={quote(str(value), safe='')}" for key, value in named.items())
        url = f"{self.sandbox.url}/api2/json{path}"
        sent = {**self.headers, **(headers or {})}
        body: str | bytes | None = raw
        if method in {"GET", "DELETE"}:
            url += f"?{text}" if text else ""
        elif body is None:
            body = text
        if body is not None:
            sent.setdefault("Content-Type", "application/x-www-form-urlencoded")
        target = aiohttp.client.URL(url, encoded=True)
        async with self._session.request(method, target, data=body, headers=sent) as response:
            text = await response.text()
            document = (json.loads(text) if text[:1] == "{" else None) or {}
            return Answer(
                response.status,
                response.reason or "",
                document.get("data"),
                document.get("errors", {}),
                document.get("message", ""),
                text,
                dict(response.headers),
            )

    async def ok(self, method: str, path: str, /, **params: Any) -> Any:
        answer = await self.ask(method, path, **params)
        assert answer.status == 200, (method, path, answer.status, answer.reason, answer.errors)
        return answer.data

    async def task(self, method: str, path: str, /, **params: Any) -> str:
        """Starts a task and answers its exit text."""
        upid = await self.ok(method, path, **params)
        return (await self.status(upid))["exitstatus"]

    async def status(self, upid: str) -> dict[str, Any]:
        node = upid.split(":")[1]
        return await self.ok("GET", f"/nodes/{node}/tasks/{quote(upid, safe='')}/status")

    async def log(self, upid: str, **params: Any) -> list[str]:
        node = upid.split(":")[1]
        rows = await self.ok("GET", f"/nodes/{node}/tasks/{quote(upid, safe='')}/log", **params)
        return [row["t"] for row in rows]

    async def config(self, vmid: int, node: str = "pve1", **params: Any) -> dict[str, Any]:
        return await self.ok("GET", f"/nodes/{node}/qemu/{vmid}/config", **params)

    async def pending(self, vmid: int) -> dict[str, dict[str, Any]]:
        rows = await self.ok("GET", f"/nodes/pve1/qemu/{vmid}/pending")
        return {row["key"]: row for row in rows}

    async def close(self) -> None:
        await self._session.close()
