"""The exchange over a console's websocket: termproxy's frames on a serial line, RFB's greeting on a display.

A client of termproxy sends its user and ticket in one line, is told OK, and then sends frames: `0:<length>:<bytes>`
is typed, `1:<columns>:<rows>:` is its size, `2` keeps the line open. What comes back is the line's own bytes, the
echo among them. No side sends a close frame: the connection is closed (recorded).
The sandbox's guests have a serial console and no display, so a display ends after the VNC challenge.
"""

import asyncio
import re
import secrets

from aiohttp import WSMsgType, web

from zone9.sandbox.answers import ConnectionCut
from zone9.sandbox.consoles import Proxy
from zone9.sandbox.state import Vm
from zone9.sandbox.world import World

UNANSWERED = 5.0
LOOK_SECONDS = 0.05
FRAME = re.compile(rb"0:(\d+):")


async def join(request: web.BaseRequest, world: World, port: int) -> web.StreamResponse:
    """Serves the upgrade of a checked request; without a listener on the port there is no HTTP answer at all."""
    proxy = world.consoles.waiting.get(port)
    if proxy is None or proxy.taken.is_set():
        await world.clock.until(world.clock.now() + UNANSWERED)
        raise ConnectionCut
    proxy.taken.set()
    socket = web.WebSocketResponse(protocols=("binary", "base64"), autoclose=False)
    try:
        await socket.prepare(request)
        served = _terminal if proxy.kind == "term" else _display
        proxy.failed = not await served(socket, world, proxy)
    finally:
        if request.transport is not None:
            request.transport.close()
        proxy.over.set()
    return socket


async def _terminal(socket: web.WebSocketResponse, world: World, proxy: Proxy) -> bool:
    """Runs a serial console until its client goes; False when the client or the guest is refused."""
    line = await _bytes(socket)
    user, _, ticket = line.decode(errors="replace").rstrip("\n").partition(":")
    if user != proxy.user or not world.consoles.holds(ticket, user, f"/vms/{proxy.vmid}", proxy.port):
        return False
    await socket.send_bytes(b"OK")
    vm = world.cluster.vms.get(proxy.vmid)
    if vm is None or vm.running is None:
        await socket.send_bytes(f"VM {proxy.vmid} not running\r\n".encode())
        return False
    if proxy.iface not in vm.config:
        await socket.send_bytes(b"unable to find a serial interface\r\n")
        return False
    await socket.send_bytes(f"starting serial terminal on interface {proxy.iface}\r\n".encode())
    ways = {
        asyncio.ensure_future(_listen(socket, world, proxy.vmid)),
        asyncio.ensure_future(_show(socket, world, vm)),
    }
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
    return True


async def _listen(socket: web.WebSocketResponse, world: World, vmid: int) -> None:
    """Types what the client sends, until it goes."""
    while data := await _bytes(socket):
        if typed := _typed(data):
            world.guests.type_in(vmid, typed)


async def _show(socket: web.WebSocketResponse, world: World, vm: Vm) -> None:
    """Sends what the guest's line says from now on, until that guest has ended."""
    guests, guest = world.guests, vm.running
    sent = guests.console_end(vm.vmid)
    while vm.running is guest:
        fresh = guests.console_end(vm.vmid) - sent
        if fresh > 0:
            await socket.send_bytes(guests.console(vm.vmid)[-fresh:])
            sent += fresh
        await asyncio.sleep(LOOK_SECONDS)


def _typed(data: bytes) -> bytes:
    """Answers what a client's frames type; a size and a keep-alive type nothing."""
    typed = b""
    while match := FRAME.match(data):
        end = match.end() + int(match[1])
        typed += data[match.end() : end]
        data = data[end:]
    return typed


async def _display(socket: web.WebSocketResponse, _world: World, _proxy: Proxy) -> bool:
    """Greets as a VNC server with a password does."""
    await socket.send_bytes(b"RFB 003.008\n")
    await _bytes(socket)
    await socket.send_bytes(b"\x01\x02")
    if await _bytes(socket) == b"\x02":
        await socket.send_bytes(secrets.token_bytes(16))
        await _bytes(socket)
        why = b"the sandbox has no displays"
        await socket.send_bytes(b"\x00\x00\x00\x01" + len(why).to_bytes(4, "big") + why)
    return True


async def _bytes(socket: web.WebSocketResponse) -> bytes:
    """Answers the next message, empty when the client has gone."""
    message = await socket.receive()
    if message.type is WSMsgType.TEXT:
        return bytes(message.data.encode())
    return bytes(message.data) if message.type is WSMsgType.BINARY else b""
