"""Power: start, stop, shutdown, reboot, reset, suspend, resume, and a guest that ends by itself.

All of it answers 200 and a UPID; what is wrong shows in the task (pve-facts 6.1), but for reboot and reset of a
stopped VM. Stop and shutdown apply pending changes themselves; reset and a killed QEMU do not.
"""

from typing import Any

from zone9.sandbox.answers import PveError, bad
from zone9.sandbox.call import Call
from zone9.sandbox.guests.seam import StartFailed
from zone9.sandbox.state import Running, Vm
from zone9.sandbox.tasks import Body, Task
from zone9.sandbox.vm import cloudinit, hotplug
from zone9.sandbox.vm import values as text
from zone9.sandbox.vm.guest import spec_of
from zone9.sandbox.world import World

SYSTEM = "root@pam"
NO_AGENT = "QEMU Guest Agent is not running - VM {vmid} qga command 'guest-ping' failed - got timeout"


def _checked(call: Call) -> None:
    if call.flag("skiplock") and not call.is_root:
        raise bad({"skiplock": "Only root may use this option."})


def _locked(call: Call, body: Any) -> Body:
    """Wraps a deed: the config lock first, then the VM, then its own lock line."""

    async def worker(task: Task) -> None:
        async with call.world.locks.hold(call.vmid, log=task.log):
            await body(call.vm, task)

    return worker


def _refuse_locked(vm: Vm, *, unless: tuple[str, ...] = ()) -> None:
    if vm.lock and vm.lock not in unless:
        raise PveError(f"VM is locked ({vm.lock})")


async def start(call: Call) -> Any:
    _checked(call)
    vm = call.world.cluster.vms.get(call.vmid)
    if vm and f"vm:{vm.vmid}" in call.world.cluster.ha:
        return _ha(call, "hastart", "started")

    async def body(vm: Vm, task: Task) -> None:
        _refuse_locked(vm, unless=("suspended",))
        await start_vm(call.world, vm, task)

    return call.fork("qmstart", call.vmid, _locked(call, body))


async def start_vm(world: World, vm: Vm, task: Task) -> None:
    """Starts a VM inside a worker, or raises what the task ends with."""
    if vm.is_template:
        raise PveError("you can't start a vm if it's a template")
    if vm.running:
        raise PveError(f"VM {vm.vmid} already running")
    if not world.cluster.quorate:
        raise PveError("cluster not ready - no quorum?")
    hotplug.apply_stopped(world, vm)
    if cloudinit.drive_of(vm):
        task.log("generating cloud-init ISO")
        cloudinit.regenerated(vm)
    await world.clock.sleep(world.durations.start_checks)
    if vm.cpus > world.node(vm.node).cpus:
        raise PveError(f"MAX {world.node(vm.node).cpus} vcpus allowed per VM on this node")
    if "memory" in hotplug.features(vm) and vm.config.get("numa") == "1" and vm.memory < 1024 * 2**20:
        raise PveError("minimum memory must be 1024MB")
    for key, line in sorted(vm.config.items()):
        file = text.parse_drive(line)["file"] if text.is_disk(key) else "none"
        if file not in {"none", "cdrom"} and world.cluster.volume(vm.node, file) is None:
            raise PveError(f"volume '{file}' does not exist")
        bridge = text.parse_nic(line).get("bridge") if text.NET_KEY.fullmatch(key) else None
        if bridge and bridge not in world.node(vm.node).bridges:
            raise PveError(f"bridge '{bridge}' does not exist")
    if vm.start_error:
        raise PveError(vm.start_error)
    await world.clock.sleep(world.durations.start)
    try:
        await world.guests.start(spec_of(world, vm))
    except StartFailed as error:
        raise PveError(error.text) from error
    vm.starts += 1
    vm.running = Running(world.clock.now(), world.guests.pid(vm.vmid) or world.node(vm.node).new_pid())
    vm.file.values.pop("lock", None)
    vm.file.touch()


async def stop(call: Call) -> Any:
    _checked(call)
    if f"vm:{call.vmid}" in call.world.cluster.ha and call.vmid in call.world.cluster.vms:
        return _ha(call, "hastop", "stopped")

    async def body(vm: Vm, task: Task) -> None:
        if vm.running:
            _refuse_locked(vm)
            await call.world.clock.sleep(call.world.durations.stop)
            await call.world.guests.stop(vm.vmid)
            ended(call.world, vm, applied=True)

    return call.fork("qmstop", call.vmid, _locked(call, body))


async def shutdown(call: Call) -> Any:
    _checked(call)
    if f"vm:{call.vmid}" in call.world.cluster.ha and call.vmid in call.world.cluster.vms:
        return _ha(call, "hastop", "stopped")
    vm = call.world.cluster.vms.get(call.vmid)
    if vm and vm.running and vm.running.paused:
        if call.flag("forceStop"):
            return await stop(call)
        raise PveError("VM is paused - cannot shutdown")

    async def body(vm: Vm, task: Task) -> None:
        if not vm.running:
            return
        _refuse_locked(vm)
        await power_down(
            call.world, vm, task, float(call.params.get("timeout", 60)), force=call.flag("forceStop")
        )
        ended(call.world, vm, applied=True)

    return call.fork("qmshutdown", call.vmid, _locked(call, body))


async def power_down(world: World, vm: Vm, task: Task, timeout: float, *, force: bool) -> None:  # noqa: ASYNC109
    """Presses the power button; a guest that does not go in time ends the task, or is stopped hard when asked."""
    if vm.config.get("agent", "0").removeprefix("enabled=").startswith("1") and not vm.agent_running:
        await world.clock.sleep(world.durations.agent_timeout)
        task.log(NO_AGENT.format(vmid=vm.vmid))
    if vm.ignores_acpi or world.durations.shutdown > timeout:
        await world.clock.sleep(timeout)
        gone = False
    else:
        await world.clock.sleep(world.durations.shutdown)
        gone = await world.guests.shutdown(vm.vmid, timeout)
    if gone:
        return
    if not force:
        raise PveError("VM quit/powerdown failed - got timeout")
    await world.guests.stop(vm.vmid)


async def reboot(call: Call) -> Any:
    vm = call.vm
    if not vm.running:
        raise PveError(f"VM {call.vmid} not running")

    async def body(vm: Vm, task: Task) -> None:
        _refuse_locked(vm)
        if not vm.running:
            raise PveError(f"VM {vm.vmid} not running")
        await power_down(call.world, vm, task, float(call.params.get("timeout", 60)), force=False)
        ended(call.world, vm, applied=True)
        call.followers.append(call.world.spawn(_start_again(call, vm.vmid)))

    return call.fork("qmreboot", call.vmid, _locked(call, body))


async def _start_again(call: Call, vmid: int) -> None:
    """Is what qm cleanup does after a reboot: a second task, by root@pam (pve-facts 6.2, memory-cpu 4)."""
    world = call.world
    await world.clock.sleep(world.durations.restart_after)
    vm = world.cluster.vms.get(vmid)
    if vm is None or vm.running:
        return

    async def worker(task: Task) -> None:
        async with world.locks.hold(vmid, log=task.log):
            await start_vm(world, world.vm(vmid, vm.node), task)

    task = world.tasks.start(vm.node, "qmstart", str(vmid), SYSTEM, worker)
    if world.clock.leaps:
        await task.done.wait()


async def reset(call: Call) -> Any:
    vm = call.vm
    if not vm.running:
        raise PveError(f"VM {call.vmid} not running")

    async def body(vm: Vm, task: Task) -> None:
        _refuse_locked(vm)
        await call.world.clock.sleep(call.world.durations.reset)
        await call.world.guests.reset(vm.vmid)

    return call.fork("qmreset", call.vmid, _locked(call, body))


async def suspend(call: Call) -> Any:
    vm = call.vm
    if not vm.running:
        raise PveError(f"VM {call.vmid} not running")
    if call.flag("todisk"):
        raise PveError("suspend to disk is not modelled by the sandbox", status=501)

    async def body(vm: Vm, task: Task) -> None:
        _refuse_locked(vm, unless=("backup",))
        await call.world.clock.sleep(call.world.durations.pause)
        await call.world.guests.pause(vm.vmid)
        if vm.running:
            vm.running.paused = True

    return call.fork("qmpause", call.vmid, _locked(call, body))


async def resume(call: Call) -> Any:
    vm = call.vm
    if not vm.running:
        raise PveError(f"VM {call.vmid} not running")

    async def body(vm: Vm, task: Task) -> None:
        _refuse_locked(vm, unless=("backup",))
        await call.world.clock.sleep(call.world.durations.pause)
        await call.world.guests.resume(vm.vmid)
        if vm.running:
            vm.running.paused = False

    return call.fork("qmresume", call.vmid, _locked(call, body))


def ended(world: World, vm: Vm, *, applied: bool) -> None:
    """Notes that QEMU is gone; a stop or shutdown applies pending changes, a death does not."""
    vm.running = None
    if applied:
        hotplug.apply_stopped(world, vm)
    world.spawn(_clean_up(world, vm.vmid))


async def _clean_up(world: World, vmid: int) -> None:
    """Is qm cleanup: it takes the lock, and keeps it for up to 30 s of a VM that runs again (pve-facts 6.21)."""
    await world.clock.sleep(world.durations.cleanup_after)
    vm = world.cluster.vms.get(vmid)
    if vm is None:
        return
    async with world.locks.hold(vmid, wait=60.0):
        if vm.running:
            await world.clock.sleep(world.durations.cleanup_hold)


def _ha(call: Call, kind: str, state: str) -> str:
    """Only asks the HA manager, which is not modelled: nothing is started (pve-facts 6.2, ha)."""

    async def worker(task: Task) -> None:
        await call.world.clock.sleep(call.world.durations.start_checks)
        verb = "start" if kind == "hastart" else "stop"
        task.log(f"Requesting HA {verb} for VM {call.vmid}")
        call.world.cluster.ha[f"vm:{call.vmid}"]["state"] = state

    return call.fork(kind, call.vmid, worker)
