"""What is known about a resource's machine beside a look at it: who did what, what drifted before, what passes saw.

It comes from the sweep's records. It is evidence: it names, counts and delays, and never stands for a reading.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Deed:
    """Is one act of somebody else on the machine, not yet the explanation of a drift that is over.

    `at` is by Proxmox's clock. `touched` are config keys, or a task's type.
    """

    uid: str
    at: datetime
    who: str
    what: str
    touched: frozenset[str]


@dataclass(frozen=True, slots=True)
class OpenDrift:
    """Is a field that was found changed from outside and is not as asked yet."""

    field: str
    read: Any
    who: str | None
    what: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Is what the records say as a look begins.

    `deeds` are those that came to be known after truth last equalled intent, oldest first. `set_backs` counts, for
    each field, how often this version was set back within an hour. `good_at` is when the newest pass began whose
    silence about a machine means something, `missing_since` since which one it lists ours no longer, `frozen` why the
    newest pass is not a good one. `twins` are other machines with our machine's identity.
    """

    applied: Mapping[str, Any] = field(default_factory=dict)
    deeds: tuple[Deed, ...] = ()
    drifts: tuple[OpenDrift, ...] = ()
    set_backs: Mapping[str, int] = field(default_factory=dict)
    good_at: datetime | None = None
    missing_since: datetime | None = None
    frozen: tuple[str, ...] = ()
    twins: tuple[int, ...] = ()
