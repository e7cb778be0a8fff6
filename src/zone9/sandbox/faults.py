"""Faults: what goes wrong between a request and its answer, on purpose.

A fault matches requests by method and path, after `after` matches and for `times` of them. What each kind does
is carried out by the server (before, instead of and after the answer) and by the tasks; here is only which one
applies. The named ones are the classes of failure that a client must tell apart.
"""

import fnmatch
import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zone9.sandbox.tasks import TaskFault

KINDS = frozenset(
    {
        "answer",
        "drop_before",
        "lose_answer",
        "delay_apply",
        "task_error",
        "warnings",
        "silent_noop",
        "hang",
        "hold_task",
    }
)
# Name -> (status, text); `{vmid}` is filled in from the path.
NAMED: dict[str, tuple[int, str]] = {
    "lock_timeout": (500, "can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout"),
    "storage_lock_timeout": (
        500,
        "can't lock file '/var/lock/pve-manager/pve-storage-vmstore' - got timeout",
    ),
    "locked": (500, "VM is locked (backup)"),
    "no_quorum": (500, "cluster not ready - no quorum?"),
    "node_down": (595, "No route to host"),
    "broken_pipe": (596, "Broken pipe"),
    "proxy_timeout": (596, "Connection timed out"),
    "cut_body": (597, "Connection reset by peer"),
    "internal_59x": (599, "Too many redirections"),
    "denied": (403, "Permission check failed (/vms/{vmid}, VM.Audit)"),
    "unauthenticated": (401, "Authentication failed!"),
    "exists": (500, "unable to create VM {vmid}: config file already exists"),
    "not_found": (500, "Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist"),
    "digest": (500, "checksum mismatch (file change by other user?)"),
    "bad_parameter": (400, "Parameter verification failed."),
    "generic": (500, "got no worker upid - start worker failed"),
}
_ids = itertools.count(1)


@dataclass(slots=True, eq=False)
class Fault:
    """Is one rule; `hits` counts how often it has struck."""

    kind: str
    method: str = "*"
    path: str = "*"
    status: int = 500
    reason: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    seconds: float = 0.0
    text: str = ""
    leave: bool = False
    count: int = 1
    times: int | None = None
    after: int = 0
    id: int = field(default_factory=lambda: next(_ids))
    matches: int = 0
    hits: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            message = f"unknown kind of fault '{self.kind}', it is one of {', '.join(sorted(KINDS))}"
            raise ValueError(message)

    def concerns(self, method: str, path: str) -> bool:
        """Tells whether it is about this request: a glob, or a regular expression when it starts with ^.

        The method WRITE stands for every method but GET.
        """
        if self.method == "WRITE" and method == "GET":
            return False
        if self.method not in {"*", "WRITE", method}:
            return False
        if self.path.startswith("^"):
            return re.search(self.path, path) is not None
        return fnmatch.fnmatchcase(path, self.path) or path.endswith(self.path)

    @property
    def spent(self) -> bool:
        return self.times is not None and self.hits >= self.times

    def for_task(self) -> TaskFault | None:
        """Is the part of it that concerns the task which the request starts."""
        match self.kind:
            case "task_error":
                return TaskFault(error=self.text or self.reason, leave=self.leave)
            case "warnings":
                return TaskFault(warnings=self.count)
            case "silent_noop":
                return TaskFault(noop=True)
            case "hold_task":
                return TaskFault(hold=True)
            case _:
                return None

    def summary(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


class Faults:
    """Is the list of rules; the first that applies is taken, later rules wait for their turn."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)

    def add(self, kind: str, method: str = "*", path: str = "*", **details: Any) -> Fault:
        """Adds a rule and answers it. A name out of NAMED as `kind` is that answer."""
        if kind in NAMED:
            status, reason = NAMED[kind]
            details = {"status": status, "reason": reason, **details}
            kind = "answer"
        known = Fault.__dataclass_fields__
        unknown = sorted(set(details) - set(known))
        if unknown:
            message = f"unknown detail of a fault: {', '.join(unknown)}"
            raise ValueError(message)
        rule = Fault(kind, method.upper(), path, **details)
        self._rules.append(rule)
        return rule

    def add_from(self, document: Mapping[str, Any]) -> Fault:
        """Adds a rule from a JSON object."""
        details = dict(document)
        kind = details.pop("kind", details.pop("name", None))
        if not isinstance(kind, str):
            message = "a fault needs a kind"
            raise TypeError(message)
        return self.add(kind, str(details.pop("method", "*")), str(details.pop("path", "*")), **details)

    def remove(self, rule: Fault) -> None:
        self._rules.remove(rule)

    def clear(self) -> None:
        self._rules.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """Answers the rule that strikes this request, and counts."""
        chosen: Fault | None = None
        for rule in self._rules:
            if not rule.concerns(method, path):
                continue
            rule.matches += 1
            if chosen is None and not rule.spent and rule.matches > rule.after:
                rule.hits += 1
                chosen = rule
        return chosen
