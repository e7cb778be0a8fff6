"""`zone9 apply -f stack.yaml`: a list of `kind, name, spec`, asked for in the order in which it can stand.

What the file leaves out is not touched, unless `--prune`, which shows what it would delete and asks.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from zone9.cli import output
from zone9.cli.client import Api, CommandError
from zone9.cli.context import Session
from zone9.cli.words import say
from zone9.products.registry import registry


def apply(
    ctx: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", help="the stack, YAML")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be done")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="delete what the file leaves out, of the kinds it names")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before pruning")] = False,
) -> None:
    """Asks for everything in a file, and waits until it was read back."""
    session: Session = ctx.obj
    asked = read(file)
    products = registry()
    order = {kind: number for number, kind in enumerate(products)}
    asked.sort(key=lambda one: order[one["kind"]])
    told = []
    for one in asked:
        path = f"/v1/{products[one['kind']].collection}"
        told.append(_ask(session, path, one, dry_run=dry_run))
    if prune:
        _prune(session, asked, dry_run=dry_run, yes=yes)
    if session.json:
        output.show_json(told)


def read(file: Path) -> list[dict[str, Any]]:
    """Reads a stack. Raises CommandError (2) that names the entry which is wrong."""
    try:
        loaded = yaml.safe_load(file.read_text())
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}", 2) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: not YAML: {' '.join(str(error).split())}", 2) from None
    if not isinstance(loaded, list) or not loaded:
        raise CommandError(f"{file}: not a list of kind, name, spec", 2)
    kinds = registry()
    seen: set[tuple[str, str]] = set()
    for number, one in enumerate(loaded):
        where = f"{file}: entry {number + 1}"
        if (
            not isinstance(one, dict)
            or set(one) != {"kind", "name", "spec"}
            or not isinstance(one["kind"], str)
            or not isinstance(one["name"], str)
            or not isinstance(one["spec"], dict)
        ):
            raise CommandError(f"{where} is not kind, name, spec", 2)
        if one["kind"] not in kinds:
            raise CommandError(f"{where}: there is no kind {one['kind']}", 2)
        key = (one["kind"], one["name"])
        if key in seen:
            raise CommandError(f"{where}: {one['kind']} {one['name']} is there twice", 2)
        seen.add(key)
    return loaded


def _ask(session: Session, path: str, one: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
    api, name = session.api, str(one["name"])
    rehearse = "true" if dry_run else None
    if _there(api, path, name):
        answer = api.send("PATCH", f"{path}/{name}", {"spec": one["spec"]}, dry_run=rehearse)
    else:
        try:
            answer = api.send("POST", path, {"name": name, "spec": one["spec"]}, dry_run=rehearse)
        except CommandError as error:
            if not dry_run:
                raise
            # In a rehearsal nothing before it was made either, so what it stands on may be missing.
            answer = {
                "plan": [{"step": "create", "class": "hot", "args": {}}],
                "diffs": [],
                "note": error.line,
            }
    if dry_run:
        steps = ", ".join(f"{step['step']} ({step['class']})" for step in answer["plan"]) or say(
            "nothing to do"
        )
        if not session.json:
            output.console().print(f"{one['kind']} {name}: {steps}")
        return {"kind": one["kind"], "name": name, **answer}
    job = answer["job"]
    if job is not None:
        job = output.follow(api, job["id"], quiet=session.json)
        output.ended(job)
    if not session.json:
        version = answer["resource"]["intent_version"]
        done = (
            say("nothing to do")
            if job is None
            else say("is at version {version}, read back", version=version)
        )
        output.console().print(f"{one['kind']} {name} {done}")
    return {"kind": one["kind"], "name": name, "resource": answer["resource"], "job": job}


def _there(api: Api, path: str, name: str) -> bool:
    return any(one["name"] == name for one in api.get(path, name=name)["items"])


def _prune(session: Session, asked: list[dict[str, Any]], *, dry_run: bool, yes: bool) -> None:
    products = registry()
    kept = {(one["kind"], str(one["name"])) for one in asked}
    kinds = [kind for kind in reversed(products) if any(one["kind"] == kind for one in asked)]
    gone = [
        (kind, one["name"])
        for kind in kinds
        for one in session.api.all(f"/v1/{products[kind].collection}")
        if (kind, one["name"]) not in kept
    ]
    if not gone:
        return
    names = ", ".join(f"{kind} {name}" for kind, name in gone)
    if dry_run:
        output.console().print(f"delete: {names}")
        return
    if not yes and not typer.confirm(say("delete {names}?", names=names)):
        raise CommandError("nothing was pruned", 1)
    for kind, name in gone:
        answer = session.api.send("DELETE", f"/v1/{products[kind].collection}/{name}")
        if answer["job"] is not None:
            output.ended(output.follow(session.api, answer["job"]["id"], quiet=session.json))
