"""The networks of the sandbox's guests: one switch for each bridge and tag, and the host's way in.

A network exists while a running guest is on it. The host reaches the guests' pages through one more port of the
switch: a QEMU without a guest, whose user network forwards a loopback port to a guest. That network is
`restrict=on`, so it never dials out, and it speaks from a link-local address (169.254.9.9), which no customer's
network can contain; a guest needs a route to 169.254.0.0/16 to answer.
"""

import asyncio
import ipaddress
import json
import os
import re
import socket
import sys
from collections.abc import Iterable
from pathlib import Path

from zone9.sandbox.guests import command
from zone9.sandbox.guests.child import Child
from zone9.sandbox.guests.qmp import Qmp, QmpError
from zone9.sandbox.guests.seam import Nic

Key = tuple[str, int | None]
SWITCH = Path(__file__).with_name("switch.py")
LINK_LOCAL = "net=169.254.0.0/16,host=169.254.9.9,dns=169.254.9.10,dhcpstart=169.254.100.1"


class Network:
    """Is one switch and its host port."""

    def __init__(self, path: Path, switch: Child, port: Child, qmp: Qmp) -> None:
        self.path = path
        self.guests: set[int] = set()
        self.switch, self.port, self._qmp = switch, port, qmp

    @classmethod
    async def start(cls, path: Path) -> "Network":
        """Starts both processes in the directory of `path`; raises OSError or QmpError when they do not come up."""
        with socket.socket(socket.AF_UNIX) as listening:
            _bind(listening, path)
            listening.listen()
            number = listening.fileno()
            argv = [sys.executable, "-I", "-S", str(SWITCH), str(number)]
            switch = await Child.start(argv, path.parent, descriptors=[number])
        ours, theirs = socket.socketpair()
        port: Child | None = None
        try:
            with theirs:
                argv = _port_argv(path, theirs.fileno())
                port = await Child.start(argv, path.parent, descriptors=[theirs.fileno()])
            return cls(path, switch, port, await Qmp.open(ours))
        except BaseException:
            ours.close()
            await asyncio.gather(switch.kill(), *([port.kill()] if port else []))
            raise

    async def forward(self, address: ipaddress.IPv4Address) -> int:
        """Answers the loopback port that now leads to port 80 of `address`; raises QmpError."""
        said = await self._qmp.human(f"hostfwd_add host tcp:127.0.0.1:0-{address}:80")
        found = await self.forwarded(address)
        if found is None:
            raise QmpError(f"no port forwards to {address}: {said.strip()}")
        return found

    async def forwarded(self, address: ipaddress.IPv4Address) -> int | None:
        """Answers the port that leads to `address`, if there is one."""
        listed = await self._qmp.human("info usernet")
        match = re.search(
            rf"HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+{re.escape(str(address))}\s+80\s", listed
        )
        return int(match.group(1)) if match else None

    async def unforward(self, port: int) -> None:
        """Closes a port; a host port that is gone has none left to close."""
        try:
            await self._qmp.human(f"hostfwd_remove host tcp:127.0.0.1:{port}")
        except QmpError:
            return

    async def close(self) -> None:
        await self._qmp.close()
        await asyncio.gather(self.switch.kill(), self.port.kill())
        self.path.unlink(missing_ok=True)


def _bind(listening: socket.socket, path: Path) -> None:
    """Binds through the directory's descriptor: a socket's path may have 107 bytes only (unix(7))."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        listening.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def _port_argv(path: Path, monitor: int) -> list[str]:
    stream = {"type": "stream", "id": "wire", "server": False, "addr": {"type": "unix", "path": path.name}}
    return [
        *(command.PROGRAM, "-name", "z9-host-port", "-machine", "none", *command.BARE, *command.SECCOMP),
        *("-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"),
        *("-netdev", f"user,id=host,restrict=on,ipv4=on,ipv6=off,{LINK_LOCAL}"),
        *("-netdev", json.dumps(stream)),
        *("-netdev", "hubport,id=a,hubid=0,netdev=host", "-netdev", "hubport,id=b,hubid=0,netdev=wire"),
    ]


class Networks:
    """Keeps the networks that have guests."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._networks: dict[Key, Network] = {}
        self._lock = asyncio.Lock()
        self._made = 0

    async def join(self, vmid: int, nics: Iterable[Nic]) -> dict[int, Network]:
        """Answers the network of each NIC by its index, starting those that are not there yet."""
        joined: dict[int, Network] = {}
        async with self._lock:
            for nic in nics:
                key = (nic.bridge, nic.tag)
                if key not in self._networks:
                    self._made += 1
                    self._networks[key] = await Network.start(self._directory / f"switch-{self._made}")
                joined[nic.index] = self._networks[key]
                joined[nic.index].guests.add(vmid)
        return joined

    async def leave(self, vmid: int) -> None:
        """Takes a guest off its networks and ends those that have no guest left."""
        async with self._lock:
            for key, network in list(self._networks.items()):
                network.guests.discard(vmid)
                if not network.guests:
                    del self._networks[key]
                    await network.close()

    def processes(self) -> dict[str, int]:
        """Answers the process ids by what they are, for measuring."""
        return {
            f"{kind} {bridge}{f'.{tag}' if tag is not None else ''}": child.pid
            for (bridge, tag), network in self._networks.items()
            for kind, child in (("switch", network.switch), ("port", network.port))
        }
