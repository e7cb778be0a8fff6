"""What passes between the layers: intent as loaded, verdicts, differences, records of writes.

All of it is frozen. `facts` of a resource are what zone9 wrote down in order to find its own work again
(VMID, node, uuid, nonce, MAC addresses): neither intent nor truth.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from zone9.model.evidence import Evidence
from zone9.model.states import ChangeClass, Convergence, Health, Phase


@dataclass(frozen=True, slots=True)
class Intent:
    """Is one version of what somebody asked for, with the catalogue's answers of that moment (`resolved`)."""

    id: str
    kind: str
    project: str | None
    name: str
    version: int
    applied_version: int | None
    spec: Mapping[str, Any]
    resolved: Mapping[str, Any]
    facts: Mapping[str, Any]
    phase: Phase
    owner: str | None = None
    convergence: Convergence = Convergence.PENDING
    given_up_version: int | None = None
    health: Health = Health.UNKNOWN


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """Is one field in which truth differs from intent, and what it costs to put right.

    `applied` is what was read when they were last equal. `drift`: it was changed from outside, by `who` (a user of
    Proxmox's; None: no list of Proxmox's names anybody), who did `what`, `at` by Proxmox's clock; `act` is the record.
    `traces` are the keys and tasks of Proxmox that change the field.
    """

    field: str
    asked: Any
    read: Any
    change: ChangeClass = ChangeClass.HOT
    applied: Any = None
    drift: bool = False
    who: str | None = None
    what: str | None = None
    at: datetime | None = None
    act: str | None = None
    traces: frozenset[str] = frozenset()

    def as_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "asked": self.asked,
            "applied": self.applied,
            "read": self.read,
            "class": str(self.change),
            "drift": self.drift,
            "who": self.who,
            "what": self.what,
            "at": None if self.at is None else self.at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class Message:
    """Is a sentence by code and words, so that it can be shown in either language; `text` is the English one."""

    code: str
    text: str
    words: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "text": self.text, "words": dict(self.words)}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is what a measurement concluded, for which version, when (before its first read), and who was asked."""

    convergence: Convergence
    health: Health
    observed_intent_version: int
    measured_at: datetime
    witness: str
    message: Message | None = None
    diffs: tuple[FieldDiff, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "convergence": str(self.convergence),
            "health": str(self.health),
            "observed_intent_version": self.observed_intent_version,
            "measured_at": self.measured_at.isoformat(),
            "witness": self.witness,
            "message": self.message.as_json() if self.message else None,
            "diffs": [diff.as_json() for diff in self.diffs],
        }


@dataclass(frozen=True, slots=True)
class ChildState:
    """Is a child as its parent sees it; `applied` means that its newest version was read back."""

    id: str
    kind: str
    name: str
    key: str
    owner_version: int | None
    phase: Phase
    applied: bool
    health: str
    observed: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Is what the store knows of a resource's own work when a look begins; `at` is the database's time then."""

    at: datetime
    facts: Mapping[str, Any]
    open_writes: tuple["WriteRecord", ...]
    last: Mapping[str, "WriteRecord"]
    children: tuple[ChildState, ...] = ()
    evidence: Evidence = field(default_factory=Evidence)


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Is committed before a write leaves for Proxmox; it stays open until its outcome is known.

    `age_seconds` is by the database's clock. `upid` is Proxmox's task id, None while none was answered.
    """

    id: str
    resource: str
    job: str | None
    step: str
    target: str
    node: str
    request: Mapping[str, Any]
    upid: str | None
    opened_at: datetime
    age_seconds: float
    outcome: str | None = None
    exit_text: str | None = None
    closed_age_seconds: float | None = None
    intent_version: int = 0
