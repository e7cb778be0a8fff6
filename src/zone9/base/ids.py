"""Prefixed, sortable ids: `srv_06a3…`. The time comes first, so a list by id is a list by age.

Forty-eight bits of milliseconds and eighty random bits in Crockford's base 32, as in ULID, in lower case.
"""

import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """Returns a fresh id; the clock only sorts here, it decides nothing."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return f"{prefix}_" + "".join(ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def is_id(text: str, prefix: str) -> bool:
    """Tells an id of this prefix from a name: users may give either."""
    head, _, tail = text.partition("_")
    return head == prefix and len(tail) == 26 and all(char in ALPHABET for char in tail)
