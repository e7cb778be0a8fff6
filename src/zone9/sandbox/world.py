"""The parts of one sandbox, held together for whoever serves a call; no behaviour but looking things up."""

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from zone9.sandbox.accounts import Accounts
from zone9.sandbox.answers import PveError, no_config
from zone9.sandbox.clock import Clock
from zone9.sandbox.consoles import Consoles
from zone9.sandbox.durations import Durations
from zone9.sandbox.faults import Faults
from zone9.sandbox.guests.seam import Guests
from zone9.sandbox.journal import Journal
from zone9.sandbox.locks import ConfigLocks
from zone9.sandbox.state import Cluster, Node, Storage, Vm
from zone9.sandbox.stored import Files
from zone9.sandbox.tasks import Tasks

RELEASE = "9.2"
VERSION = "9.2.11"
REPOID = "14a22df3"
QEMU = "10.1.2"


@dataclass(slots=True)
class World:
    """Is one sandbox from the inside."""

    clock: Clock
    cluster: Cluster
    accounts: Accounts
    tasks: Tasks
    locks: ConfigLocks
    faults: Faults
    journal: Journal
    guests: Guests
    durations: Durations
    random: random.Random
    files: Files
    consoles: Consoles
    fingerprint: str = ""
    certificate: str = ""
    background: set["asyncio.Task[Any]"] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)
    # What pvestatd told last, by VMID; used while lists lag.
    told: dict[int, dict[str, Any]] = field(default_factory=dict)
    rounds: int = 0
    # Since when there are graphs, by VMID; they outlive the VM.
    graphed: dict[int, float] = field(default_factory=dict)

    def vm(self, vmid: int, node: str) -> Vm:
        """Answers a VM that is on this node, or says that its config does not exist."""
        vm = self.cluster.vms.get(vmid)
        if vm is None or vm.node != node:
            raise no_config(node, vmid)
        return vm

    def must_write(self, vm: Vm) -> None:
        """Refuses to write a config where /etc/pve is read-only for want of a quorum (pmxcfs)."""
        if not self.cluster.quorate:
            path = f"/etc/pve/nodes/{vm.node}/qemu-server/{vm.vmid}.conf.tmp"
            raise PveError(f"unable to open file '{path}.{self.node(vm.node).new_pid()}' - Permission denied")

    def node(self, name: str) -> Node:
        return self.cluster.nodes[name]

    def storage(self, name: str, node: str | None = None) -> Storage:
        storage = self.cluster.storages.get(name)
        if storage is None:
            raise PveError(f"storage '{name}' does not exist")
        if node is not None and not storage.available_on(node):
            raise PveError(f"storage '{name}' is not available on node '{node}'")
        return storage

    def now(self, node: str) -> int:
        return self.tasks.node_time(self.cluster.nodes[node])

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Runs something that outlives its request."""
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)
        return task
