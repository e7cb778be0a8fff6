"""Guests that are real QEMU processes, so that "it runs" can be measured from outside.

Every guest boots the tiny guest with the SMBIOS values, NICs, disks and cloud-init drive of its spec, without
privileges and without a way out of the machine. Two things are not as asked, so that a host survives a sandbox of
large servers: memory and cores are capped (`Caps`), and only `limit` guests run at once.
"""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path

from zone9.sandbox.guests import accelerator, command, drive, missing, tiny
from zone9.sandbox.guests.child import Child
from zone9.sandbox.guests.networks import Network, Networks
from zone9.sandbox.guests.qmp import Qmp, QmpError
from zone9.sandbox.guests.rundir import RunDirectory
from zone9.sandbox.guests.seam import Disk, GuestSpec, StartFailed

CONSOLE_BYTES = 256 * 1024
CONSOLES_KEPT = 32
PRESS_AGAIN = 2.0  # seconds; a press before the guest has booted is lost


def _nobody(vmid: int) -> None:
    """Is what `on_exit` is until somebody listens."""


class _Guest:
    """Is one running guest; its end is nobody's wish while `wishes` is 0."""

    def __init__(self, spec: GuestSpec, child: Child, qmp: Qmp) -> None:
        self.spec, self.child, self.qmp = spec, child, qmp
        self.wishes = 0
        self.page: int | None = None
        self.page_network: Network | None = None
        self.ended: asyncio.Task[None]


class QemuGuests:
    """Is `Guests` with processes; make it with `QemuGuests.prepare`, which builds what is not cached yet."""

    needs_files = True

    def __init__(
        self,
        image: tiny.Tiny,
        *,
        limit: int = 8,
        caps: command.Caps | None = None,
        on_exit: Callable[[int], None] = _nobody,
        directory: Path | None = None,
    ) -> None:
        self.on_exit = on_exit
        self._image, self._limit, self._caps = image, limit, caps or command.Caps()
        self._run = RunDirectory(directory)
        self._networks = Networks(self._run.path)
        self._guests: dict[int, _Guest] = {}
        self._starting: set[int] = set()
        self._settled = asyncio.Event()
        self._closed = False
        self._consoles: dict[int, bytes] = {}
        self._accelerator: tuple[str, ...] | None = None
        self._choosing = asyncio.Lock()

    @classmethod
    async def prepare(
        cls,
        *,
        cache: Path | None = None,
        kernel: Path | None = None,
        limit: int = 8,
        caps: command.Caps | None = None,
        on_exit: Callable[[int], None] = _nobody,
    ) -> "QemuGuests":
        """Raises Missing, naming Debian packages, when this host cannot run guests."""
        missing.check()
        image = await asyncio.to_thread(tiny.ready, cache, kernel)
        return cls(image, limit=limit, caps=caps, on_exit=on_exit)

    # ------------------------------------------------------------------ verbs

    async def start(self, spec: GuestSpec) -> None:
        if spec.vmid in self._guests or spec.vmid in self._starting:
            raise StartFailed(f"VM {spec.vmid} already running")
        if self._closed:
            raise StartFailed("start failed: the sandbox is closing")
        if len(self._guests) + len(self._starting) >= self._limit:
            raise StartFailed(f"start failed: this sandbox runs at most {self._limit} guests at once")
        self._starting.add(spec.vmid)
        self._settled.clear()
        try:
            await self._start(spec)
        except (OSError, ValueError, QmpError) as error:
            await self._leave(spec.vmid)
            raise StartFailed(f"start failed: {error}") from error
        except BaseException:
            await self._leave(spec.vmid)
            raise
        finally:
            self._starting.discard(spec.vmid)
            if not self._starting:
                self._settled.set()

    async def _start(self, spec: GuestSpec) -> None:
        path = self._drive_path(spec.vmid) if spec.cloudinit else None
        if path:
            await asyncio.to_thread(drive.write, path, drive.texts(spec))
        chosen = await self._accelerated()
        networks = await self._networks.join(spec.vmid, spec.nics)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                argv = command.argv(
                    spec,
                    self._image,
                    switches={index: network.path.name for index, network in networks.items()},
                    drive=path,
                    monitor=theirs.fileno(),
                    caps=self._caps,
                    accelerator=chosen,
                )
                child = await Child.start(
                    argv,
                    self._run.path,
                    descriptors=[theirs.fileno()],
                    output_limit=CONSOLE_BYTES,
                    listens=True,
                )
        except BaseException:
            ours.close()
            raise
        try:
            qmp = await Qmp.open(ours)
        except QmpError as error:
            await child.kill()
            raise QmpError(child.said) from error
        except BaseException:
            await child.kill()
            raise
        guest = _Guest(spec, child, qmp)
        try:
            await self._wire(guest, networks)
        except BaseException:
            await qmp.close()
            await child.kill()
            raise
        self._consoles.pop(spec.vmid, None)
        self._guests[spec.vmid] = guest
        guest.ended = asyncio.create_task(self._watch(guest))

    async def _wire(self, guest: _Guest, networks: dict[int, Network]) -> None:
        for nic in guest.spec.nics:
            if nic.link_down:
                await guest.qmp.execute("set_link", {"name": f"net{nic.index}", "up": False})
        for disk in await _grown(guest):
            await self._resize(guest, disk.slot, disk.size)
        found = drive.first_address(guest.spec)
        if found is not None:
            nic, address = found
            guest.page_network = networks[nic.index]
            guest.page = await self._forward(networks[nic.index], address)

    async def _forward(self, network: Network, address: ipaddress.IPv4Address) -> int | None:
        """Two guests with the same address on one network both run, as they would; the first has the page."""
        if await network.forwarded(address) is not None:
            return None
        return await network.forward(address)

    async def stop(self, vmid: int) -> None:
        guest = self._guests.get(vmid)
        if guest is not None:
            guest.wishes += 1
            await guest.child.kill()
            await asyncio.shield(guest.ended)

    async def shutdown(self, vmid: int, timeout: float) -> bool:  # noqa: ASYNC109 - Proxmox's own parameter
        guest = self._guests.get(vmid)
        if guest is None:
            return True
        guest.wishes += 1
        try:
            async with asyncio.timeout(timeout):
                while not guest.ended.done():
                    with contextlib.suppress(QmpError):  # It is going, or busy; the process decides.
                        await guest.qmp.execute("system_powerdown")
                    await asyncio.wait([guest.ended], timeout=PRESS_AGAIN)
        except TimeoutError:
            guest.wishes -= 1
        return guest.ended.done()

    async def reset(self, vmid: int) -> None:
        await self._tell(vmid, "system_reset")

    async def pause(self, vmid: int) -> None:
        await self._tell(vmid, "stop")

    async def resume(self, vmid: int) -> None:
        await self._tell(vmid, "cont")

    async def grow(self, vmid: int, slot: str, size: int) -> None:
        guest = self._guests.get(vmid)
        if guest is not None and any(disk.slot == slot for disk in guest.spec.disks):
            await self._resize(guest, slot, size)

    async def _resize(self, guest: _Guest, slot: str, size: int) -> None:
        with contextlib.suppress(QmpError):  # a size that this host's files cannot have stays a number
            await guest.qmp.execute("block_resize", {"node-name": f"disk-{slot}", "size": size})

    # ------------------------------------------------------------------ looking

    def running(self, vmid: int) -> bool:
        return vmid in self._guests

    def pid(self, vmid: int) -> int | None:
        guest = self._guests.get(vmid)
        return guest.child.pid if guest else None

    def page_url(self, vmid: int) -> str | None:
        guest = self._guests.get(vmid)
        return f"http://127.0.0.1:{guest.page}/" if guest and guest.page else None

    def console(self, vmid: int) -> bytes:
        guest = self._guests.get(vmid)
        return bytes(guest.child.output) if guest else self._consoles.get(vmid, b"")

    def console_end(self, vmid: int) -> int:
        guest = self._guests.get(vmid)
        return guest.child.output.total if guest else len(self._consoles.get(vmid, b""))

    def type_in(self, vmid: int, data: bytes) -> None:
        guest = self._guests.get(vmid)
        if guest is not None:
            guest.child.say(data)

    def processes(self) -> dict[str, int]:
        """Answers every process id by what it is: guests, switches and host ports."""
        guests = {f"guest {vmid}": guest.child.pid for vmid, guest in self._guests.items()}
        return guests | self._networks.processes()

    async def close(self) -> None:
        """Ends every process and removes every file; calling it again does nothing."""
        self._closed = True
        if self._starting:
            await self._settled.wait()
        await asyncio.gather(*(self.stop(vmid) for vmid in list(self._guests)))
        self._run.close()

    # ------------------------------------------------------------------ inside

    async def _accelerated(self) -> tuple[str, ...]:
        async with self._choosing:
            if self._accelerator is None:
                self._accelerator = await accelerator.choose(self._image, self._run.path)
            return self._accelerator

    async def _tell(self, vmid: int, verb: str) -> None:
        guest = self._guests.get(vmid)
        if guest is not None:
            with contextlib.suppress(QmpError):  # A guest that died meanwhile is reported by its watcher.
                await guest.qmp.execute(verb)

    async def _watch(self, guest: _Guest) -> None:
        """Waits for the process, clears up after it, and says so when nobody had asked for its end."""
        vmid = guest.spec.vmid
        await asyncio.shield(guest.child.gone)
        await guest.qmp.close()
        if guest.page_network is not None and guest.page is not None:
            await guest.page_network.unforward(guest.page)
        await self._leave(vmid)
        self._consoles[vmid] = bytes(guest.child.output)
        while len(self._consoles) > CONSOLES_KEPT:
            del self._consoles[next(iter(self._consoles))]
        del self._guests[vmid]
        if not guest.wishes:
            self.on_exit(vmid)

    async def _leave(self, vmid: int) -> None:
        await self._networks.leave(vmid)
        self._drive_path(vmid).unlink(missing_ok=True)

    def _drive_path(self, vmid: int) -> Path:
        return self._run.path / f"cidata-{vmid}.iso"


async def _grown(guest: _Guest) -> list[Disk]:
    """Answers the disks that grew while the guest was off: their files are still as small as they were."""
    disks = [disk for disk in guest.spec.disks if disk.path is not None]
    if not disks:
        return []
    nodes = await guest.qmp.execute("query-named-block-nodes", {"flat": True})
    sizes = {node["node-name"]: node["image"]["virtual-size"] for node in nodes}
    return [disk for disk in disks if sizes[f"disk-{disk.slot}"] < disk.size]
