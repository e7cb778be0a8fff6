"""What was asked of the sandbox, and what was asked wrongly.

A request that Proxmox's schema refuses, or that asks for something the sandbox does not model, is a violation:
a test suite fails on any that it did not provoke on purpose.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

KEPT = 50_000


@dataclass(slots=True)
class Asked:
    """Is one request and how it was met; `applied` is None until the work was done or refused."""

    at: float
    method: str
    path: str
    query: dict[str, Any]
    body: dict[str, Any]
    user: str | None = None
    status: int | None = None
    reason: str = ""
    answered: bool = False
    applied: bool = False
    fault: str | None = None
    upid: str | None = None

    @property
    def params(self) -> dict[str, Any]:
        return {**self.query, **self.body}

    def summary(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class Violation:
    """Is one request that no well-behaved client sends."""

    method: str
    path: str
    why: str
    errors: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        detail = "; ".join(f"{key}: {text.strip()}" for key, text in self.errors.items())
        return f"{self.method} {self.path}: {self.why}{' - ' + detail if detail else ''}"


class Journal:
    """Keeps the newest requests and every violation."""

    def __init__(self) -> None:
        self.requests: deque[Asked] = deque(maxlen=KEPT)
        self.violations: list[Violation] = []
