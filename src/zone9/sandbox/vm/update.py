"""PUT and POST of a VM's config: one piece of code with two ways out, at once or as a worker.

The order is qemu-server's (API2/Qemu.pm, update_vm_api): what the parameters alone can tell, then the lock,
the digest and the config's own lock, then each key into the pending section, then what can be applied.
"""

from collections.abc import Callable
from typing import Any

from zone9.sandbox.answers import PveError, bad, denied
from zone9.sandbox.call import Call
from zone9.sandbox.crypt import hash_password
from zone9.sandbox.state import Vm
from zone9.sandbox.vm import disks, hotplug, rights
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.config import stored
from zone9.sandbox.vm.options import exists as option_exists
from zone9.sandbox.vm.options import plain_values

DIGEST_MISMATCH = "checksum mismatch (file change by other user?)"


async def update(call: Call, *, sync: bool) -> Any:
    """Serves both; answers None or a UPID."""
    if call.flag("skiplock") and not call.is_root:
        raise bad({"skiplock": "Only root may use this option."})
    values = plain_values(call)
    if "cipassword" in values:
        values["cipassword"] = hash_password(values["cipassword"], call.world.random)
    said = _said(call)
    deletes = text.split_list(str(call.raw.get("delete", "")))
    reverts = text.split_list(str(call.raw.get("revert", "")))
    if not values and not deletes and not reverts:
        raise PveError("no options specified")
    if "cdrom" in values:
        values["ide2"] = values.pop("cdrom")
    deletes = _checked(values, deletes, reverts)
    for key, value in values.items():
        if text.is_disk(key):
            disks.check_drive(call.world, call.node, key, value, root=call.is_root)
        elif text.NET_KEY.fullmatch(key):
            values[key] = text.with_mac(value, call.world.random)
    path = f"/vms/{call.vmid}"
    rights.may_change(call, path, deletes)
    rights.may_change(call, path, values)
    rights.may_use_disks(call, path, values)
    rights.may_use_bridges(call, values)

    # A lock line is seen before the flock is waited for (recorded: at once while a clone holds both).
    if (lock := call.vm.lock) and not call.flag("skiplock"):
        raise PveError(f"VM is locked ({lock})")
    async with call.world.locks.hold(call.vmid):
        vm = call.vm
        _still_as_read(call, vm)
        if vm.lock and not call.flag("skiplock"):
            raise PveError(f"VM is locked ({vm.lock})")
        for key in reverts:
            if key in vm.config:
                values[key] = vm.config[key]
            elif key in vm.file.pending:
                deletes.append(key)
        _balloon(vm, values)
        call.world.tasks.record(call.node, call.user, f"update VM {vm.vmid}: {said}")
        if sync:
            await _work(call, vm, values, deletes, _unheard)
            return None

    async def worker(task: Any) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            task.log(f"update VM {call.vmid}: {said}")
            await call.world.clock.sleep(call.world.durations.config)
            await _work(call, call.vm, values, deletes, task.log)

    return call.fork("qmconfig", call.vmid, worker)


def _unheard(line: str) -> None:
    """Is where the output of a synchronous update goes."""


def _said(call: Call) -> str:
    """Is the change as it goes to the logs: everything in clear but the password (pve-facts 6.2, identity 2)."""
    hidden = {"node", "vmid", "digest", "background_delay", "skip_cloud_init"}
    shown = {key: call.raw[key] for key in sorted(call.raw) if key not in hidden}
    return " ".join(f"-{key} {'<hidden>' if key == 'cipassword' else value}" for key, value in shown.items())


def _checked(values: dict[str, str], deletes: list[str], reverts: list[str]) -> list[str]:
    for key in reverts:
        if not option_exists(key):
            raise bad({"revert": f"unknown option '{key}'"})
        if key in values:
            raise bad({"delete": f"you can't use '-{key}' and '-revert {key}' at the same time"})
    checked: list[str] = []
    for name in deletes:
        key = "ide2" if name == "cdrom" else name
        if key in values:
            raise bad({"delete": f"you can't use '-{key}' and -delete {key}' at the same time"})
        if key in reverts:
            raise bad({"revert": f"you can't use '-revert {key}' and '-delete {key}' at the same time"})
        if not option_exists(key):
            raise bad({"delete": f"unknown option '{key}'"})
        checked.append(key)
    return checked


def _still_as_read(call: Call, vm: Vm) -> None:
    digest = call.params.get("digest")
    if digest and digest != vm.file.digest:
        raise PveError(DIGEST_MISMATCH)


def _balloon(vm: Vm, values: dict[str, str]) -> None:
    if not {"memory", "balloon"} & values.keys():
        return
    after = {**vm.config, **vm.file.pending, **values}
    balloon = int(after.get("balloon", "0"))
    if balloon > int(after.get("memory", "512").removeprefix("current=").split(",")[0]):
        raise PveError("balloon value too large (must be smaller than assigned memory)")


async def _work(
    call: Call, vm: Vm, values: dict[str, str], deletes: list[str], log: Callable[[str], None]
) -> None:
    call.world.must_write(vm)
    for key in deletes:
        _delete(call, vm, key, log)
    for key in sorted(values, key=text.drive_rank):
        if vm.file.pending.get(key) == values[key]:
            continue
        if text.is_disk(key) and "file" not in text.parse_drive(values[key]):
            raise bad({key: "unable to parse drive options"})
        await _set(call, vm, key, values, deletes, log)
        vm.file.deleting.pop(key, None)
        vm.file.touch()
    vm.file.clean_pending()
    if not vm.file.pending and not vm.file.deleting:
        return
    errors: dict[str, str] = {}
    if vm.running:
        await call.world.clock.sleep(hotplug.apply_running(call.world, vm, {*values, *deletes}, errors))
    else:
        hotplug.apply_stopped(call.world, vm)
    if errors:
        raise bad(errors)


def _delete(call: Call, vm: Vm, key: str, log: Callable[[str], None]) -> None:
    file = vm.file
    value = file.values.get(key, file.pending.get(key))
    if value is None:
        log(f"cannot delete '{key}' - not set in current configuration!")
        return
    was_pending = file.pending.pop(key, None)
    _leave_boot_order(vm, key)
    if text.UNUSED_KEY.fullmatch(key):
        _protected(vm, f"can't remove unused disk '{value}'")
        call.must(f"/vms/{vm.vmid}", "VM.Config.Disk")
        disks.free_volume(call.world, vm.node, text.parse_drive(value)["file"])
        del file.values[key]
    elif text.is_disk(key):
        _protected(vm, f"can't remove drive '{key}'")
        call.must(f"/vms/{vm.vmid}", "VM.Config.Disk")
        if was_pending is not None:
            disks.register_unused(call.world, vm, was_pending)
        if key in file.values:
            file.deleting[key] = call.flag("force")
    elif key == "tags":
        rights.may_tag(call, value, "")
        file.values.pop(key, None)
    elif key in file.values:
        file.deleting[key] = call.flag("force")
    file.touch()


def _leave_boot_order(vm: Vm, key: str) -> None:
    boot = vm.file.pending.get("boot", vm.config.get("boot", ""))
    order = boot.removeprefix("order=").split(";")
    if boot.startswith("order=") and key in order:
        order.remove(key)
        vm.file.pending["boot"] = f"order={';'.join(order)}" if order else " "


def _protected(vm: Vm, what: str) -> None:
    if vm.config.get("protection") == "1":
        raise PveError(f"{what} - protection mode enabled")


async def _set(
    call: Call,
    vm: Vm,
    key: str,
    values: dict[str, str],
    deletes: list[str],
    log: Callable[[str], None],
) -> None:
    value = values[key]
    file = vm.file
    if text.is_disk(key):
        if text.is_cloudinit(value) and not text.is_cloudinit(file.values.get(key)):
            _one_cloudinit(vm, key)
        if (
            key in file.pending
            and text.parse_drive(file.pending[key])["file"] != text.parse_drive(value)["file"]
        ):
            disks.register_unused(call.world, vm, file.pending[key])
        lines: list[str] = []
        made = disks.make(call.world, vm.node, vm.vmid, key, value, lines)
        for line in lines:
            log(line)
        await call.world.clock.sleep(made.seconds)
        if not made.line:
            where = text.parse_drive(value)["file"].split(":", 1)[0]
            raise PveError(f"unable to create image: 'storage-{where}'-locked command timed out - aborting")
        file.pending[key] = made.line
    elif key == "tags":
        rights.may_tag(call, vm.config.get("tags", ""), value)
        style = text.parse_property_string(call.world.cluster.options.get("tag-style", ""))
        file.pending[key] = text.unique_tags(value, style)
    elif key.startswith(("serial", "usb")) and key[-1].isdigit():
        _device(call, vm, key, value)
        file.pending[key] = value
    else:
        if key == "boot":
            _boot(vm, value, values, deletes)
        file.pending[key] = stored(key, value)


def _one_cloudinit(vm: Vm, key: str) -> None:
    for other, line in {**vm.config, **vm.file.pending}.items():
        if other != key and text.is_disk(other) and text.is_cloudinit(line):
            raise PveError(f"{key} - cloud-init drive is already attached at '{other}'")


def _device(call: Call, vm: Vm, key: str, value: str) -> None:
    if value in {"socket", "spice"}:
        call.must(f"/vms/{vm.vmid}", "VM.Config.HWType")
    elif not call.is_root:
        raise PveError(f"only root can set '{key}' config for real devices")


def _boot(vm: Vm, value: str, values: dict[str, str], deletes: list[str]) -> None:
    if not value.startswith("order="):
        return
    known = {*vm.config, *vm.file.pending, *values} - set(deletes)
    for device in text.split_list(value.removeprefix("order=")):
        if device not in known:
            raise PveError(f"invalid bootorder: device '{device}' does not exist'")


def may_change_pool(call: Call, pool: str) -> None:
    """Refuses a pool that is not there, with the 403 that it is (pve-facts 6.2)."""
    if pool not in call.world.cluster.pools:
        raise denied(f"pool '{pool}' does not exist")
    call.must(f"/pool/{pool}", "VM.Allocate")
