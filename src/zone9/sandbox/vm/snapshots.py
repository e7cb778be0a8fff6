"""Snapshots of a VM: their place in the config file and the tree; disks are not rolled back, values are."""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call
from zone9.sandbox.state import Vm
from zone9.sandbox.tasks import Task
from zone9.sandbox.vm import power
from zone9.sandbox.vm import values as text

# What a snapshot does not hold.
OUTSIDE = frozenset({"lock", "digest", "unused", "parent", "snaptime"})


async def snapshots(call: Call) -> Any:
    """Serves GET snapshot: the last row is the present."""
    vm = call.vm
    rows: list[dict[str, Any]] = []
    for name, values in sorted(vm.file.snapshots.items()):
        row: dict[str, Any] = {
            "name": name,
            "description": values.get("description", ""),
            "snaptime": int(values["snaptime"]),
            "vmstate": int("vmstate" in values),
        }
        if "parent" in values:
            row["parent"] = values["parent"]
        rows.append(row)
    now: dict[str, Any] = {
        "name": "current",
        "description": "You are here!",
        "digest": vm.file.digest,
        "running": int(vm.running is not None),
    }
    if "parent" in vm.config:
        now["parent"] = vm.config["parent"]
    return [*rows, now]


async def snapshot_config(call: Call) -> Any:
    """Serves GET snapshot/{name}/config, which shows the password in clear (pve-facts 6.11)."""
    file = call.vm.file
    name = str(call.params["snapname"])
    if name not in file.snapshots:
        raise PveError(f"snapshot '{name}' does not exist")
    return file.answer(file.snapshots[name], mask=False)


async def take_snapshot(call: Call) -> Any:
    name = str(call.params["snapname"])
    if name in {"current", "pending"}:
        raise PveError(f"unable to use snapshot name '{name}' (reserved name)")

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            vm = call.vm
            _unlocked(vm)
            call.world.must_write(vm)
            if vm.is_template:
                raise PveError("snapshot feature is not available")
            if name in vm.file.snapshots:
                raise PveError(f"snapshot name '{name}' already used")
            held = {
                k: v for k, v in vm.config.items() if k not in OUTSIDE and not text.UNUSED_KEY.fullmatch(k)
            }
            if "parent" in vm.config:
                held["parent"] = vm.config["parent"]
            held["snaptime"] = str(call.world.now(vm.node))
            held.pop("description", None)
            if description := str(call.params.get("description", "")).rstrip():
                held["description"] = description
            await call.world.clock.sleep(call.world.durations.snapshot)
            _say(task, vm)
            vm.file.snapshots[name] = held
            vm.file.put("parent", name)

    return call.fork("qmsnapshot", call.vmid, worker)


async def drop_snapshot(call: Call) -> Any:
    name = str(call.params["snapname"])

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            vm = call.vm
            if name not in vm.file.snapshots:
                raise PveError(f"snapshot '{name}' does not exist")
            _unlocked(vm)
            await call.world.clock.sleep(call.world.durations.snapshot)
            gone = vm.file.snapshots.pop(name)
            for values in [vm.config, *vm.file.snapshots.values()]:
                if values.get("parent") == name:
                    values.pop("parent")
                    if "parent" in gone:
                        values["parent"] = gone["parent"]
            vm.file.touch()

    return call.fork("qmdelsnapshot", call.vmid, worker)


async def rollback(call: Call) -> Any:
    name = str(call.params["snapname"])

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            vm = call.vm
            if name not in vm.file.snapshots:
                raise PveError(f"snapshot '{name}' does not exist")
            _unlocked(vm)
            await call.world.clock.sleep(call.world.durations.snapshot)
            if vm.running:
                await call.world.guests.stop(vm.vmid)
                power.ended(call.world, vm, applied=False)
            kept = {key: value for key, value in vm.config.items() if text.UNUSED_KEY.fullmatch(key)}
            values = {k: v for k, v in vm.file.snapshots[name].items() if k not in {"snaptime", "parent"}}
            description = vm.config.get("description")
            values.pop("description", None)
            if description:
                values["description"] = description
            vm.file.values = {**values, **kept, "parent": name}
            if "vmgenid" in values:
                vm.file.values["vmgenid"] = text.new_uuid(call.world.random)
            vm.file.touch()

    return call.fork("qmrollback", call.vmid, worker)


def _say(task: Task, vm: Vm) -> None:
    agent = vm.config.get("agent", "0").removeprefix("enabled=").startswith("1")
    if vm.running and agent and not vm.agent_running:
        task.log("skipping guest filesystem freeze - agent configured but not running?")
    for key in sorted(key for key in vm.config if text.is_disk(key) and not text.is_cdrom(vm.config[key])):
        task.log(f"snapshotting 'drive-{key}' ({text.parse_drive(vm.config[key])['file']})")
        if vm.running:
            task.log("internal qemu snapshot")


def _unlocked(vm: Vm) -> None:
    if vm.lock:
        raise PveError(f"VM is locked ({vm.lock})")
