"""Consoles: tickets, ports, and what goes over the websocket."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox

VM = "/nodes/pve1/qemu/101"


class Line:
    """Is a client of a console's websocket."""

    def __init__(self, sandbox: Sandbox) -> None:
        context = ssl.create_default_context(cadata=sandbox.certificate_pem)
        self._sandbox = sandbox
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))

    async def connect(
        self, proxy: dict[str, Any], *, vm: str = VM, port: Any = None, ticket: str | None = None, token: str | None = None,
        protocols: tuple[str, ...] = ("binary",),
    ) -> aiohttp.ClientWebSocketResponse:  # fmt: skip
        ticket = quote(proxy["ticket"] if ticket is None else ticket, safe="")
        url = (
            f"{self._sandbox.url}/api2/json{vm}/vncwebsocket?port={port or proxy['port']}&vncticket={ticket}"
        )
        headers = {"Authorization": f"PVEAPIToken={token or self._sandbox.token}"} if token != "" else {}
        return await self._session.ws_connect(
            aiohttp.client.URL(url, encoded=True), headers=headers, protocols=protocols
        )

    async def close(self) -> None:
        await self._session.close()


@pytest.fixture
async def line(sandbox: Sandbox) -> AsyncIterator[Line]:
    sandbox.add_vm(101, name="web1", disk="64M", vga="serial0", serial0="socket")
    sandbox.add_vm(102, name="web2", disk="64M", vga="std", serial0="socket")
    made = Line(sandbox)
    yield made
    await made.close()


def token_of(api: Api) -> str:
    return api.headers["Authorization"].removeprefix("PVEAPIToken=")


async def opened(line: Line, api: Api) -> tuple[dict[str, Any], aiohttp.ClientWebSocketResponse]:
    """Starts the VM and opens its serial console, past the greeting."""
    await api.task("POST", f"{VM}/status/start")
    proxy = await api.ok("POST", f"{VM}/termproxy")
    client = await line.connect(proxy, token=token_of(api))
    await client.send_str(f"{proxy['user']}:{proxy['ticket']}\n")
    for _ in range(2):
        await client.receive_bytes()
    return proxy, client


async def test_6_2_console_1_the_answer_of_termproxy(line: Line, wide_api: Api) -> None:
    proxy = await wide_api.ok("POST", f"{VM}/termproxy")
    assert (proxy["user"], proxy["port"]) == ("admin@pve!t", "5900")
    assert proxy["ticket"].startswith("PVEVNC:")
    assert len(proxy["ticket"]) == 361
    assert proxy["upid"].split(":")[5:7] == ["vncproxy", "101"]
    assert (await wide_api.ask("POST", f"{VM}/termproxy", serial="serial9")).status == 400


async def test_6_2_console_1_a_stopped_vm_fails_in_the_task(line: Line, wide_api: Api) -> None:
    proxy = await wide_api.ok("POST", f"{VM}/termproxy")
    client = await line.connect(proxy, token=token_of(wide_api))
    await client.send_str(f"{proxy['user']}:{proxy['ticket']}\n")
    assert await client.receive_bytes() == b"OK"
    assert await client.receive_bytes() == b"VM 101 not running\r\n"
    await client.receive()
    assert "failed: exit code 1" in (await wide_api.status(proxy["upid"]))["exitstatus"]


async def test_6_2_console_2_the_upgrade_and_no_upgrade(line: Line, wide_api: Api) -> None:
    proxy = await wide_api.ok("POST", f"{VM}/termproxy")
    plain = await wide_api.ok("GET", f"{VM}/vncwebsocket", port=proxy["port"], vncticket=proxy["ticket"])
    assert plain == {"port": proxy["port"]}
    for protocols in (("binary",), ("base64",), ()):
        proxy = await wide_api.ok("POST", f"{VM}/termproxy")
        client = await line.connect(proxy, token=token_of(wide_api), protocols=protocols)
        assert client.protocol == (protocols[0] if protocols else None)
        await client.close()


async def test_6_2_console_3_the_exchange(line: Line, wide_api: Api, sandbox: Sandbox) -> None:
    await wide_api.task("POST", f"{VM}/status/start")
    proxy = await wide_api.ok("POST", f"{VM}/termproxy")
    client = await line.connect(proxy, token=token_of(wide_api))
    await client.send_str(f"{proxy['user']}:{proxy['ticket']}\n")
    assert await client.receive_bytes() == b"OK"
    assert await client.receive_bytes() == b"starting serial terminal on interface serial0\r\n"
    await client.send_str("1:80:24:")
    await client.send_str("2")
    await client.send_str("0:3:ls\n")
    assert await client.receive_bytes() == b"ls\r\n"
    assert (await wide_api.status(proxy["upid"]))["status"] == "running"
    # A close frame is answered by the end of the connection, not by another one.
    await client._writer.close()
    assert (await client.receive()).type is aiohttp.WSMsgType.CLOSED
    assert client.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE
    assert (await wide_api.status(proxy["upid"]))["exitstatus"] == "OK"
    assert await wide_api.log(proxy["upid"]) == ["TASK OK"]


async def test_a_console_keeps_up_when_more_was_said_than_is_kept(
    line: Line, wide_api: Api, sandbox: Sandbox
) -> None:
    _, client = await opened(line, wide_api)
    for letter in "abc":
        await client.send_str(f"0:8000:{letter * 8000}")
        assert await client.receive_bytes() == letter.encode() * 8000
    assert len(sandbox.guests.console(101)) < 24000
    await client.close()


async def test_a_console_ends_with_its_guest(line: Line, wide_api: Api) -> None:
    proxy, client = await opened(line, wide_api)
    await wide_api.task("POST", f"{VM}/status/stop")
    assert (await client.receive()).type is aiohttp.WSMsgType.CLOSED
    assert (await wide_api.status(proxy["upid"]))["exitstatus"] == "OK"


async def test_6_2_console_3_a_wrong_line(line: Line, wide_api: Api) -> None:
    proxy = await wide_api.ok("POST", f"{VM}/termproxy")
    client = await line.connect(proxy, token=token_of(wide_api))
    await client.send_str(f"{proxy['user']}:wrong\n")
    message = await client.receive()
    assert message.type in {aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.ERROR}
    status = await wide_api.status(proxy["upid"])
    assert status["exitstatus"].startswith(f"command '/usr/bin/termproxy {proxy['port']} --path /vms/101")


async def test_6_2_console_4_a_ticket_is_bound(line: Line, wide_api: Api, sandbox: Sandbox) -> None:
    proxy = await wide_api.ok("POST", f"{VM}/termproxy")
    root = sandbox.accounts.add_token("root@pam!all", privsep=False)
    mine = token_of(wide_api)
    for wrong in (
        {"ticket": "PVEVNC:00000000::x", "token": mine},
        {"port": 5990, "token": mine},
        {"vm": "/nodes/pve1/qemu/102", "token": mine},
        {"token": root},
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await line.connect(proxy, **wrong)
        assert (caught.value.status, caught.value.message) in {
            (401, "Invalid response status"), (401, "permission denied - invalid PVEVNC ticket"),
        }  # fmt: skip
    answer = await wide_api.ask("GET", f"{VM}/vncwebsocket", port=5990, vncticket=proxy["ticket"])
    assert answer.message == "permission denied - invalid PVEVNC ticket\n"
    with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
        await line.connect(proxy, token="")
    answer = await wide_api.ask("GET", f"{VM}/vncwebsocket", port=80, vncticket=proxy["ticket"])
    assert answer.errors == {"port": "value must have a minimum value of 5900"}


@pytest.mark.parametrize(("age", "status"), [(30, 200), (41, 401), (7300, 401)])
async def test_6_2_console_4_a_ticket_ages(slow: Sandbox, age: int, status: int) -> None:
    slow.add_vm(101, vga="serial0", serial0="socket")
    api = Api(slow, slow.accounts.add_token("root@pam!all", privsep=False))
    proxy = await api.ok("POST", f"{VM}/termproxy")
    await slow.clock.advance(age)
    asked = asyncio.ensure_future(
        api.ask("GET", f"{VM}/vncwebsocket", port=proxy["port"], vncticket=proxy["ticket"])
    )
    while not asked.done():
        await slow.clock.advance(1)
        await asyncio.sleep(0.01)
    assert (await asked).status == status
    await api.close()


async def test_6_2_console_4_without_the_right(line: Line, api: Api, sandbox: Sandbox) -> None:
    token = sandbox.accounts.add_token("nobody@pve!none")
    other = Api(sandbox, token)
    answer = await other.ask("POST", f"{VM}/termproxy")
    assert (answer.status, answer.reason) == (403, "Permission check failed (/vms/101, VM.Console)")
    await other.close()


async def test_6_2_console_5_nobody_comes(slow: Sandbox) -> None:
    slow.add_vm(101, vga="serial0", serial0="socket")
    api = Api(slow, slow.accounts.add_token("root@pam!all", privsep=False))
    proxy = await api.ok("POST", f"{VM}/termproxy")
    await slow.clock.advance(11)
    assert "failed: exit code 1" in (await api.status(proxy["upid"]))["exitstatus"]
    assert slow.world.consoles.waiting == {}
    await api.close()


async def test_6_2_console_5_a_used_port_gets_no_answer(
    line: Line, wide_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zone9.sandbox.websocket.UNANSWERED", 0.2)
    proxy = await wide_api.ok("POST", f"{VM}/termproxy")
    client = await line.connect(proxy, token=token_of(wide_api))
    await client.close()
    with pytest.raises(aiohttp.ClientError) as caught:
        await line.connect(proxy, token=token_of(wide_api))
    assert not isinstance(caught.value, aiohttp.WSServerHandshakeError)


async def test_6_2_console_6_a_display(line: Line, wide_api: Api, sandbox: Sandbox) -> None:
    path = "/nodes/pve1/qemu/102"
    proxy = await wide_api.ok("POST", f"{path}/vncproxy", websocket=1)
    assert len(proxy["password"]) == 8
    assert proxy["ticket"].startswith(f"{proxy['password']}:PVEVNC:")
    assert "BEGIN CERTIFICATE" in proxy["cert"]
    client = await line.connect(proxy, vm=path, token=token_of(wide_api))
    assert await client.receive_bytes() == b"RFB 003.008\n"
    await client.send_bytes(b"RFB 003.008\n")
    assert await client.receive_bytes() == b"\x01\x02"
    await client.send_bytes(b"\x02")
    assert len(await client.receive_bytes()) == 16
    await client.close()
    answer = await wide_api.ask("POST", f"{VM}/vncproxy", websocket=1)
    assert answer.reason.startswith("Timeout while waiting for port '59")


async def test_6_2_console_7_the_others(line: Line, api: Api, wide_api: Api) -> None:
    await wide_api.task("POST", f"{VM}/status/start")
    assert (await wide_api.ask("POST", f"{VM}/spiceproxy")).reason == "no spice port"
    for name in ("termproxy", "vncshell"):
        answer = await api.ask("POST", f"/nodes/pve1/{name}")
        assert answer.reason == "Permission check failed (/nodes/pve1, Sys.Console)"
    assert await wide_api.ok("POST", f"{VM}/monitor", command="info name") == "web1\r\n"
