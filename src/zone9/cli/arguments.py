"""`--key value` to a spec, by the spec model's own fields; the API checks the values.

A list's singular adds to it (`--tag a --tag b`), an object's members are reached with a dot (`--stop.mode hard`),
and an entry of a list of objects is its first member (`--network lan`, or `--network lan=10.0.0.5` with the second).
A single value may be read from a file (`--public-key @id_ed25519.pub`) or from standard input (`@-`); a secret must be,
since every process of the machine can read a command's arguments.
"""

import getpass
import sys
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from zone9.cli.client import CommandError


def spec_of(model: type[BaseModel], arguments: list[str]) -> dict[str, Any]:
    """Returns what the arguments say. Raises CommandError (2) for a name that the model does not have."""
    spec: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or len(word) < 3:
            raise CommandError(f"unexpected argument: {word}", 2)
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not rest:
                raise CommandError(f"--{name} needs a value", 2)
            value = rest.pop(0)
        _put(model, spec, name, value)
    return spec


def _put(model: type[BaseModel], spec: dict[str, Any], name: str, value: str) -> None:
    head, _, tail = name.replace("-", "_").partition(".")
    plural = f"{head}s"
    if head in model.model_fields:
        field = head
    elif plural in model.model_fields and not tail:
        field = plural
    else:
        known = ", ".join(f"--{one.replace('_', '-')}" for one in model.model_fields)
        raise CommandError(f"there is no --{name}; there is {known}", 2)
    inner = _inner(model, field)
    given: Any = None if value == "null" else value
    if tail:
        spec.setdefault(field, {})[tail] = given
    elif _is_list(model, field):
        entries = spec.setdefault(field, [])
        if value in {"", "null"}:
            return
        for one in value.split(",") if inner is None and field == head else [value]:
            entries.append(_entry(inner, one))
    else:
        spec[field] = _single(model, field, given)


def _single(model: type[BaseModel], field: str, given: Any) -> Any:
    option = f"--{field.replace('_', '-')}"
    if isinstance(given, str) and given.startswith("@"):
        return _read(option, given[1:])
    if given is not None and _is_secret(model, field):
        sentence = (
            f"a secret is not taken from the command line: give {option} @FILE, or {option} @- and type it"
        )
        raise CommandError(sentence, 2)
    return given


def _read(option: str, path: str) -> str:
    try:
        if path != "-":
            return Path(path).expanduser().read_text(encoding="utf-8").strip()
        return getpass.getpass(f"{option}: ") if sys.stdin.isatty() else sys.stdin.read().strip()
    except OSError as error:
        raise CommandError(f"{option}: {path} cannot be read: {error.strerror}", 2) from None
    except (UnicodeDecodeError, ValueError):
        raise CommandError(f"{option}: {path} is not text", 2) from None


def _is_secret(model: type[BaseModel], field: str) -> bool:
    extra = model.model_fields[field].json_schema_extra
    return isinstance(extra, dict) and extra.get("writeOnly") is True


def _entry(inner: type[BaseModel] | None, text: str) -> Any:
    if inner is None:
        return text
    first, *others = inner.model_fields
    value, equals, more = text.partition("=")
    return {first: value, **({others[0]: more} if equals and others else {})}


def _is_list(model: type[BaseModel], field: str) -> bool:
    return typing.get_origin(model.model_fields[field].annotation) is list


def _inner(model: type[BaseModel], field: str) -> type[BaseModel] | None:
    for part in typing.get_args(model.model_fields[field].annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None
