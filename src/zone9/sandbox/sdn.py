"""Software-defined networks as configuration: what is written, what was applied last, and how the two differ.

Only `apply` moves one onto the other, as in Proxmox (PVE/Network/SDN.pm). No frame is ever carried by these.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

Objects = dict[str, dict[str, Any]]
KINDS = ("zone", "vnet", "subnet")


def _empty() -> dict[str, Objects]:
    return {kind: {} for kind in KINDS}


@dataclass(slots=True)
class Sdn:
    """Holds zones, vnets and subnets by id, each as written; `running` is as applied, None before the first time."""

    written: dict[str, Objects] = field(default_factory=_empty)
    running: dict[str, Objects] | None = None

    def apply(self) -> None:
        self.running = json.loads(json.dumps(self.written))

    def listed(self, kind: str, *, pending: bool = False, running: bool = False) -> list[dict[str, Any]]:
        """Returns the rows of one kind as its list shows them."""
        if running:
            return [{kind: id_, **one} for id_, one in (self.running or _empty())[kind].items()]
        if pending:
            return self._pending(kind)
        digest = self._digest(kind)
        return [{kind: id_, **one, "digest": digest} for id_, one in self.written[kind].items()]

    def _pending(self, kind: str) -> list[dict[str, Any]]:
        """Shows what an apply would change: `state` is new, changed or deleted, or is left out."""
        before, after = (self.running or _empty())[kind], self.written[kind]
        found = []
        for id_ in sorted({*before, *after}):
            old, new = before.get(id_), after.get(id_)
            row: dict[str, Any] = {kind: id_, "type": (new or old or {})["type"], "digest": None}
            if old is not None:
                row = {**row, **old}
            if old is None or new is None:
                row["state"] = "new" if old is None else "deleted"
                row["pending"] = {key: value for key, value in (new or {}).items() if key != "type"}
            elif changed := {
                key: new.get(key, "deleted") for key in {*old, *new} if old.get(key) != new.get(key)
            }:
                row["state"] = "changed"
                row["pending"] = changed
            found.append(row)
        return found

    def _digest(self, kind: str) -> str:
        text = json.dumps(self.written[kind], sort_keys=True)
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
