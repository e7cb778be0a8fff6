"""The calls that open a console; the exchange itself is `zone9.sandbox.websocket`'s (pve-facts 6.2, console)."""

from typing import Any

from zone9.sandbox.answers import PveError
from zone9.sandbox.call import Call, serves
from zone9.sandbox.consoles import Consoles, Proxy
from zone9.sandbox.tasks import Task

VM = "/nodes/{node}/qemu/{vmid}"
TERMINAL = (
    "command '/usr/bin/termproxy {port} --path /vms/{vmid} --perm VM.Console --vncticket-endpoint --verify-port "
    "--ticket-fd 6 -- /usr/sbin/qm terminal {vmid} -escape 0 -iface {iface}' failed: exit code 1"
)
VNCTERM_PATIENCE = 5.8


def _open(call: Call, kind: str, failure: str) -> Proxy:
    consoles: Consoles = call.world.consoles
    proxy = consoles.open(kind, call.vmid, call.user)

    async def worker(task: Task) -> None:
        try:
            await consoles.attended(proxy)
        except PveError as error:
            raise PveError(failure.format(port=proxy.port, vmid=call.vmid)) from error

    call.fork("vncproxy", call.vmid, worker)
    call.started.clear()  # it lives as long as its client: nobody waits for it
    return proxy


def _answer(call: Call, proxy: Proxy) -> dict[str, Any]:
    return {"user": call.user, "ticket": proxy.ticket, "port": str(proxy.port), "upid": call.asked.upid}


@serves("POST", f"{VM}/termproxy")
async def termproxy(call: Call) -> Any:
    """Opens a serial console; also that of a stopped VM, whose failure is the task's."""
    vm = call.vm
    vga = vm.config.get("vga", "")
    iface = str(call.params.get("serial") or (vga if vga.startswith("serial") else "serial0"))
    proxy = _open(call, "term", TERMINAL.replace("{iface}", iface))
    proxy.iface = iface
    return _answer(call, proxy)


@serves("POST", f"{VM}/vncproxy")
async def vncproxy(call: Call) -> Any:
    """Opens a VM's display; one whose display is a serial line needs vncterm, which this node has not."""
    vm = call.vm
    if vm.config.get("vga", "").startswith("serial"):
        proxy = _open(call, "vnc", "command '/usr/bin/vncterm -rfbport {port}' failed: open3: exec failed")
        call.world.consoles.close(proxy)
        proxy.taken.set()
        proxy.failed = True
        proxy.over.set()
        await call.world.clock.sleep(VNCTERM_PATIENCE)
        raise PveError(f"Timeout while waiting for port '{proxy.port}' to get ready!")
    proxy = _open(call, "vnc", "Failed to run vncproxy.")
    return {
        **_answer(call, proxy),
        "ticket": f"{proxy.password}:{proxy.ticket}",
        "password": proxy.password,
        "cert": call.world.certificate,
    }


@serves("GET", f"{VM}/vncwebsocket")
async def vncwebsocket(call: Call) -> Any:
    """Checks the ticket; with an Upgrade header the HTTP server then joins the client to the port."""
    port = int(call.params["port"])
    if not call.world.consoles.holds(str(call.params["vncticket"]), call.user, f"/vms/{call.vmid}", port):
        raise PveError("permission denied - invalid PVEVNC ticket", status=401)
    return {"port": str(port)}


@serves("POST", f"{VM}/spiceproxy")
async def spiceproxy(call: Call) -> Any:
    if call.vm.running is None:
        raise PveError(f"VM {call.vmid} not running")
    raise PveError("no spice port")


@serves("POST", "/access/vncticket")
async def verify(call: Call) -> Any:
    """Verifies a ticket for a proxy on another node."""
    given = call.params
    port = int(given.get("port", 0))
    if not call.world.consoles.holds(str(given["vncticket"]), str(given["authid"]), str(given["path"]), port):
        raise PveError("authentication failure", status=401)


@serves("POST", f"{VM}/monitor")
async def monitor(call: Call) -> Any:
    """Answers the one command whose answer needs no machine: the guest's name."""
    vm = call.vm
    if vm.running is None:
        raise PveError(f"VM {call.vmid} not running")
    command = str(call.params["command"])
    return f"{vm.name}\r\n" if command == "info name" else f"unknown command: '{command}'\r\n"
