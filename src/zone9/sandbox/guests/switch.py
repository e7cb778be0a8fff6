"""A network of the sandbox: an Ethernet switch whose ports are connections to a unix socket.

It is a process of its own that knows nothing but frames, so what one network carries cannot reach another, and no
frame can leave the machine. QEMU's `-netdev stream` puts a big-endian length of four bytes before every frame.
It imports the standard library alone and is run by path, to stay small: `python -I -S switch.py DESCRIPTOR`, where
the descriptor is a listening unix socket.
"""

import asyncio
import socket
import sys

LONGEST_FRAME = 65536 + 64
MOST_WAITING = 1024 * 1024  # bytes to a port that does not read; a real switch drops as well
MOST_ADDRESSES = 4096


class Switch:
    """Learns which port a MAC was last seen on, and floods what it cannot place."""

    def __init__(self) -> None:
        self.ports: set[Port] = set()
        self.seen: dict[bytes, Port] = {}

    def port(self) -> "Port":
        return Port(self)

    def forward(self, source: "Port", frame: bytes) -> None:
        """Passes a frame on: to one port, to all others, or nowhere when its target is where it came from."""
        if len(frame) < 14:
            return
        target, sender = frame[:6], frame[6:12]
        if not sender[0] & 1:
            self.seen.pop(sender, None)
            if len(self.seen) >= MOST_ADDRESSES:
                del self.seen[next(iter(self.seen))]
            self.seen[sender] = source
        known = None if target[0] & 1 else self.seen.get(target)
        for port in [known] if known else list(self.ports):
            if port is not source:
                port.send(frame)

    def forget(self, port: "Port") -> None:
        self.ports.discard(port)
        self.seen = {mac: where for mac, where in self.seen.items() if where is not port}


class Port(asyncio.Protocol):
    """Is one connection; a length that no frame can have ends it."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._buffer = bytearray()
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._switch.ports.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._switch.forget(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        start = 0
        while len(self._buffer) - start >= 4:
            length = int.from_bytes(self._buffer[start : start + 4], "big")
            if length > LONGEST_FRAME:
                self._transport.abort()
                return
            if len(self._buffer) - start - 4 < length:
                break
            self._switch.forward(self, bytes(self._buffer[start + 4 : start + 4 + length]))
            start += 4 + length
        del self._buffer[:start]

    def send(self, frame: bytes) -> None:
        if self._transport.get_write_buffer_size() < MOST_WAITING:
            self._transport.write(len(frame).to_bytes(4, "big") + frame)


async def serve(listening: socket.socket, switch: Switch) -> None:
    """Switches between all that connect, until cancelled."""
    server = await asyncio.get_running_loop().create_unix_server(switch.port, sock=listening)
    try:
        await server.serve_forever()
    finally:
        for port in list(switch.ports):
            port._transport.abort()  # noqa: SLF001 - the two classes are one thing


if __name__ == "__main__":
    asyncio.run(serve(socket.socket(fileno=int(sys.argv[1])), Switch()))
