"""Consoles: proxies that wait on a port for the one client that holds their ticket (PVE::API2::Qemu, termproxy).

A ticket is bound to its user, path, port and time, and lasts 40 s, not two hours (pve-facts 6.2, console 4).
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from zone9.sandbox.answers import PveError
from zone9.sandbox.clock import Clock

FIRST_PORT, LAST_PORT = 5900, 5999
TICKET_LIFE = 40.0
SIGNATURE_BYTES = 256  # Proxmox signs with an RSA key of 2048 bits
PATIENCE = 10.0
RESERVED = 5.0  # how long a port is not given out again (PVE::Tools, next_unused_port)


@dataclass(slots=True, eq=False)
class Proxy:
    """Is one listener: `taken` once its client is there, `over` when it has gone, `failed` if it was turned away."""

    kind: str
    port: int
    vmid: int
    user: str
    ticket: str
    password: str = ""
    iface: str = ""
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    failed: bool = False


class Consoles:
    """Hands out ports and tickets, and remembers who waits where."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._reserved: dict[int, float] = {}
        self.waiting: dict[int, Proxy] = {}

    def open(self, kind: str, vmid: int, user: str) -> Proxy:
        """Takes a port and makes its ticket."""
        port = self._next_port()
        password = base64.urlsafe_b64encode(secrets.token_bytes(6)).decode() if kind == "vnc" else ""
        ticket = self._ticket(user, f"/vms/{vmid}", port, int(self._clock.now()))
        self.waiting[port] = proxy = Proxy(kind, port, vmid, user, ticket, password)
        return proxy

    def close(self, proxy: Proxy) -> None:
        if self.waiting.get(proxy.port) is proxy:
            del self.waiting[proxy.port]

    def holds(self, ticket: str, user: str, path: str, port: int) -> bool:
        """Tells whether a ticket, with or without a password before it, is right here and now."""
        plain = ticket[ticket.find("PVEVNC:") :] if "PVEVNC:" in ticket else ticket
        parts = plain.split(":")
        if len(parts) != 4 or parts[0] != "PVEVNC":
            return False
        try:
            moment = int(parts[1], 16)
        except ValueError:
            return False
        age = self._clock.now() - moment
        wanted = self._ticket(user, path, port, moment)
        return -20 < age <= TICKET_LIFE and hmac.compare_digest(plain.encode(), wanted.encode())

    async def attended(self, proxy: Proxy) -> None:
        """Returns when the client has come and gone; raises PveError when nobody comes in time."""
        deadline = asyncio.ensure_future(self._clock.until(self._clock.now() + PATIENCE))
        came = asyncio.ensure_future(proxy.taken.wait())
        try:
            await asyncio.wait({deadline, came}, return_when=asyncio.FIRST_COMPLETED)
            if not proxy.taken.is_set():
                raise PveError("nobody connected")
            await proxy.over.wait()
            if proxy.failed:
                raise PveError("the client was refused")
        finally:
            deadline.cancel()
            came.cancel()
            self.close(proxy)

    def _next_port(self) -> int:
        now = self._clock.now()
        for port in range(FIRST_PORT, LAST_PORT + 1):
            if port not in self.waiting and self._reserved.get(port, 0.0) <= now:
                self._reserved[port] = now + RESERVED
                return port
        raise PveError("unable to find free port (5900-5999)")

    def _ticket(self, user: str, path: str, port: int, moment: int) -> str:
        plain = f"PVEVNC:{moment:08X}"
        bound = f"{plain}:{user}:{path}:{port}".encode()
        parts = (hmac.digest(self._key, bytes([number]) + bound, hashlib.sha256) for number in range(8))
        return f"{plain}::{base64.b64encode(b''.join(parts)[:SIGNATURE_BYTES]).decode()}"
