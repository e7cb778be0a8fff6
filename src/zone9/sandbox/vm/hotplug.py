"""Pending changes, and which of them a running guest takes at once.

Live: name, tags, description, cloud-init, balloon, limits, NICs and SCSI/virtio disks; pending: everything
that needs a cold start (pve-facts 6.2, memory-cpu 2, nics 1, disks 5). A plug that fails leaves its change
pending and its message in a 400, while the others were done: a partial success.
"""

import re
from collections.abc import Collection, Iterable

from zone9.sandbox.state import Vm
from zone9.sandbox.vm import cloudinit, disks
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import CLOUDINIT_KEYS, IPCONFIG_KEY, stored
from zone9.sandbox.world import World

FAST = frozenset(
    [
        "lock",
        "name",
        "onboot",
        "shares",
        "startup",
        "description",
        "protection",
        "vmstatestorage",
        "hookscript",
        "tags",
        "migrate_downtime",
        "migrate_speed",
        "agent_dummy",
    ]
)
LIVE = frozenset({"balloon", "cpulimit", "cpuunits", "tablet"})
PLUGGABLE_DISK = re.compile(r"(?:scsi|virtio)\d+")
# Drive options that a running disk takes (vmconfig_update_disk); any other makes the line pending.
LIVE_DISK_OPTION = re.compile(r"(?:mbps|iops|bps).*|backup|replicate|size")
REPLUG = ("model", "macaddr", "queues", "host-tunnel", "mtu")


def features(vm: Vm) -> set[str]:
    """Answers what may be plugged; `1` and nothing mean the default three."""
    value = vm.config.get("hotplug", "1")
    if value == "0":
        return set()
    return {"network", "disk", "usb"} if value == "1" else set(text.split_list(value))


def apply_stopped(world: World, vm: Vm, keys: Iterable[str] | None = None) -> None:
    """Makes pending changes the config, as happens when nothing runs and when QEMU ends (vmconfig_apply_pending)."""
    file = vm.file
    wanted = set(keys) if keys is not None else None
    for key in [k for k in sorted(file.deleting) if wanted is None or k in wanted]:
        force = file.deleting.pop(key)
        old = file.values.get(key)
        if old is not None:
            _forget(world, vm, key, old, force=force)
    for key in [k for k in sorted(file.pending) if wanted is None or k in wanted]:
        _set(world, vm, key, file.pending.pop(key))
    file.touch()


def apply_running(world: World, vm: Vm, keys: Collection[str], errors: dict[str, str]) -> float:
    """Gives a running guest what it takes of these keys; answers how many seconds that took."""
    file = vm.file
    plugs = features(vm)
    seconds = 0.0
    for key in sorted(key for key in file.deleting if key in keys):
        took = _unplug(world, vm, key, plugs, errors)
        if took is not None:
            seconds += took
    for key in sorted(key for key in file.pending if key in keys or key in FAST):
        value = file.pending[key]
        if key in FAST or key in LIVE or key in CLOUDINIT_KEYS or IPCONFIG_KEY.fullmatch(key):
            _settle(world, vm, key)
        elif text.NET_KEY.fullmatch(key):
            seconds += _plug_nic(world, vm, key, value, plugs, errors)
        elif text.is_disk(key):
            seconds += _plug_disk(world, vm, key, value, plugs, errors)
        elif key.startswith("usb") and "usb" in plugs:
            _settle(world, vm, key)
        elif (key == "vcpus" and "cpu" in plugs) or (
            key == "memory" and "memory" in plugs and vm.config.get("numa") == "1"
        ):
            _plug_resource(world, vm, key, value, errors)
        elif key == "hotplug" and not re.search(r"cpu|memory", value + vm.config.get("hotplug", "")):
            _settle(world, vm, key)
    file.touch()
    return seconds


def _settle(world: World, vm: Vm, key: str) -> None:
    _set(world, vm, key, vm.file.pending.pop(key))


def _set(world: World, vm: Vm, key: str, value: str) -> None:
    old = vm.file.values.get(key)
    if text.is_disk(key) and old is not None and _volume(old) != _volume(value):
        disks.detach(world, vm, key, old)
    vm.file.put(key, value)
    cloudinit.remember(vm, key, old, stored(key, value))


def _forget(world: World, vm: Vm, key: str, old: str, *, force: bool) -> None:
    if text.is_disk(key):
        disks.detach(world, vm, key, old, force=force)
    else:
        del vm.file.values[key]
        cloudinit.remember(vm, key, old, None)


def _volume(line: str) -> str:
    return text.parse_drive(line).get("file", "")


def _unplug(world: World, vm: Vm, key: str, plugs: set[str], errors: dict[str, str]) -> float | None:
    old = vm.file.values.get(key)
    if old is None:
        del vm.file.deleting[key]
        return None
    if key in FAST or key in LIVE or key in CLOUDINIT_KEYS or IPCONFIG_KEY.fullmatch(key):
        seconds = 0.0
    elif text.NET_KEY.fullmatch(key) and "network" in plugs:
        seconds = world.durations.nic_unplug
    elif text.is_disk(key):
        if not PLUGGABLE_DISK.fullmatch(key) or "disk" not in plugs:
            return None
        if key in vm.config.get("boot", "").removeprefix("order=").split(";")[:1]:
            errors[key] = f"hotplug problem - can't unplug bootdisk '{key}'\n"
            return None
        seconds = world.durations.disk_unplug
    elif key.startswith("usb") and "usb" in plugs:
        seconds = 0.0
    else:
        return None
    if seconds and vm.busy:
        errors[key] = _still_busy(vm, key)
        return world.durations.busy_unplug
    _forget(world, vm, key, old, force=vm.file.deleting.pop(key))
    return seconds


def _plug_nic(world: World, vm: Vm, key: str, value: str, plugs: set[str], errors: dict[str, str]) -> float:
    if "network" not in plugs:
        return 0.0
    new = text.parse_nic(value)
    bridge = new.get("bridge")
    if bridge and bridge not in world.node(vm.node).bridges:
        errors[key] = f"hotplug problem - interface {bridge} does not exist\n"
        return 0.0
    old = vm.file.values.get(key)
    before = text.parse_nic(old) if old is not None else {}
    replug = old is not None and any(before.get(part) != new.get(part) for part in REPLUG)
    if replug and vm.busy:
        errors[key] = _still_busy(vm, key)
        return world.durations.busy_unplug
    _settle(world, vm, key)
    if old is None:
        return world.durations.nic_plug
    return world.durations.nic_replug if replug else 0.0


def _plug_disk(world: World, vm: Vm, key: str, value: str, plugs: set[str], errors: dict[str, str]) -> float:
    old = vm.file.values.get(key)
    if text.is_cloudinit(value) or (old is not None and text.is_cdrom(old) and text.is_cdrom(value)):
        _settle(world, vm, key)
        return 0.0
    if old is not None and _volume(old) == _volume(value):
        before, after = text.parse_drive(old), text.parse_drive(value)
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        if all(LIVE_DISK_OPTION.fullmatch(name) for name in changed):
            _settle(world, vm, key)
        return 0.0
    if not PLUGGABLE_DISK.fullmatch(key) or "disk" not in plugs:
        return 0.0
    if old is not None and vm.busy:
        errors[key] = _still_busy(vm, key)
        return world.durations.busy_unplug
    _settle(world, vm, key)
    return world.durations.disk_unplug if old is not None else 0.2


def _still_busy(vm: Vm, key: str) -> str:
    """Is the complaint about a guest that is still booting and lets no device go (pve-facts 6.2, disks 5)."""
    single = key.startswith("scsi") and vm.config.get("scsihw") == "virtio-scsi-single"
    device = f"virtio{key}" if single else key
    return f"hotplug problem - error on hot-unplugging device '{device}' - still busy in guest?\n"


def _plug_resource(world: World, vm: Vm, key: str, value: str, errors: dict[str, str]) -> None:
    if key == "vcpus" and int(value) > int(vm.config.get("sockets", "1")) * int(vm.config.get("cores", "1")):
        errors[key] = "hotplug problem - you can't add more vcpus than maxcpus\n"
        return
    _settle(world, vm, key)
