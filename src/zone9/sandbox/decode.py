"""How Proxmox takes a query or a form apart, its slips included.

An unencoded `=` inside a value cuts it off there, and `;` separates like `&` (pve-facts 6.7).
"""

import json
from typing import Any
from urllib.parse import unquote_plus

from zone9.sandbox.answers import PveError


def urlencoded(text: str) -> dict[str, Any]:
    """Reads a query or a form; a name that comes twice becomes a list."""
    values: dict[str, Any] = {}
    for pair in text.replace(";", "&").split("&"):
        if not pair:
            continue
        name, *rest = pair.split("=")
        key = unquote_plus(name)
        value = unquote_plus(rest[0]) if rest else ""
        if key in values:
            first = values[key]
            values[key] = [*first, value] if isinstance(first, list) else [first, value]
        else:
            values[key] = value
    return values


def body(text: bytes, content_type: str) -> dict[str, Any]:
    """Reads a form or a JSON object into text values."""
    if content_type.startswith("application/json"):
        try:
            document = json.loads(text or b"{}")
        except ValueError as error:
            raise PveError("malformed JSON string", status=400) from error
        if not isinstance(document, dict):
            raise PveError("unexpected JSON document", status=400)
        return {key: plain(value) for key, value in document.items()}
    return urlencoded(text.decode("utf-8", "replace"))


def plain(value: Any) -> Any:
    """Gives a JSON value the text it would have in a form."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value if isinstance(value, str) else str(value)
