"""What operators do in Proxmox behind zone9's back; what makes a VM tells the book of it."""

import copy

from honesty.scene import NODES, Scene
from honesty.truth import uuid_in
from zone9.pve.selftest import PRIVILEGES
from zone9.sandbox.state import Vm
from zone9.sandbox.vm import power

USERS = ("ayse@pve", "root@pam", "ci@pve!deploy")
EDITS = (
    {"name": "renamed"},
    {"cores": "3"},
    {"memory": "768"},
    {"tags": "theirs"},
    {"tags": ""},
    {"net0": "virtio=02:00:00:00:00:01,bridge=vmbr0"},
    {"description": "notes of mine"},
)


def edit(scene: Scene, vm: Vm, number: int, user: str) -> None:
    """Changes a setting in Proxmox's panel."""
    scene.sandbox.operator.set(vm.vmid, user=user, **EDITS[number % len(EDITS)])


def edit_file(scene: Scene, vm: Vm, number: int) -> None:
    """Changes a setting in the config file, which no list tells of."""
    scene.sandbox.operator.edit_file(vm.vmid, **EDITS[number % len(EDITS)])


async def switch(scene: Scene, vm: Vm, user: str) -> None:
    operator = scene.sandbox.operator
    if vm.running is None:
        await operator.start(vm.vmid, user=user)
    else:
        await operator.stop(vm.vmid, user=user)


async def move(scene: Scene, vm: Vm) -> None:
    await scene.sandbox.operator.migrate(vm.vmid, next(node for node in NODES if node != vm.node))


async def destroy(scene: Scene, vm: Vm, user: str) -> None:
    await scene.sandbox.operator.delete(vm.vmid, user=user)


async def remove_file(scene: Scene, vm: Vm) -> None:
    """Ends a VM without a trace in any log."""
    await scene.sandbox.guests.stop(vm.vmid)
    scene.sandbox.operator.forget(vm.vmid)


def stranger(scene: Scene, vmid: int, *, running: bool = False) -> Vm:
    """Makes a VM of somebody else's."""
    vm = scene.sandbox.operator.create_stranger(vmid, name=f"theirs-{vmid}", disk="8G", running=running)
    scene.book.stranger(vm)
    return vm


def duplicate(scene: Scene, vm: Vm, vmid: int, *, same_identity: bool) -> None:
    """Makes a copy of a VM under another number, as a restore (the same uuid) or a clone (another) does."""
    made = stranger(scene, vmid)
    volumes = f"vm-{vm.vmid}-"  # a copy has its own, or none
    values = {
        key: value for key, value in vm.file.values.items() if key != "smbios1" and volumes not in value
    }
    scene.sandbox.operator.edit_file(vmid, **values)
    if same_identity and uuid_in(vm):
        scene.sandbox.operator.edit_file(vmid, smbios1=vm.file.values["smbios1"])
    made.file.values.pop("lock", None)


async def restore(scene: Scene, vm: Vm) -> None:
    """Puts a backup in a VM's place: the same number and identity, other settings, and switched off."""
    owner = scene.book.owner(vm)
    await scene.sandbox.guests.stop(vm.vmid)
    if vm.running is not None:
        power.ended(scene.sandbox.world, vm, applied=True)
    made = copy.deepcopy(vm)
    made.file.put("memory", "640")
    for key in ("tags", "lock"):
        made.file.values.pop(key, None)
    scene.sandbox.vms[vm.vmid] = made
    scene.sandbox.cluster.version += 1
    if owner is None:
        scene.book.stranger(made)
    else:
        scene.book.give(made, owner)


async def take_number(scene: Scene, vm: Vm) -> None:
    """Destroys a VM and gives its number to another."""
    await scene.sandbox.operator.delete(vm.vmid)
    stranger(scene, vm.vmid, running=True)


def lock(scene: Scene, vm: Vm) -> None:
    """Locks a VM, as a backup does, for a while."""
    scene.sandbox.operator.set_lock(vm.vmid, "backup")

    def unlock() -> None:
        if scene.sandbox.vms.get(vm.vmid) is vm:
            scene.sandbox.operator.set_lock(vm.vmid, None)

    scene.heal_in(3, unlock)


def lose_audit(scene: Scene) -> None:
    """Takes VM.Audit from the token for a while: everything becomes invisible."""
    accounts = scene.sandbox.accounts
    accounts.roles["Zone9"] = frozenset(PRIVILEGES) - {"VM.Audit"}
    accounts.changed()

    def again() -> None:
        accounts.roles["Zone9"] = frozenset(PRIVILEGES)
        accounts.changed()

    scene.heal_in(4, again)


def node_away(scene: Scene, node: str) -> None:
    scene.sandbox.set_node_online(node, False)
    scene.heal_in(4, lambda: scene.sandbox.set_node_online(node, True))


def quorum_lost(scene: Scene) -> None:
    scene.sandbox.set_quorate(False)
    scene.heal_in(4, lambda: scene.sandbox.set_quorate(True))


def fault(scene: Scene, kind: str, method: str, after: int) -> None:
    """Lets a coming request go wrong."""
    scene.sandbox.faults.add(kind, method, "*/qemu/*" if method == "GET" else "*", times=1, after=after)
    scene.heal_in(6, scene.sandbox.faults.clear)
