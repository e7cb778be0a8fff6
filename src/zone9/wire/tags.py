"""What names one config of one appliance: epoch, version and digest, as an entity tag.

    "v12-1-9f86d081884c7d65"      version 12 of epoch 1

The epoch rises when a database is restored, so a tag from before then never matches. A bare `"v12"` matches by version,
and only in the first epoch, since it does not say which one it means.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FIRST_EPOCH = 1
_TAG = re.compile(r'(?:W/)?"?v(0|[1-9]\d{0,17})(?:-([1-9]\d{0,8})-([0-9a-f]{16}))?"?')


class Tag(NamedTuple):
    """Is a tag; one that is bare has neither epoch nor digest."""

    version: int
    epoch: int | None = None
    digest: str | None = None

    def __str__(self) -> str:
        return (
            f'"v{self.version}"' if self.digest is None else f'"v{self.version}-{self.epoch}-{self.digest}"'
        )


def parse(text: str) -> Tag | None:
    """Returns the tag, strong or weak and with or without its quotes; None for anything else."""
    found = _TAG.fullmatch(text.strip())
    if found is None:
        return None
    epoch = None if found[2] is None else int(found[2])
    return Tag(int(found[1]), epoch, found[3])


def matches(header: str | None, current: Tag) -> bool:
    """Compares an If-None-Match header weakly with the current tag. `*` is nobody's tag and matches nothing."""
    for text in (header or "").split(","):
        one = parse(text)
        if one is None or one.version != current.version:
            continue
        if one.digest is None:
            if current.epoch == FIRST_EPOCH:
                return True
        elif one == current:
            return True
    return False
