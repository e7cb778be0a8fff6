"""How long to wait before the next try. Jitter keeps a crowd from coming back at the same instant."""

import random

FIRST_SECONDS = 0.5
CEILING_SECONDS = 600.0


def delay(failures: int, *, first: float = FIRST_SECONDS, ceiling: float = CEILING_SECONDS) -> float:
    """Returns the seconds to wait after this many failures in a row: doubling, full jitter in the upper half."""
    whole = min(ceiling, first * 2.0 ** min(failures, 32))
    return whole * (0.5 + random.random() / 2)


def jittered(seconds: float) -> float:
    """Returns a delay of 75 to 125 % of `seconds`."""
    return seconds * (0.75 + random.random() / 2)
