"""The ways in which Proxmox refuses: as an HTTP status, as an `errors` object, or as a task's exit text.

One class carries all three, because the same refusal comes out differently depending on where it is raised:
inside a worker it becomes the exit text, outside one the reason phrase. Nothing here decides anything.
"""

from collections.abc import Mapping
from typing import Any

BAD_PARAMETERS = "Parameter verification failed."


class PveError(Exception):
    """Is one refusal: `text` without its final newline, and field errors when it is a 400."""

    def __init__(self, text: str, *, status: int = 500, errors: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.errors = dict(errors) if errors else None

    @property
    def reason(self) -> str:
        """Is what the status line can carry: the first line (pve-facts 6, and the recorded answers)."""
        return self.text.split("\n", 1)[0].rstrip()

    @property
    def body(self) -> dict[str, Any] | None:
        if self.status == 596:
            return None
        newline = "" if self.status == 501 else "\n"
        answer: dict[str, Any] = {"data": None, "message": self.text + newline}
        if self.errors:
            answer["errors"] = self.errors
        return answer

    @property
    def exit_text(self) -> str:
        """Is what a worker that dies of it leaves as its exit status."""
        if not self.errors:
            return self.text.replace("\n", " ").strip()
        fields = " ".join(f"{key}: {why.strip()}" for key, why in self.errors.items())
        return f"{self.status} {self.text} {fields}"


class Unauthenticated(Exception):
    """Is a 401: an empty body after three seconds, the reason phrase carries the text (pve-facts 6.4)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Curt(Exception):
    """Is a refusal by the HTTP server itself after some seconds: never JSON, `body` repeats the reason.

    Status 0 means that it says nothing and closes the connection.
    """

    def __init__(self, status: int, reason: str, *, seconds: float = 0.0, body: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.seconds = seconds
        self.text = f"{reason}\n" if body else ""


class ConnectionCut(Exception):
    """Means that this request gets no HTTP answer at all."""


def refused(**errors: str) -> PveError:
    """Is the 400 for parameters that do not pass."""
    return PveError(BAD_PARAMETERS, status=400, errors=errors)


def bad(errors: Mapping[str, str]) -> PveError:
    """Is `refused` for parameters whose names are not identifiers."""
    return PveError(BAD_PARAMETERS, status=400, errors=errors)


def denied(detail: str = "") -> PveError:
    """Is the 403; composed checks fail without a detail."""
    return PveError(
        f"Permission check failed ({detail})" if detail else "Permission check failed", status=403
    )


def no_config(node: str, vmid: int) -> PveError:
    """Is the only answer that says that a VM is not there."""
    return PveError(f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist")


def lock_timeout(vmid: int) -> PveError:
    """Is what waiting in vain for a VM's config lock ends in."""
    return PveError(f"can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout")
