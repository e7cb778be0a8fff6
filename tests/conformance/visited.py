"""Why: the driver's conformance asks one VM many things; here is what every test asks in the same way.

A write is made again while Proxmox's own clean-up holds the VM's lock, and a guest that is still booting is asked
again to go: both are what a controller has to do. Nothing is asserted less for it.
"""

import time
from typing import Any

from visiting import PATIENCE, Visit, done

from zone9.pve import tasks, vm, writes
from zone9.pve.client import Client
from zone9.pve.errors import LockTimeout, ShutdownTimeout
from zone9.pve.vm import Absent, Placeholder, VmReading


class Machine:
    """Is one VM of this visit, and its driver's functions with their first arguments given."""

    def __init__(self, pve: Client, visit: Visit, vmid: int) -> None:
        self.pve, self.visit, self.vmid = pve, visit, vmid
        self.permit = visit.permit(pve, vmid)
        self.where: dict[str, Any] = {"node": visit.node, "vmid": vmid}
        self.absent = f"Configuration file 'nodes/{visit.node}/qemu-server/{vmid}.conf' does not exist"

    async def clone(self, *, full: bool = False) -> tasks.Upid:
        upid = await writes.clone(
            self.pve,
            self.permit,
            node=self.visit.node,
            template=self.visit.place.template,
            newid=self.vmid,
            name=f"conformance-{self.vmid}",
            description=self.visit.marker(self.vmid),
            storage=self.visit.place.storage if full else None,
            full=full,
        )
        assert upid is not None
        self.visit.clones[self.vmid] = upid
        return upid

    async def look(self) -> VmReading | Absent | Placeholder:
        return await vm.read_vm(self.pve, self.visit.node, self.vmid)

    async def read(self) -> VmReading:
        found = await self.look()
        assert isinstance(found, VmReading), found
        assert found.marker == self.visit.marker(self.vmid)
        return found

    async def put(self, settings: dict[str, Any], *, delete: tuple[str, ...] = ()) -> VmReading:
        """Writes onto the digest just read, and reads back; again while Proxmox's clean-up has the lock."""
        end = time.monotonic() + PATIENCE
        while True:
            here = await self.read()
            try:
                await writes.set_config(
                    self.pve, self.permit, digest=here.digest, settings=settings, delete=delete, **self.where
                )
            except LockTimeout:
                assert time.monotonic() < end
                continue
            return await self.read()

    async def task(self, write: Any, **details: Any) -> tasks.TaskResult:
        return await done(self.pve, lambda: write(self.pve, self.permit, **self.where, **details))

    async def running(self) -> VmReading:
        assert (await self.task(writes.start)).ok
        found = await self.read()
        assert (found.status, found.qmpstatus) == ("running", "running")
        return found

    async def off(self, write: Any) -> tasks.TaskResult:
        """Asks the guest to go, again while it is still booting and does not hear."""
        for _ in range(6):
            result = await self.task(write, timeout=30)
            if result.ok:
                return result
            assert isinstance(result.error, ShutdownTimeout), result
            assert (await self.read()).running
        raise AssertionError("the guest does not obey its power button")
