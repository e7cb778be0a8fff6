"""Somebody else at work: what an operator does in Proxmox's own panel, as root@pam.

Each deed leaves what it would leave: a row in the cluster log, a task, a new digest. Nothing is checked for
permission, and nothing waits.
"""

from typing import Any

from zone9.sandbox.answers import no_config
from zone9.sandbox.state import Vm
from zone9.sandbox.stock import Stock
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import change, delete, hotplug, power
from zone9.sandbox.vm import values as text
from zone9.sandbox.world import World

ROOT = "root@pam"


class Operator:
    """Acts on VMs past the API."""

    def __init__(self, world: World, stock: Stock) -> None:
        self._world = world
        self._stock = stock

    def _vm(self, vmid: int) -> Vm:
        vm = self._world.cluster.vms.get(vmid)
        if vm is None:
            raise no_config("?", vmid)
        return vm

    async def _task(self, vm: Vm, kind: str, body: Any, user: str) -> Task:
        task = self._world.tasks.start(vm.node, kind, str(vm.vmid), user, body)
        if self._world.clock.leaps:
            await task.done.wait()
        return task

    def set(self, vmid: int, *, delete: tuple[str, ...] = (), user: str = ROOT, **config: Any) -> None:
        """Edits a config as a PUT by another user: live keys at once, the others pending on a running VM."""
        vm = self._vm(vmid)
        values = {key.replace("_", "-"): str(value) for key, value in config.items()}
        said = " ".join(f"-{key} {values[key]}" for key in sorted(values))
        said += "".join(f" -delete {key}" for key in delete)
        self._world.tasks.record(vm.node, user, f"update VM {vmid}: {said.strip()}")
        for key, value in values.items():
            vm.file.pending[key] = text.unique_tags(value, {}) if key == "tags" else value
        for key in delete:
            vm.file.pending.pop(key, None)
            vm.file.deleting[key] = False
        vm.file.clean_pending()
        if vm.running:
            hotplug.apply_running(self._world, vm, {*values, *delete}, {})
        else:
            hotplug.apply_stopped(self._world, vm)

    def edit_file(self, vmid: int, **config: Any) -> None:
        """Writes into the config file itself: no log, no pending, nothing but a new digest."""
        vm = self._vm(vmid)
        for key, value in config.items():
            vm.file.put(key.replace("_", "-"), str(value))

    def set_lock(self, vmid: int, lock: str | None) -> None:
        """Sets or clears the `lock:` line, as a backup or `qm unlock` does."""
        vm = self._vm(vmid)
        if lock is None:
            vm.file.values.pop("lock", None)
            vm.file.touch()
        else:
            vm.file.put("lock", lock)

    async def start(self, vmid: int, *, user: str = ROOT) -> Task:
        vm = self._vm(vmid)
        return await self._task(vm, "qmstart", lambda task: power.start_vm(self._world, vm, task), user)

    async def stop(self, vmid: int, *, user: str = ROOT) -> Task:
        vm = self._vm(vmid)

        async def body(task: Task) -> None:
            await self._world.guests.stop(vmid)
            if vm.running:
                power.ended(self._world, vm, applied=True)

        return await self._task(vm, "qmstop", body, user)

    async def delete(self, vmid: int, *, user: str = ROOT) -> Task:
        """Stops and destroys, whatever its lock or protection."""
        vm = self._vm(vmid)

        async def body(task: Task) -> None:
            await self._world.guests.stop(vmid)
            vm.running = None
            delete.destroy(self._world, vm, unreferenced=True)

        return await self._task(vm, "qmdestroy", body, user)

    async def migrate(self, vmid: int, target: str, *, user: str = ROOT) -> Task:
        vm = self._vm(vmid)

        async def body(task: Task) -> None:
            change.move(self._world, vm, target)

        return await self._task(vm, "qmigrate", body, user)

    def create_stranger(self, vmid: int, node: str = "", **details: Any) -> Vm:
        """Makes a VM that nobody here asked for, with its task."""
        where = node or next(iter(self._world.cluster.nodes))
        vm = self._stock.add_vm(vmid, where, **details)
        vm.created_at = self._world.clock.now()
        self._world.told.pop(vmid, None)

        async def body(task: Task) -> None:
            return None

        self._world.tasks.start(where, "qmcreate", str(vmid), ROOT, body)
        return vm

    def forget(self, vmid: int) -> None:
        """Takes a VM's config away without a trace, as `rm` on the node does."""
        self._world.cluster.vms.pop(vmid, None)
        self._world.cluster.version += 1

    def kill_guest(self, vmid: int) -> None:
        """Ends a guest as a crash of QEMU: stopped at once, no task, pending changes stay."""
        vm = self._vm(vmid)
        if vm.running is None:
            return
        self._world.spawn(self._world.guests.stop(vmid))
        power.ended(self._world, vm, applied=False)

    async def crash_node(self, name: str) -> None:
        """Cuts a node's power: its workers leave everything as it lies, its guests are gone, and it is offline."""
        node = self._world.node(name)
        node.online = False
        node.booted_at = self._world.clock.now()
        for task in [one for one in self._world.tasks.by_upid.values() if one.node == name]:
            await self._world.tasks.kill(task)
        for vm in [one for one in self._world.cluster.vms.values() if one.node == name and one.running]:
            await self._world.guests.stop(vm.vmid)
            vm.running = None

    def fill_storage(self, name: str, free: int = 0) -> None:
        """Leaves so many bytes free on a storage, on the node where it has least."""
        storage = self._world.storage(name)
        used = [storage.used(node) for node in self._world.cluster.nodes if storage.available_on(node)]
        storage.total = max(used, default=0) + free

    def power_off_inside(self, vmid: int) -> None:
        """Lets a guest shut itself down: to Proxmox it looks like a crash."""
        self.kill_guest(vmid)
