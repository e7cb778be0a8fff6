"""Whose each VM is, from what happened in the sandbox alone, and a judgement of every write that reaches it.

A VM is an object of the sandbox, so a number that is used again is another VM. zone9 is the only client of the API:
what no deed of an operator has made was made by zone9, for the server that its clone's description named.
"""

import re
from collections import deque
from dataclasses import dataclass, field

from honesty.truth import Snapshot, snapshot
from zone9.sandbox import Sandbox
from zone9.sandbox.journal import Asked
from zone9.sandbox.state import Vm

VM_PATH = re.compile(r"/nodes/([^/]+)/qemu/(\d+)(/.*)?")
TASK_PATH = re.compile(r"/nodes/[^/]+/tasks/(.+)")
MARK = re.compile(r"zone9:(srv_[0-9a-z]+):")
TEMPLATE = 9000


@dataclass
class Wanted:
    """Is what people have asked of one server, as the test knows it."""

    power: set[str] = field(default_factory=lambda: {"on"})
    restarts: int = 0
    deleting: bool = False


@dataclass
class Met:
    """Is one request as it arrived: which VM had the number then, whose it was, and how it was."""

    asked: Asked
    vm: Vm | None
    owner: str | None
    seen: Snapshot | None
    numbers: frozenset[int]  # at which zone9 had made a VM by then


class _Listening(deque[Asked]):
    """Is the sandbox's list of requests, which tells of each as it arrives."""

    def __init__(self, book: "Book") -> None:
        super().__init__(maxlen=50_000)
        self._book = book

    def append(self, asked: Asked) -> None:
        super().append(asked)
        self._book.meet(asked)


class Book:
    """Keeps births, owners and requests of one sandbox."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.wanted: dict[str, Wanted] = {}
        self.met: list[Met] = []
        self._kept: dict[int, Vm] = {}  # held, so that an object's id stands for it alone
        self._owner: dict[int, str] = {}
        self._numbers: frozenset[int] = frozenset()
        self._reboots: dict[str, int] = {}
        for vm in sandbox.vms.values():
            self.stranger(vm)
        sandbox.journal.requests = _Listening(self)

    # -- whose ------------------------------------------------------------------------------------------

    def stranger(self, vm: Vm) -> None:
        """Notes a VM that somebody else has made."""
        self._kept[id(vm)] = vm

    def give(self, vm: Vm, server: str) -> None:
        """Notes that a VM is a server's: it was told to take it over, or it was restored in its place."""
        self._kept[id(vm)] = vm
        self._owner[id(vm)] = server

    def take(self, server: str) -> None:
        """Notes that a server has let go of its VM."""
        self._owner = {key: one for key, one in self._owner.items() if one != server}

    def owner(self, vm: Vm | None) -> str | None:
        return None if vm is None else self._owner.get(id(vm))

    def living(self, server: str) -> list[Vm]:
        """Returns the VMs of a server that are there."""
        return [vm for vm in self.sandbox.vms.values() if self.owner(vm) == server]

    def strangers(self) -> list[Vm]:
        return [vm for vm in self.sandbox.vms.values() if self.owner(vm) is None and vm.vmid != TEMPLATE]

    # -- requests ---------------------------------------------------------------------------------------

    def meet(self, asked: Asked) -> None:
        found = VM_PATH.fullmatch(asked.path)
        vm = self.sandbox.vms.get(int(found[2])) if found else None
        self._births()
        seen = None if vm is None else snapshot(vm)
        self.met.append(Met(asked, vm, self.owner(vm), seen, self._numbers))

    def _births(self) -> None:
        for vm in list(self.sandbox.vms.values()):
            if id(vm) not in self._kept:
                self.give(vm, self._named(vm))
                self._numbers |= {vm.vmid}

    def _named(self, vm: Vm) -> str:
        for met in reversed(self.met):
            body = met.asked.body
            if met.asked.path.endswith("/clone") and str(body.get("newid")) == str(vm.vmid):
                found = MARK.match(str(body.get("description", "")))
                return found[1] if found else "nobody"
        return "nobody"

    def judge(self) -> list[str]:
        """Returns what was wrong with the writes since the last time, and forgets the requests."""
        self._births()
        found = [wrong for met in self.met if met.asked.method != "GET" and (wrong := self._wrong(met))]
        several = {server: there for server in self.wanted if len(there := self.living(server)) > 1}
        found += [
            f"{server} has the VMs {sorted(vm.vmid for vm in there)}" for server, there in several.items()
        ]
        self.met.clear()
        return found

    def _wrong(self, met: Met) -> str | None:
        asked, said = met.asked, f"{met.asked.method} {met.asked.path}"
        if asked.status in {400, 401, 403, 501}:
            return None  # nothing came of it
        if TASK_PATH.fullmatch(asked.path):
            return None if ":qmclone:" in asked.path else f"{said}: stops a task that is no clone"
        found = VM_PATH.fullmatch(asked.path)
        if found is None:
            return f"{said}: writes to what is no VM"
        vmid, act = int(found[2]), found[3] or ""
        if act == "/clone":
            return self._wrong_clone(vmid, met, said)
        if met.vm is None:
            return None
        if met.owner is None or met.owner not in self.wanted:
            return f"{said}: the VM is not zone9's"
        return self._wrong_act(met.owner, act, asked, said)

    def _wrong_clone(self, source: int, met: Met, said: str) -> str | None:
        newid = int(met.asked.body.get("newid", 0))
        if source != TEMPLATE or not 10_000 <= newid < 11_000:
            return f"{said}: clones {source} to {newid}"
        if newid in met.numbers and met.asked.applied:
            return f"{said}: uses the number {newid} again"
        return None

    def _wrong_act(self, server: str, act: str, asked: Asked, said: str) -> str | None:
        wanted = self.wanted[server]
        set_to_1 = {key for key, value in asked.params.items() if str(value) == "1"}
        if set_to_1 & {"skiplock", "force"}:
            return f"{said}: forces"
        if asked.method == "DELETE" and not wanted.deleting:
            return f"{said}: nobody asked for its end"
        if act in {"/status/stop", "/status/shutdown"} and "off" not in wanted.power and not wanted.deleting:
            return f"{said}: nobody asked for it to be off"
        if act == "/status/start" and "on" not in wanted.power:
            return f"{said}: nobody asked for it to be on"
        if act == "/status/reboot" and asked.applied:
            self._reboots[server] = self._reboots.get(server, 0) + 1
            if self._reboots[server] > wanted.restarts:
                return f"{said}: restarted {self._reboots[server]} times, asked {wanted.restarts}"
        if act in {"/status/reset", "/status/suspend", "/migrate", "/template", "/move_disk"}:
            return f"{said}: nobody can ask for that"
        return None

    def reads_of(self, vm: Vm) -> tuple[Snapshot | None, bool | None]:
        """Returns the VM as the last readings since the last judgement met it, after the last write to it.

        The first is its config with what is pending, the second whether it ran; None where that was not read.
        """
        config: Snapshot | None = None
        running: bool | None = None
        for met in self.met:
            found = VM_PATH.fullmatch(met.asked.path)
            if met.vm is not vm or found is None or met.seen is None:
                continue
            if met.asked.method != "GET":
                config = running = None
            elif met.asked.fault is None and met.asked.status == 200 and found[3] == "/pending":
                config = met.seen
            elif met.asked.fault is None and met.asked.status == 200 and found[3] == "/status/current":
                running = met.seen.running
        return config, running
