"""What is asked for, as its own model understands it: names, validation with pointers, merge patches. All pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from zone9.base.errors import FieldProblem, Refused
from zone9.model.ports import Product

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def check_name(name: str) -> None:
    """Raises Refused unless the name is a DNS label, which every product's name becomes somewhere."""
    if not NAME.fullmatch(name):
        sentence = (
            "a name has 1 to 63 characters of a-z, 0-9 and -, and begins and ends with a letter or digit"
        )
        raise Refused(sentence, code="bad_name", fields=(FieldProblem("/name", sentence, "bad_name"),))


def validated(product: Product, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the spec as its own model understands it, or raises Refused with a pointer for each fault."""
    try:
        model = product.spec_model.model_validate(dict(spec))
    except ValidationError as error:
        fields = tuple(
            FieldProblem(
                "/spec"
                + "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in one["loc"]),
                str(one["msg"]).removeprefix("Value error, "),
                str(one["type"]),
            )
            for one in error.errors(include_url=False, include_context=False, include_input=False)
        )
        raise Refused(
            fields[0].message, code="invalid_spec", fields=fields, pointer=fields[0].pointer
        ) from None
    dumped: dict[str, Any] = model.model_dump(mode="json")
    return dumped


def merged(target: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `target` after a JSON merge patch (RFC 7396): null removes a member."""
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            result[key] = merged(result.get(key), value)
        else:
            result[key] = value
    return result


def same_json(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Compares as JSON, since one side comes from the database."""
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)
