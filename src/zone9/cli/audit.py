"""The audit: list it, note its head, and check the chain here, from what the API serves."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from zone9.cli import output
from zone9.cli.client import CommandError
from zone9.cli.context import Session
from zone9.model.audit import Broken, Head, Link, follow, reaches

audit = typer.Typer(no_args_is_help=True, help="who asked for what")
PAGE = 1000


@audit.command("list")
def list_entries(ctx: typer.Context) -> None:
    """Lists the newest entries."""
    session: Session = ctx.obj
    items = session.api.get("/v1/audit", page_size=50, order="newest")["items"]
    if session.json:
        output.show_json(items)
        return
    lines = (
        (one["seq"], one["at"], one["actor"], one["action"], one["kind"], one["name"], one["intent_version"])
        for one in items
    )
    output.table(("entry", "at", "who", "what", "kind", "name", "version"), lines)


@audit.command()
def head(ctx: typer.Context) -> None:
    """Prints the head of the chain, to be kept where this installation cannot write."""
    print(ctx.obj.api.get("/v1/audit/head")["head"])


@audit.command()
def verify(
    ctx: typer.Context,
    head: Annotated[str | None, typer.Option(help="a head printed earlier, SEQ:HASH")] = None,
) -> None:
    """Computes every hash again; exit code 1 where an entry was edited, removed or moved."""
    session: Session = ctx.obj
    try:
        noted = None if head is None else Head.parse(head)
    except ValueError as error:
        raise CommandError(str(error), 2) from None
    # Read first: the chain may have grown when the last page comes, and may not have become shorter.
    there = Head.parse(session.api.get("/v1/audit/head")["head"])
    end = Head()
    try:
        for links in _pages(session):
            end = follow(end, links, noted)
        for wanted in (there, *([noted] if noted else [])):
            reaches(end, wanted)
    except Broken as broken:
        raise CommandError(f"the audit does not hold: {broken}", 1) from None
    if session.json:
        output.show_json({"entries": end.seq, "head": str(end)})
    else:
        print(f"{end.seq} entries hold; the head is {end}")


def _pages(session: Session) -> Iterator[list[Link]]:
    token: str | None = "0"
    while token is not None:
        page: dict[str, Any] = session.api.get("/v1/audit", page_size=PAGE, page_token=token)
        yield [Link(one["seq"], one["entry"], one["hash"]) for one in page["items"]]
        token = page["next_page_token"]
