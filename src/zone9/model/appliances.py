"""What an appliance has said of itself, as it is kept: truth about what runs there, and never about what was sent to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from zone9.model.facts import Intent

DeviceState = Literal["enrolled", "active", "frozen", "revoked"]
STALE_SECONDS = 30.0  # a report that is older says nothing about now


@dataclass(frozen=True, slots=True)
class Report:
    """Is the last status of one device. `state` changes only when something happened, `counters` with every status."""

    device: str
    device_state: DeviceState
    boot_id: str
    seen_at: datetime
    changed_at: datetime
    epoch: int = 1
    applied_version: int | None = None
    config_hash: str | None = None
    failed_version: int | None = None
    error: str | None = None
    running_version: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, Any] = field(default_factory=dict)


class Pulled(Protocol):
    """Is the part of a product whose appliances pull: its name in their URLs, and what they are told.

    Both methods are pure, so that a config is a function of its version.
    """

    pull: str

    def secrets(self, intent: Intent) -> tuple[str, ...]:
        """Returns the references of the sealed secrets that the document needs."""

    def document(self, intent: Intent, secrets: Mapping[str, str]) -> Mapping[str, Any]:
        """Returns what an appliance is to do; `secrets` has each reference's plain text."""
