"""A resource's ETag: the installation's epoch, its intent version and a hash of what was asked.

It is for `If-Match` alone. Truth changes all the time, so a GET of a resource never answers 304.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def etag(epoch: int, version: int, name: str, spec: Mapping[str, Any]) -> str:
    """Returns a strong ETag, quoted as RFC 9110 wants it."""
    text = json.dumps([name, spec], sort_keys=True, separators=(",", ":"), default=str)
    return f'"e{epoch}-v{version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"'


def matches(header: str, current: str) -> bool:
    """Compares an `If-Match` header (a list, or `*`) with the current ETag."""
    return header.strip() == "*" or current in [one.strip() for one in header.split(",")]
