"""What else is done to a VM: template, resize, unlink, migrate, and asking its agent."""

from typing import Any

from zone9.sandbox.answers import PveError, bad
from zone9.sandbox.call import Call
from zone9.sandbox.state import Vm
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import disks, update
from zone9.sandbox.vm import values as text


async def template(call: Call) -> Any:
    """Serves POST template: `vm-` volumes become `base-` ones (pve-facts 6.18)."""
    vm = call.vm
    if vm.file.snapshots:
        raise PveError("unable to create template, because VM contains snapshots")
    if vm.is_template:
        raise PveError("you can't convert a template to a template")
    if vm.running:
        raise PveError("you can't convert a VM to template if VM is running")
    if vm.lock:
        raise PveError(f"VM is locked ({vm.lock})")

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            disky = any(text.is_disk(key) for key in call.vm.config)
            await call.world.clock.sleep(call.world.durations.template if disky else 0.0)
            make_template(call.vm, lambda volid: call.world.cluster.volume(call.node, volid), call)

    return call.fork("qmtemplate", call.vmid, worker)


def make_template(vm: Vm, find: Any, call: Any) -> None:
    """Sets the flag and renames the disks."""
    vm.file.put("template", "1")
    world = call.world
    for key in [key for key in vm.config if text.is_disk(key) and not text.is_cdrom(vm.config[key])]:
        drive = text.parse_drive(vm.config[key])
        volume = find(drive["file"])
        if volume is None:
            continue
        storage = world.storage(drive["file"].split(":", 1)[0])
        volumes = storage.on(vm.node)
        del volumes[volume.volid]
        # A linked clone's own part is what becomes the base.
        head, _, tail = volume.volid.rpartition("/")
        volume.volid = (f"{head}/" if head else "") + tail.replace("vm-", "base-", 1)
        volumes[volume.volid] = volume
        drive["file"] = volume.volid
        vm.file.put(key, text.print_drive(drive))


async def resize(call: Call) -> Any:
    """Serves PUT resize: everything that is wrong shows in the task (pve-facts 6.15, 6.16)."""
    if call.flag("skiplock") and not call.is_root:
        raise bad({"skiplock": "Only root may use this option."})
    key, size = str(call.params["disk"]), str(call.params["size"])

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            vm = call.vm
            digest = call.params.get("digest")
            if digest and digest != vm.file.digest:
                raise PveError(update.DIGEST_MISMATCH)
            if vm.lock:
                raise PveError(f"VM is locked ({vm.lock})")
            if key not in vm.config:
                raise PveError(f"disk '{key}' does not exist")
            drive = text.parse_drive(vm.config[key])
            if drive.get("media") == "cdrom":
                raise PveError("you can't resize a cdrom")
            volume = call.world.cluster.volume(vm.node, drive["file"])
            if volume is None:
                raise PveError(f"volume '{drive['file']}' does not exist")
            if vm.running and key in vm.file.pending and drive["file"] not in vm.file.pending[key]:
                await call.world.clock.sleep(call.world.durations.resize)
                raise PveError(f"no block node inserted for drive '{key}'")
            call.world.must_write(vm)
            wanted = text.parse_size(size.removeprefix("+")) + (volume.size if size.startswith("+") else 0)
            if wanted == volume.size:
                return
            await call.world.clock.sleep(call.world.durations.resize)
            if wanted < volume.size:
                raise PveError("shrinking disks is not supported")
            call.world.tasks.record(
                call.node, call.user, f"update VM {vm.vmid}: resize --disk {key} --size {size}"
            )
            await call.world.clock.sleep(call.world.durations.resize)
            volume.size = wanted
            drive["size"] = text.print_size(wanted)
            vm.file.put(key, text.print_drive(drive))
            if vm.running:
                await call.world.guests.grow(vm.vmid, key, wanted)

    return call.fork("resize", call.vmid, worker)


async def unlink(call: Call) -> Any:
    """Serves PUT unlink: a config update that deletes."""
    call.raw["delete"] = call.raw.pop("idlist")
    call.params["delete"] = call.params.pop("idlist")
    return await update.update(call, sync=True)


async def migrate(call: Call) -> Any:
    """Serves POST migrate; only its outcome is modelled, not the copying (no recording covers a second node)."""
    target = str(call.params["target"])
    if target == call.node:
        raise bad({"target": "target is local node."})
    vm = call.vm
    if target not in call.world.cluster.nodes:
        raise PveError(f"no such cluster node '{target}'")
    if vm.running and not call.flag("online"):
        raise PveError("can't migrate running VM without --online")

    async def worker(task: Task) -> None:
        vm = call.vm
        async with call.world.locks.hold(call.vmid, log=task.log):
            if vm.lock:
                raise PveError(f"VM is locked ({vm.lock})")
            vm.file.put("lock", "migrate")
            await call.world.clock.sleep(call.world.durations.migrate)
            move(call.world, vm, target)

    return call.fork("qmigrate", call.vmid, worker)


def move(world: Any, vm: Vm, target: str) -> None:
    """Puts a VM and its local volumes on another node."""
    for volid in disks.all_volumes(vm):
        storage = world.cluster.storages.get(volid.split(":", 1)[0])
        if storage and not storage.shared and volid in storage.on(vm.node):
            storage.on(target)[volid] = storage.on(vm.node).pop(volid)
    vm.file.values.pop("lock", None)
    vm.file.touch()
    vm.node = target
    world.cluster.version += 1


async def agent(call: Call) -> dict[str, Any]:
    """Asks the guest agent, which in most guests here is not running (pve-facts 6.23)."""
    vm = call.vm
    if not vm.config.get("agent", "0").removeprefix("enabled=").startswith("1"):
        raise PveError("No QEMU guest agent configured")
    if not vm.running:
        raise PveError(f"VM {vm.vmid} is not running")
    if not vm.agent_running:
        await call.world.clock.sleep(call.world.durations.agent_timeout)
        raise PveError("QEMU guest agent is not running")
    return {}


def interfaces(vm: Vm) -> list[dict[str, Any]]:
    """Answers the NICs of the config with their static addresses."""
    found = []
    for key in sorted(key for key in vm.config if text.NET_KEY.fullmatch(key)):
        ip = text.parse_property_string(vm.config.get(f"ipconfig{key[3:]}", "")).get("ip", "")
        addresses = []
        if "/" in ip:
            address, _, prefix = ip.partition("/")
            addresses = [{"ip-address": address, "ip-address-type": "ipv4", "prefix": int(prefix)}]
        mac = text.parse_nic(vm.config[key])["macaddr"].lower()
        found.append({"name": f"eth{key[3:]}", "hardware-address": mac, "ip-addresses": addresses})
    return found
