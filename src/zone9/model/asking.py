"""Who asks, and what comes of it: the vocabulary between the API and the use cases."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["admin", "owner", "operator", "member", "viewer"]
RANK = {"viewer": 0, "member": 1, "operator": 2, "owner": 3, "admin": 4}


@dataclass(frozen=True, slots=True)
class Scope:
    """Is who asks and for which project; every query takes one. `project` is None for an administrator
    who named none: then only global kinds can be written.
    """

    token: str
    actor: str
    role: Role
    project: str | None

    def may(self, role: Role) -> bool:
        return RANK[self.role] >= RANK[role]


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """Is one line of a dry run: what would be done, and its class (hot, pending_restart, rebuild, never)."""

    step: str
    change: str
    args: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"step": self.step, "class": self.change, "args": dict(self.args)}


@dataclass(frozen=True, slots=True)
class Answer:
    """Is what a mutation came to. `job` is None when nothing is left to do (then the API answers 200)."""

    resource: str
    version: int
    job: str | None
    plan: tuple[PlannedChange, ...] | None = None
    diffs: tuple[Mapping[str, Any], ...] = ()
