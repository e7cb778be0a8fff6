"""The serial console of a real guest through Proxmox's websocket: what it says, and what is typed to it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from urllib.parse import quote

import aiohttp
import pytest
from guest_kit import BOOT_SECONDS, all_gone
from sandbox_api import Api

from zone9.sandbox import Sandbox
from zone9.sandbox.guests.qemu import QemuGuests
from zone9.sandbox.guests.tiny import Tiny

pytestmark = [pytest.mark.qemu, pytest.mark.slow]
VM = "/nodes/pve1/qemu/5001"


@pytest.fixture
async def real(image: Tiny) -> AsyncIterator[Sandbox]:
    guests = QemuGuests(image, limit=1)
    async with Sandbox(("pve1",), seed=3, guests=guests) as sandbox:
        sandbox.add_vm(5001, name="web5001", serial0="socket", vga="serial0")
        yield sandbox
        pids = list(guests.processes().values())
    await all_gone(pids)


async def until(client: aiohttp.ClientWebSocketResponse, text: bytes) -> bytes:
    """Answers what the line said up to and with `text`."""
    said = b""
    async with asyncio.timeout(BOOT_SECONDS):
        while text not in said:
            said += await client.receive_bytes()
    return said


async def test_the_bytes_of_a_serial_console_go_both_ways(real: Sandbox) -> None:
    api = Api(real, real.accounts.add_token("root@pam!all", privsep=False))
    assert await api.task("POST", f"{VM}/status/start") == "OK"
    proxy = await api.ok("POST", f"{VM}/termproxy")
    context = ssl.create_default_context(cadata=real.certificate_pem)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context), headers=api.headers
    ) as session:
        url = f"{real.url}/api2/json{VM}/vncwebsocket?port={proxy['port']}&vncticket={quote(proxy['ticket'], safe='')}"
        client = await session.ws_connect(aiohttp.client.URL(url, encoded=True), protocols=("binary",))
        await client.send_str(f"{proxy['user']}:{proxy['ticket']}\n")
        await until(client, b"starting serial terminal on interface serial0\r\n")
        await until(client, b"zone9-guest: up name=")
        # Only the guest's own terminal can send this back: nothing on the way echoes.
        await client.send_str("0:6:hello\n")
        await until(client, b"hello\r\n")
        assert b"hello\r\n" in real.guests.console(5001)
        await client.close()
    await api.close()
