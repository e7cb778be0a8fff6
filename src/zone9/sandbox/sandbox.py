"""One sandbox: a Proxmox cluster in this process, on loopback.

`async with Sandbox() as sandbox:` serves HTTPS at `sandbox.url` and a plain control port at
`sandbox.control_url`. Everything that a test wants to look at or break is an attribute.
"""

import asyncio
import random
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from zone9.sandbox import calls, certificate, inventory, pvestatd
from zone9.sandbox.accounts import ZONE9_ROLE, Accounts
from zone9.sandbox.clock import Clock
from zone9.sandbox.consoles import Consoles
from zone9.sandbox.control import Control
from zone9.sandbox.durations import Durations
from zone9.sandbox.faults import Faults
from zone9.sandbox.guests.rows import RowGuests
from zone9.sandbox.guests.seam import Guests
from zone9.sandbox.journal import Asked, Journal, Violation
from zone9.sandbox.locks import ConfigLocks
from zone9.sandbox.operator import Operator
from zone9.sandbox.server import Server
from zone9.sandbox.state import GIB, Cluster, Node, Storage, Vm, Volume
from zone9.sandbox.stock import Stock
from zone9.sandbox.stored import Files
from zone9.sandbox.tasks import Tasks
from zone9.sandbox.tickets import Tickets
from zone9.sandbox.vm import power
from zone9.sandbox.world import World

TOKEN = "zone9@pve!ctl"
LOOPBACK = "127.0.0.1"

__all__ = ["Sandbox", "calls"]


class Sandbox:
    """Is a Proxmox to try things against; it listens on loopback only."""

    def __init__(
        self,
        nodes: tuple[str, ...] = ("pve1", "pve2", "pve3"),
        *,
        time_scale: float = 0.0,
        manual_clock: bool = False,
        port: int = 0,
        control_port: int = 0,
        secret: str | None = None,
        seed: int | None = None,
        guests: Guests | None = None,
        durations: Durations | None = None,
    ) -> None:
        self.clock = Clock(time_scale=time_scale, manual=manual_clock)
        self.cluster = Cluster()
        booted = self.clock.now() - 86400
        for number, name in enumerate(nodes, 1):
            self.cluster.nodes[name] = Node(name, number, f"10.99.0.{number}", booted_at=booted)
        self.accounts = Accounts(self.cluster)
        self.tasks = Tasks(self.clock, self.cluster)
        self.faults = Faults()
        self.journal = Journal()
        self.durations = durations or Durations()
        self.guests: Guests = guests or RowGuests()
        self._certificate = certificate.make(nodes)
        self.world = World(
            clock=self.clock,
            cluster=self.cluster,
            accounts=self.accounts,
            tasks=self.tasks,
            locks=ConfigLocks(self.clock),
            faults=self.faults,
            journal=self.journal,
            guests=self.guests,
            durations=self.durations,
            random=random.Random(seed),
            files=Files(random.Random(seed)),
            consoles=Consoles(self.clock),
            fingerprint=self._certificate.fingerprint,
            certificate=self._certificate.pem,
        )
        tickets = Tickets(self.accounts, self.clock)
        self.world.options["tickets"] = tickets
        self._server = Server(self.world, tickets, nodes[0])
        self.stock = Stock(self.world)
        self.operator = Operator(self.world, self.stock)
        self._port, self._control_port = port, control_port
        self._runners: list[web.ServerRunner] = []
        self.url = self.control_url = ""
        self._add_storages()
        self.accounts.roles["Zone9"] = ZONE9_ROLE
        self.token = self.accounts.add_token(TOKEN, secret=secret)
        for who in (TOKEN.split("!", 1)[0], TOKEN):
            self.accounts.grant("/", who, "Zone9")
        self.guests.on_exit = self._guest_ended

    # ------------------------------------------------------------------ running

    async def start(self) -> Self:
        """Listens; `url` and `control_url` are known from here on."""
        self.url = await self._listen(self._server.answer, self._port, self._certificate.context)
        self.world.spawn(pvestatd.run(self.world))
        control = Control(self.world, self.operator)
        self.control_url = await self._listen(control.answer, self._control_port, None)
        return self

    async def stop(self) -> None:
        """Stops listening, ends every worker and guest."""
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()
        await self.tasks.close()
        background = list(self.world.background)
        for work in background:
            work.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        await self.guests.close()
        self.world.files.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _listen(self, answer: Any, port: int, context: Any) -> str:
        runner = web.ServerRunner(
            web.Server(answer, access_log=None, keepalive_timeout=75),
            shutdown_timeout=0.1,
            handle_signals=False,
        )
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, LOOPBACK, port, ssl_context=context)
        await site.start()
        bound = runner.addresses[0][1]
        return f"{'https' if context else 'http'}://{LOOPBACK}:{bound}"

    # ------------------------------------------------------------------ looking

    @property
    def fingerprint(self) -> str:
        """Is the SHA-256 of the certificate, as Proxmox prints it."""
        return self._certificate.fingerprint

    @property
    def certificate_pem(self) -> str:
        return self._certificate.pem

    @property
    def requests(self) -> list[Asked]:
        return list(self.journal.requests)

    @property
    def violations(self) -> list[Violation]:
        """Is the live list of requests that no well-behaved client sends; clear it after sending one on purpose."""
        return self.journal.violations

    @property
    def vms(self) -> dict[int, Vm]:
        return self.cluster.vms

    # ------------------------------------------------------------------ furnishing

    def add_template(self, vmid: int = 9000, node: str = "", **details: Any) -> Vm:
        return self.stock.add_template(vmid, node or next(iter(self.cluster.nodes)), **details)

    def add_vm(self, vmid: int, node: str = "", **details: Any) -> Vm:
        return self.stock.add_vm(vmid, node or next(iter(self.cluster.nodes)), **details)

    def add_inventory(self, seed: int = 1, **shape: Any) -> None:
        """Adds machines that nobody made for a test, by the thousand; `shape` as in `inventory.Shape`."""
        inventory.fill(self.world, inventory.Shape(**shape), seed)

    def add_import(
        self, name: str, size: int, *, node: str = "", path: Path | None = None, storage: str = "vmstore"
    ) -> str:
        """Puts an image under `storage`:import/ and answers its volume id."""
        where = node or next(iter(self.cluster.nodes))
        volid = f"{storage}:import/{name}"
        suffix = name.rsplit(".", 1)[-1]
        self.cluster.storages[storage].on(where)[volid] = Volume(
            volid, "import", suffix, size, self.world.now(where), path=path
        )
        return volid

    def add_storage(self, name: str, kind: str = "dir", **details: Any) -> Storage:
        self.cluster.storages[name] = storage = Storage(name, kind, **details)
        return storage

    def _add_storages(self) -> None:
        self.add_storage(
            "local", content=("images", "vztmpl", "backup", "snippets", "iso", "rootdir"), path="/var/lib/vz"
        )
        self.add_storage(
            "vmstore",
            content=("snippets", "iso", "backup", "import", "vztmpl", "images"),
            path="/var/lib/vmstore",
        )
        self.add_storage("local-lvm", "lvmthin", content=("rootdir", "images"), total=512 * GIB)

    # ------------------------------------------------------------------ breaking

    def kill_guest(self, vmid: int) -> None:
        """Ends a guest as a crash of QEMU: stopped at once, no task, pending changes stay (pve-facts 6.24)."""
        self.operator.kill_guest(vmid)

    def set_node_online(self, node: str, online: bool) -> None:
        self.cluster.nodes[node].online = online

    async def crash_node(self, node: str) -> None:
        """Cuts a node's power; `set_node_online` lets it come back, with no VM running."""
        await self.operator.crash_node(node)

    def set_quorate(self, quorate: bool) -> None:
        self.cluster.quorate = quorate

    def _guest_ended(self, vmid: int) -> None:
        vm = self.cluster.vms.get(vmid)
        if vm and vm.running:
            power.ended(self.world, vm, applied=False)
