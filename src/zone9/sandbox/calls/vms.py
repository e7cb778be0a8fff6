"""What is under /nodes/{node}/qemu."""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.vm import change, clone, cloudinit, create, delete, move, power, rows, snapshots, update

VMS = "/nodes/{node}/qemu"
VM = "/nodes/{node}/qemu/{vmid}"


@serves("GET", VMS)
async def listing(call: Call) -> Any:
    vms = call.world.cluster.vms
    full = call.flag("full")
    mine = [vm for vm in vms.values() if vm.node == call.node and call.may(f"/vms/{vm.vmid}", "VM.Audit")]
    return [rows.listed(call.world, vm, full=full) for vm in mine]


@serves("GET", VM)
async def index(call: Call) -> Any:
    names = (
        "config status pending unlink vncproxy termproxy resize snapshot feature agent rrddata migrate clone"
    )
    return [{"subdir": name} for name in names.split()]


@serves("GET", f"{VM}/config")
async def config(call: Call) -> Any:
    file = call.vm.file
    if name := call.params.get("snapshot"):
        if name not in file.snapshots:
            raise PveError(f"snapshot '{name}' does not exist")
        return {**file.answer(file.snapshots[name]), "digest": file.digest}
    values = file.values if call.flag("current") else file.merged()
    return {**file.answer(values), "digest": file.digest}


@serves("GET", f"{VM}/pending")
async def pending(call: Call) -> Any:
    return call.vm.file.pending_rows()


@serves("PUT", f"{VM}/config")
async def put_config(call: Call) -> Any:
    return await update.update(call, sync=True)


@serves("POST", f"{VM}/config")
async def post_config(call: Call) -> Any:
    return await update.update(call, sync=False)


@serves("GET", f"{VM}/status/current")
async def current(call: Call) -> Any:
    return rows.current(call.world, call.vm)


@serves("GET", f"{VM}/cloudinit")
async def get_cloudinit(call: Call) -> Any:
    return cloudinit.rows(call.vm)


@serves("PUT", f"{VM}/cloudinit")
async def put_cloudinit(call: Call) -> Any:
    vm = call.vm
    async with call.world.locks.hold(vm.vmid):
        cloudinit.regenerated(vm)


@serves("GET", f"{VM}/cloudinit/dump")
async def dump(call: Call) -> Any:
    return cloudinit.dump(call.vm, str(call.params["type"]))


@serves("POST", f"{VM}/agent/ping")
async def ping(call: Call) -> Any:
    return {"result": await change.agent(call)}


@serves("GET", f"{VM}/agent/network-get-interfaces")
async def interfaces(call: Call) -> Any:
    await change.agent(call)
    return {"result": change.interfaces(call.vm)}


@serves("GET", f"{VM}/agent/get-osinfo")
async def osinfo(call: Call) -> Any:
    await change.agent(call)
    return {"result": {"id": "debian", "name": "Debian GNU/Linux"}}


serves("POST", VMS)(create.create)
serves("DELETE", VM)(delete.delete)
serves("POST", f"{VM}/clone")(clone.clone)
serves("POST", f"{VM}/template")(change.template)
serves("PUT", f"{VM}/resize")(change.resize)
serves("POST", f"{VM}/move_disk")(move.move_disk)
serves("PUT", f"{VM}/unlink")(change.unlink)
serves("POST", f"{VM}/migrate")(change.migrate)
serves("GET", f"{VM}/snapshot")(snapshots.snapshots)
serves("POST", f"{VM}/snapshot")(snapshots.take_snapshot)
serves("GET", f"{VM}/snapshot/{{snapname}}/config")(snapshots.snapshot_config)
serves("DELETE", f"{VM}/snapshot/{{snapname}}")(snapshots.drop_snapshot)
serves("POST", f"{VM}/snapshot/{{snapname}}/rollback")(snapshots.rollback)
serves("POST", f"{VM}/status/start")(power.start)
serves("POST", f"{VM}/status/stop")(power.stop)
serves("POST", f"{VM}/status/shutdown")(power.shutdown)
serves("POST", f"{VM}/status/reboot")(power.reboot)
serves("POST", f"{VM}/status/reset")(power.reset)
serves("POST", f"{VM}/status/suspend")(power.suspend)
serves("POST", f"{VM}/status/resume")(power.resume)
