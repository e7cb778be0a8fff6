"""Whether a machine gets an identity. Pure, and tested as a table.

A token is for one machine and one secret. What differs is a copy of a disk, a backup or a snoop in Proxmox's own log:
before the first config was proven nobody can tell which of two is the real one, so neither is; afterwards the first is.
"""

from dataclasses import dataclass
from typing import Literal

from zone9.model.facts import Message

TokenState = Literal["open", "used", "frozen", "void"]
DeviceState = Literal["enrolled", "active", "frozen", "revoked"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Is what is known of the token that was sent, of the device that it made, and how the request compares."""

    token: TokenState
    expired: bool
    same_machine: bool
    same_product: bool
    device: DeviceState | None = None
    same_secret: bool = False
    proven: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Is what to answer: a new identity, the one that was given before, or a refusal with its HTTP status."""

    answer: Literal["new", "again", "refused"]
    status: int = 200
    code: str = ""
    alarm: Message | None = None
    freeze: bool = False


def decide(claim: Claim | None) -> Decision:
    """Returns the decision about one request; None stands for a token that nobody knows."""
    if claim is None or claim.token == "void":
        return _refused(401, "token_unknown")
    if not claim.same_machine:
        return _refused(403, "token_other_machine", alarm=CLONE)
    if not claim.same_product:
        return _refused(403, "token_other_product")
    if claim.token == "frozen" or claim.device in {"frozen", "revoked"}:
        return _refused(409, "token_frozen")
    if claim.token == "open":
        return _refused(401, "token_expired") if claim.expired else Decision("new")
    if claim.same_secret:
        # A lost answer strands nobody; whoever has authenticated has had it.
        return Decision("again") if claim.device == "enrolled" else _refused(409, "token_spent")
    if claim.proven:
        return _refused(409, "token_spent", alarm=LATE)
    return _refused(409, "token_frozen", alarm=TWICE, freeze=True)


def _refused(status: int, code: str, *, alarm: Message | None = None, freeze: bool = False) -> Decision:
    return Decision("refused", status, code, alarm, freeze)


CLONE = Message(
    "token_other_machine",
    "another machine has sent this appliance's bootstrap token: a clone or a restored backup of it; it got nothing",
)
LATE = Message(
    "token_sent_again",
    "the bootstrap token of this appliance was sent again with another secret, after it had been used; it got nothing",
)
TWICE = Message(
    "token_claimed_twice",
    "two have claimed this appliance's bootstrap token before its first config was proven; neither gets anything "
    "until a new token is issued",
)
