"""Why: between "may I?" and the bytes of a write lies a queue and perhaps a slow handshake.

A worker that was stopped for half a minute, or whose job another worker has taken over, must write nothing.
So whoever writes hands in a permit, and the client asks it twice: once after the write's turn has come, and
once as the last thing before its bytes leave. This module never decides who may write; the caller does.
"""

from typing import Protocol


class Permit(Protocol):
    """Is the right to make one write; both methods raise when it is gone."""

    async def confirm(self) -> None:
        """Reads the fence and the VM's identity again; may read with `client.get(..., slot_held=True)`."""

    def still_fresh(self) -> None:
        """Raises if `confirm` ended more than a second ago; called just before the bytes leave."""
