"""One API call on its way through the sandbox, and the table of those that are modelled.

A method that is in Proxmox's schema but not in the table answers 501 and is a violation: the sandbox never
invents a success.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from zone9.sandbox.accounts import ROOT
from zone9.sandbox.answers import denied
from zone9.sandbox.journal import Asked
from zone9.sandbox.schema import Method
from zone9.sandbox.state import Vm
from zone9.sandbox.tasks import Body, Task, TaskFault
from zone9.sandbox.world import World

Handler = Callable[["Call"], Awaitable[Any]]
CALLS: dict[tuple[str, str], Handler] = {}


class Listing(list[Any]):
    """Is a list answer that carries `total` beside `data`."""

    def __init__(self, rows: list[Any], total: int) -> None:
        super().__init__(rows)
        self.total = total


@dataclass(slots=True)
class Call:
    """Is one validated request: who asks, for what, and with which parameters (text as sent, and typed)."""

    world: World
    user: str
    method: Method
    asked: Asked
    raw: dict[str, Any]
    params: dict[str, Any]
    fault: TaskFault | None = None
    serving: str = ""
    started: list[Task] = field(default_factory=list)
    # What goes on after the task: waited for where time costs nothing.
    followers: list["asyncio.Task[Any]"] = field(default_factory=list)

    @property
    def node(self) -> str:
        return str(self.params["node"])

    @property
    def vmid(self) -> int:
        return int(self.params["vmid"])

    @property
    def vm(self) -> Vm:
        return self.world.vm(self.vmid, self.node)

    @property
    def is_root(self) -> bool:
        """Tells whether it is root@pam with a ticket; a root token is not (pve-facts 6.2, clone-progress 4)."""
        return self.user == ROOT

    def flag(self, name: str) -> bool:
        return bool(self.params.get(name))

    def may(self, path: str, privilege: str) -> bool:
        return self.world.accounts.allowed(self.user, path, privilege)

    def must(self, path: str, *privileges: str, any_of: bool = False) -> None:
        """Refuses with Proxmox's text unless the user has the rights on a path."""
        rights = self.world.accounts.rights(self.user, path)
        if any_of:
            if not any(name in rights for name in privileges):
                raise denied(f"{path}, {'|'.join(privileges)}")
            return
        for name in privileges:
            if name not in rights:
                raise denied(f"{path}, {name}")

    def fork(self, kind: str, ident: object, body: Body, *, undo: Callable[[], None] | None = None) -> str:
        """Starts a worker for this call and answers its UPID."""
        task = self.world.tasks.start(self.node, kind, str(ident), self.user, body, self.fault, undo)
        self.started.append(task)
        self.asked.upid = task.upid
        return task.upid


def serves(verb: str, template: str) -> Callable[[Handler], Handler]:
    """Puts a coroutine into the table of modelled methods."""

    def enter(handler: Handler) -> Handler:
        CALLS[verb, template] = handler
        return handler

    return enter
