"""What deciding produces: steps, children, or a reason to wait. A plan is made without clock, chance or I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zone9.model.facts import FieldDiff, Message
from zone9.model.states import ChangeClass


@dataclass(frozen=True, slots=True)
class Step:
    """Is one act: looked at first, done once, read back.

    `args` are plain data. `effect` names the fields whose read-back must show the asked values when the act
    has worked; a task that says OK while they still differ fails with that difference.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    change: ChangeClass = ChangeClass.HOT
    effect: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Child:
    """Is another resource that a composite product asks for; it is created idempotently on (owner, key)."""

    kind: str
    key: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wait:
    """Ends the run: nothing can be done now. `needs` names what a person must do, if anything;
    `failed` lengthens the pause each time.

    `delay` is in seconds; None means that only a wake-up (or the regular re-measurement) comes back here.
    """

    message: Message
    delay: float | None
    needs: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Is the answer to (intent, truth). No steps, no wait: the truth equals the intent.

    `refusal` stops everything: the plan cannot go on for this version and says why.
    `standing`: the refusal says what truth is, so it ends when truth changes, and nothing has to be asked anew.
    `gone` is the end of a deletion: absence was read back. `left`: the machine was let go of and may still be there.
    `compared`: truth was compared with intent field by field, and what is not in `diffs` is equal; `values` are our fields as they were read.
    `health_message` says what was found wanting though nothing can be done about it here.
    """

    steps: tuple[Step, ...] = ()
    children: tuple[Child, ...] = ()
    wait: Wait | None = None
    refusal: Message | None = None
    diffs: tuple[FieldDiff, ...] = ()
    standing: bool = False
    gone: bool = False
    left: bool = False
    compared: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)
    health: str = "ok"
    health_message: Message | None = None

    def having(self, **more: Any) -> "Plan":
        """Returns the same plan with these fields."""
        return replace(self, **more)
