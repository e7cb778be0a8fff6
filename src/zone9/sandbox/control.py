"""The control port: plain HTTP on loopback, for whoever runs the sandbox in another process.

It tells the whole truth, past every permission and lag, and it breaks things. It is not part of Proxmox.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from zone9.sandbox import inventory
from zone9.sandbox.answers import PveError
from zone9.sandbox.operator import Operator
from zone9.sandbox.state import Vm
from zone9.sandbox.vm import rows
from zone9.sandbox.vm.values import parse_property_string
from zone9.sandbox.world import World


class BadInput(Exception):
    """Says in its text what was wrong with a control request."""


class Control:
    """Answers the control port."""

    def __init__(self, world: World, operator: Operator) -> None:
        self._world = world
        self._operator = operator

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        try:
            document = await self._document(request)
            data = await self._route(request.method, parts, document)
        except (BadInput, ValueError, TypeError, KeyError, PveError) as error:
            text = error.text if isinstance(error, PveError) else str(error)
            return _json({"error": text}, 400)
        if data is None:
            return _json({"error": f"no such control: {request.method} {request.path}"}, 404)
        return _json(data, 200)

    @staticmethod
    async def _document(request: web.BaseRequest) -> dict[str, Any]:
        text = await request.read()
        if not text:
            return {}
        document = json.loads(text)
        if not isinstance(document, dict):
            message = "the body must be a JSON object"
            raise BadInput(message)
        return document

    async def _route(self, method: str, parts: list[str], document: dict[str, Any]) -> Any:
        match method, parts:
            case "GET", ["vms"]:
                return [describe(self._world, vm) for vm in self._world.cluster.vms.values()]
            case "GET", ["vms", text]:
                return describe(self._world, self._vm(text))
            case "POST", ["vms", text, "kill"]:
                self._operator.kill_guest(self._vm(text).vmid)
                return {}
            case "GET", ["vms", text, "console"]:
                return {"text": self._world.guests.console(self._vm(text).vmid).decode("utf-8", "replace")}
            case "GET", ["requests"]:
                return [asked.summary() for asked in self._world.journal.requests]
            case "GET", ["violations"]:
                return [str(violation) for violation in self._world.journal.violations]
            case "DELETE", ["violations"]:
                self._world.journal.violations.clear()
                return {}
            case _:
                return await self._break(method, parts, document)

    async def _break(self, method: str, parts: list[str], document: dict[str, Any]) -> Any:
        match method, parts:
            case "GET", ["faults"]:
                return [rule.summary() for rule in self._world.faults]
            case "POST", ["faults"]:
                return self._world.faults.add_from(document).summary()
            case "DELETE", ["faults"]:
                self._world.faults.clear()
                return {}
            case "POST", ["clock", "advance"]:
                await self._world.clock.advance(float(document["seconds"]))
                return {"now": self._world.clock.now()}
            case "GET", ["clock"]:
                return {"now": self._world.clock.now()}
            case "POST", ["tasks", "release"]:
                return {"released": self._world.tasks.release(document.get("upid"))}
            case "POST", ["nodes", name]:
                if name not in self._world.cluster.nodes:
                    message = f"no node '{name}'"
                    raise BadInput(message)
                node = self._world.cluster.nodes[name]
                if document.get("crash"):
                    await self._operator.crash_node(name)
                node.online = bool(document.get("online", node.online))
                node.skew = float(document.get("skew", node.skew))
                return {"name": name, "online": node.online, "skew": node.skew}
            case "POST", ["storages", name]:
                self._operator.fill_storage(name, int(document.get("free", 0)))
                return {"total": self._world.storage(name).total}
            case "POST", ["cluster"]:
                self._world.cluster.quorate = bool(document.get("quorate", True))
                return {"quorate": self._world.cluster.quorate}
            case "POST", ["inventory"]:
                seed = int(document.pop("seed", 1))
                inventory.fill(self._world, inventory.Shape(**document), seed)
                return {"vms": len(self._world.cluster.vms)}
            case "POST", ["operator", deed]:
                return await self._deed(deed, dict(document))
            case _:
                return None

    async def _deed(self, deed: str, document: dict[str, Any]) -> Any:
        deeds: dict[str, Callable[..., Any]] = {
            "set": self._operator.set,
            "edit": self._operator.edit_file,
            "lock": self._operator.set_lock,
            "start": self._operator.start,
            "stop": self._operator.stop,
            "delete": self._operator.delete,
            "migrate": self._operator.migrate,
            "create": self._operator.create_stranger,
            "forget": self._operator.forget,
            "poweroff": self._operator.power_off_inside,
        }
        if deed not in deeds:
            message = f"the operator cannot '{deed}', only {', '.join(deeds)}"
            raise BadInput(message)
        vmid = int(document.pop("vmid"))
        outcome = deeds[deed](vmid, **document)
        if isinstance(outcome, Awaitable):
            task = await outcome
            return {"upid": task.upid}
        return {}

    def _vm(self, text: str) -> Vm:
        vm = self._world.cluster.vms.get(int(text)) if text.isdigit() else None
        if vm is None:
            message = f"no VM '{text}'"
            raise BadInput(message)
        return vm


def describe(world: World, vm: Vm) -> dict[str, Any]:
    """Is the whole truth of a VM."""
    running = vm.running is not None
    return {
        "vmid": vm.vmid,
        "node": vm.node,
        "name": vm.name,
        "status": "running" if running else "stopped",
        "config": dict(vm.config),
        "pending": dict(vm.file.pending),
        "pending_delete": sorted(vm.file.deleting),
        "digest": vm.file.digest,
        "uuid": parse_property_string(vm.config.get("smbios1", "")).get("uuid"),
        "description": vm.config.get("description", ""),
        "lock": vm.lock,
        "template": vm.is_template,
        "uptime": rows.uptime(world, vm),
        "starts": vm.starts,
        "pid": world.guests.pid(vm.vmid) if running else None,
        "page_url": world.guests.page_url(vm.vmid) if running else None,
    }


def _json(data: Any, status: int) -> web.Response:
    return web.Response(status=status, text=json.dumps(data, default=str), content_type="application/json")
