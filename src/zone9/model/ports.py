"""The Protocols that join layers: a lower layer calls a higher one only through these, and `wiring` registers it.

A *product* answers four questions (design section 2): what may be asked, what is, what to do, and how one
step is done. The loop, the API and the command line know products through this page alone.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from zone9.base.errors import FieldProblem
from zone9.model.evidence import Evidence
from zone9.model.facts import ChildState, Intent, WriteRecord
from zone9.model.plans import Plan, Step
from zone9.model.states import Phase


class Look(Protocol):
    """Answers the catalogue's questions inside the intent's own transaction."""

    async def find(self, kind: str, ref: str, *, pointer: str) -> Mapping[str, Any]:
        """Returns a live resource (id, name, spec, resolved, observed, facts) by name or id, or raises Refused."""

    async def address(self, network: Mapping[str, Any], *, wanted: str | None) -> str:
        """Takes an address for the resource that is being asked for."""

    async def taken(self, kind: str, **where: Any) -> str | None:
        """Returns the name of another live resource that resolved to these values, if there is one."""

    async def guest(self, region: str, vmid: int) -> Mapping[str, Any] | None:
        """Returns what passes know of a VM or container that is attributed to this project, or None.

        `server` names the live server that has it, `twins` counts others with its uuid.
        """

    async def seal(self, plain: str) -> str:
        """Seals a secret and returns its reference."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Is what the catalogue said at the moment of asking; it is stored with the version."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    spec: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Action:
    """Is a one-off act or a change in the intent with a name of its own, such as `restart`."""

    name: str
    change: Callable[[Intent, Mapping[str, Any]], Mapping[str, Any]]
    body: type[Any] | None = None
    phase: Phase = Phase.LIVE  # DELETING: the act ends the resource's life


class Permit(Protocol):
    """Is the right to send one write: confirmed after the semaphore was taken, and fresh when bytes leave."""

    async def confirm(self) -> None: ...

    def still_fresh(self) -> None: ...


class Work(Protocol):
    """Is what a run lends to a product: everything that an observation or a step may touch."""

    @property
    def measuring(self) -> bool:
        """Tells a `verify` job: nothing may be written."""

    async def driver(self, region: str, *, writing: bool = False) -> Any:
        """Returns the region's driver; products know its type, lower layers do not.

        `writing`: raises Later while the region's self-test finds errors, since what is written there may not be read.
        """

    @property
    def facts(self) -> Mapping[str, Any]:
        """What zone9 wrote down about its own work, as of the beginning of this look."""

    @property
    def at(self) -> datetime:
        """The database's time as this look began."""

    @property
    def evidence(self) -> Evidence:
        """What records of passes and of earlier looks say; it never stands for a reading."""

    @property
    def open_writes(self) -> tuple[WriteRecord, ...]:
        """Writes whose outcome is not known, oldest first."""

    def last_write(self, *steps: str) -> WriteRecord | None:
        """Returns the youngest closed write of these steps."""

    @property
    def children(self) -> tuple[ChildState, ...]:
        """The children that this resource's earlier plans asked for."""

    @property
    def receipts(self) -> MutableMapping[str, Any]:
        """What this run itself has seen of tasks that ended, by task id; such a task never changes again."""

    async def record(self, **facts: Any) -> None:
        """Writes facts down at once, for what is done next."""

    def learn(self, **facts: Any) -> None:
        """Writes facts down at the end of this look, together with what it settled."""

    async def sent(self, write: WriteRecord, upid: str) -> None: ...

    def settle(self, write: WriteRecord, outcome: str, exit_text: str | None = None) -> None:
        """Says what became of a write; it is closed with the document that this observation reads back."""

    async def write(
        self,
        step: Step,
        *,
        target: str,
        node: str,
        request: Mapping[str, Any],
        send: Callable[[Permit], Awaitable[str | None]],
        confirm: Callable[[], Awaitable[None]],
        lease: tuple[str, int] | None = None,
    ) -> tuple[WriteRecord, str | None]: ...

    async def place(self, *, region: str, first: int, last: int, facts: Mapping[str, Any]) -> int: ...

    async def burn(self, *, region: str, vmid: int, why: str) -> None: ...

    async def link(self, *, region: str, vmid: int, facts: Mapping[str, Any]) -> None: ...

    async def burn_foreign(self, region: str, vmids: tuple[int, ...]) -> None: ...

    async def change_spec(self, patch: Mapping[str, Any], *, actor: str, cause: str) -> None: ...

    async def note(self, text: str) -> None: ...

    async def progress(self, percent: float | None) -> None: ...


class Product(Protocol):
    """Is one kind of resource."""

    kind: str
    prefix: str
    collection: str
    is_global: bool
    outside: bool  # False: it exists nowhere but in our database, so a change of it is applied at once
    budget_seconds: float
    spec_model: type[Any]
    actions: Mapping[str, Action]

    def problems(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[FieldProblem, ...]:
        """Returns what of a change cannot be (pure)."""

    async def resolve(
        self, name: str, spec: Mapping[str, Any], before: Intent | None, look: Look
    ) -> Resolved: ...

    def truth_of(self, observed: Mapping[str, Any] | None) -> Any:
        """Returns a stored observation as this product's truth."""

    async def observe(self, intent: Intent, work: Work) -> Any: ...

    def plan(self, intent: Intent, truth: Any) -> Plan: ...

    async def apply(self, step: Step, intent: Intent, truth: Any, work: Work) -> None: ...

    def as_observed(self, truth: Any) -> Mapping[str, Any]:
        """Returns truth as plain data to store and show; no secret in it."""

    def proof_of(self, truth: Any) -> tuple[Mapping[str, Any], str | None]:
        """Returns the document read back (secrets masked) and its digest."""

    def witness(self, intent: Intent) -> str:
        """Says who was asked."""
