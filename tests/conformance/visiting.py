"""Why: the driver's conformance runs on clusters that have other VMs, so it is a guest there and behaves as one.

A visit takes VMIDs from the range that it was given and from nowhere else, and does not begin while one of them
is in use. What it makes carries a nonce of this run; at its end it deletes what carries that nonce, looking once
more just before each delete leaves, and reports what does not.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Self, TypeVar

from zone9.pve import tasks, vm, writes
from zone9.pve.client import Client, Endpoint
from zone9.pve.errors import LockTimeout, PveError, Rejected
from zone9.pve.tasks import TaskResult, Upid

NEEDED = 12
PATIENCE = 180.0
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Place:
    """Says which cluster is visited, and what it allows."""

    endpoint: Endpoint
    template: int
    vmids: range
    storage: str | None = None

    @classmethod
    def named(cls, environment: Mapping[str, str]) -> Self | None:
        """Reads `ZONE9_PVE_*`; None when no URL is named, KeyError or ValueError when the rest is not right."""
        url = environment.get("ZONE9_PVE_URL")
        if not url:
            return None
        first, _, last = environment["ZONE9_PVE_VMIDS"].partition("-")
        return cls(
            Endpoint((url,), environment["ZONE9_PVE_TOKEN"], environment["ZONE9_PVE_FINGERPRINT"]),
            int(environment["ZONE9_PVE_TEMPLATE"]),
            range(int(first), int(last) + 1),
            environment.get("ZONE9_PVE_STORAGE") or None,
        )

    def share(self) -> "Place":
        """Is this worker's share of the range, where several processes run the tests at once."""
        count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
        return Place(self.endpoint, self.template, self.vmids[number::count], self.storage)


class InUse(Exception):
    """Says that the range is not free, so that nothing was begun."""


class LeftBehind(Exception):
    """Says which VMs of the range are not ours, or could not be deleted."""


@dataclass
class Ours:
    """Is a permit that reads the marker again before the bytes leave; `marker` None is for what makes a VM."""

    client: Client
    node: str
    vmid: int
    marker: str | None

    async def confirm(self) -> None:
        if self.marker is None:
            return
        found = await vm.read_identity(self.client, self.node, self.vmid)
        if isinstance(found, vm.Identity) and found.marker != self.marker:
            raise LeftBehind(f"VM {self.vmid} is not ours: {found.marker}")

    def still_fresh(self) -> None: ...


@dataclass
class Visit:
    """Is one run's stay on a cluster."""

    place: Place
    node: str = ""
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    taken: list[int] = field(default_factory=list)
    clones: dict[int, Upid] = field(default_factory=dict)
    patience: float = PATIENCE

    async def begin(self, client: Client) -> None:
        """Finds the template. Raises InUse unless the whole range is free."""
        if len(self.place.vmids) < NEEDED:
            raise InUse(f"the range needs {NEEDED} numbers for each process, it has {len(self.place.vmids)}")
        node = await vm.locate(client, self.place.template)
        if node is None:
            raise InUse(f"no template {self.place.template} is visible")
        self.node = node
        for vmid in self.place.vmids:
            try:  # nextid knows every VM and container, also those that the token may not see
                await client.get("/cluster/nextid", vmid=vmid)
            except Rejected as error:
                raise InUse(f"number {vmid} is in use; this run takes only a range that is free") from error

    def take(self) -> int:
        """Returns a number of the range that this run has not had."""
        vmid = self.place.vmids[len(self.taken)]
        self.taken.append(vmid)
        return vmid

    def marker(self, vmid: int) -> str:
        return f"zone9:conformance-{vmid}:{self.nonce}"

    def permit(self, client: Client, vmid: int) -> Ours:
        return Ours(client, self.node, vmid, self.marker(vmid))

    async def end(self, client: Client) -> None:
        """Deletes every VM of this run. Raises LeftBehind, with the reasons, after it has tried all."""
        reasons = []
        for vmid in self.taken:
            try:
                await self._remove(client, vmid)
            except (PveError, LeftBehind) as error:
                reasons.append(f"{vmid}: {getattr(error, 'internal', '') or error}")
        if reasons:
            raise LeftBehind("; ".join(reasons))

    async def _remove(self, client: Client, vmid: int) -> None:
        permit = self.permit(client, vmid)
        clone = self.clones.get(vmid)
        if clone is not None and (await tasks.task_status(client, clone)).status == "running":
            await tasks.stop(client, clone, Ours(client, self.node, vmid, None))
            await tasks.wait(client, clone, PATIENCE)
        found = await self._settled(client, vmid)
        if found is None:
            return
        where = {"node": self.node, "vmid": vmid}
        if found.running:
            await done(client, lambda: writes.stop(client, permit, **where))
        result = await done(client, lambda: writes.delete(client, permit, **where))
        if not result.ok:
            raise LeftBehind(f"it could not be deleted: {result.exitstatus}")

    async def _settled(self, client: Client, vmid: int) -> vm.VmReading | None:
        """Waits for a clone whose answer was lost: it can be deleted once it says whose it is and is whole."""
        end = time.monotonic() + self.patience
        while True:
            found = await vm.read_vm(client, self.node, vmid)
            if isinstance(found, vm.Absent):
                return None
            if isinstance(found, vm.VmReading):
                if found.marker != self.marker(vmid):
                    raise LeftBehind(f"it is not ours: {found.marker}")
                if found.lock is None:
                    return found
            if time.monotonic() > end:
                raise LeftBehind("it is not whole, and its task is not known")
            await asyncio.sleep(0.3)


async def done(
    client: Client, ask: Callable[[], Awaitable[Upid | None]], patience: float = PATIENCE
) -> TaskResult:
    """Makes a write and waits for its task, again while Proxmox's own clean-up holds the VM's lock."""
    end = time.monotonic() + patience
    while True:
        try:
            upid = await ask()
            assert upid is not None
            result = await tasks.wait(client, upid, patience)
            if not isinstance(result.error, LockTimeout) or time.monotonic() > end:
                return result
        except LockTimeout:
            if time.monotonic() > end:
                raise
        await asyncio.sleep(0.3)


async def eventually(
    ask: Callable[[], Awaitable[Answer]], holds: Callable[[Answer], object], patience: float = 60.0
) -> Answer:
    """Asks until the answer is as wanted, because lists lag; fails with the last answer."""
    end = time.monotonic() + patience
    while True:
        answer = await ask()
        if holds(answer):
            return answer
        assert time.monotonic() < end, answer
        await asyncio.sleep(0.2)
