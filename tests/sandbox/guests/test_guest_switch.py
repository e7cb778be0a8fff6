"""The switch, with ports that are plain connections."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest
from guest_kit import eventually

from zone9.sandbox.guests import switch

A, B, C = (bytes([2, 0, 0, 0, 0, n]) for n in (1, 2, 3))
EVERYBODY = b"\xff" * 6
Connect = Callable[[], Coroutine[None, None, "Wire"]]


class Wire:
    """Is one cable of the switch."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, target: bytes, sender: bytes, text: bytes = b"") -> None:
        frame = target + sender + b"\x88\xb5" + text
        self.writer.write(len(frame).to_bytes(4, "big") + frame)

    async def receive(self) -> bytes:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return (await self.reader.readexactly(length))[14:]

    async def hears_only(self, sentinel: bytes) -> bool:
        """Tells whether the next frame is `sentinel`, so that nothing came before it."""
        async with asyncio.timeout(5):
            return await self.receive() == sentinel


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    path = str(tmp_path / "switch")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    table = switch.Switch()
    serving = asyncio.create_task(switch.serve(listening, table))
    wires: list[Wire] = []

    async def new() -> Wire:
        wires.append(Wire(*await asyncio.open_unix_connection(path)))
        await eventually(lambda: len(table.ports) == len(wires), 5)
        return wires[-1]

    yield new
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    for wire in wires:
        wire.writer.close()
        await asyncio.gather(wire.writer.wait_closed(), return_exceptions=True)


async def test_a_broadcast_reaches_all_others_but_never_its_sender(connect: Connect) -> None:
    a, b, c = await connect(), await connect(), await connect()
    a.send(EVERYBODY, A, b"all")
    assert await b.hears_only(b"all")
    assert await c.hears_only(b"all")
    b.send(A, B, b"to a")
    assert await a.hears_only(b"to a")


async def test_a_known_address_is_reached_alone(connect: Connect) -> None:
    a, b, c = await connect(), await connect(), await connect()
    a.send(EVERYBODY, A, b"a")
    assert await b.hears_only(b"a")
    assert await c.hears_only(b"a")
    b.send(A, B, b"b to a")
    assert await a.hears_only(b"b to a")
    a.send(EVERYBODY, A, b"end")
    assert await c.hears_only(b"end")


async def test_an_address_moves_with_its_port(connect: Connect) -> None:
    a, b, c = await connect(), await connect(), await connect()
    b.send(EVERYBODY, B, b"b here")
    assert await a.hears_only(b"b here")
    c.send(EVERYBODY, B, b"b there")
    assert await a.hears_only(b"b there")
    a.send(B, A, b"for b")
    assert await c.hears_only(b"b here")
    assert await c.hears_only(b"for b")


async def test_frames_arrive_whole_however_the_stream_is_cut(connect: Connect) -> None:
    a, b = await connect(), await connect()
    b.send(EVERYBODY, B, b"ready")
    assert await a.hears_only(b"ready")
    frames = b""
    for number in range(3):
        frame = B + A + b"\x88\xb5" + bytes([number]) * 1400
        frames += len(frame).to_bytes(4, "big") + frame
    for start in range(0, len(frames), 701):
        a.writer.write(frames[start : start + 701])
        await asyncio.sleep(0)
    for number in range(3):
        assert await b.hears_only(bytes([number]) * 1400)


async def test_a_length_that_no_frame_has_ends_that_port_alone(connect: Connect) -> None:
    a, b, c = await connect(), await connect(), await connect()
    a.writer.write(b"\xff\xff\xff\xff")
    assert await a.reader.read() == b""
    c.send(B, C, b"to b")
    assert await b.hears_only(b"to b")


def test_the_table_of_addresses_is_bounded() -> None:
    table = switch.Switch()
    port = table.port()
    for number in range(switch.MOST_ADDRESSES + 10):
        table.forward(port, EVERYBODY + b"\x02\0" + number.to_bytes(4, "big") + b"\x88\xb5")
    assert len(table.seen) == switch.MOST_ADDRESSES
    table.forget(port)
    assert table.seen == {}
    table.forward(port, b"short")
