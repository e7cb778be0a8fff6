"""Guests: every VM and container of every region, whose they are, and taking one under management."""

from typing import Annotated, Any

import typer

from zone9.cli import output
from zone9.cli.client import CommandError
from zone9.cli.context import Session
from zone9.cli.kinds import DryRun, Wait, change

guests = typer.Typer(no_args_is_help=True, help="every VM and container of every region")
Region = Annotated[str, typer.Argument(help="the region's name or id")]
Vmid = Annotated[int, typer.Argument(help="the VM's number in Proxmox")]
Narrow = Annotated[str | None, typer.Option()]


@guests.command("list")
def list_guests(
    ctx: typer.Context,
    region: Narrow = None,
    pool: Narrow = None,
    tag: Narrow = None,
    node: Narrow = None,
    project: Narrow = None,
    origin: Annotated[str | None, typer.Option(help="managed, adopted or unknown")] = None,
    status: Annotated[str | None, typer.Option(help="such as running, stopped, missing or unknown")] = None,
    q: Annotated[str | None, typer.Option("--search", help="a part of the name, or the VMID")] = None,
    by: Annotated[str | None, typer.Option(help="count them by region, pool, tag or node instead")] = None,
) -> None:
    """Lists guests as the newest passes saw them, or counts them."""
    session: Session = ctx.obj
    narrowed: dict[str, Any] = {
        "region": region, "pool": pool, "tag": tag, "node": node, "project": project, "origin": origin,
        "status": status, "q": q,
    }  # fmt: skip
    if by is not None:
        items = session.api.get("/v1/guests/groups", by=by, **narrowed)["items"]
        counts = ("region", "key", "guests", "managed", "running", "not_seen")
        _told(session, items, counts, key=by)
        return
    items = list(session.api.all("/v1/guests", **narrowed))
    columns = ("region_name", "vmid", "name", "status", "origin", "server_name", "project", "node", "pool")
    _told(session, items, columns)


def _told(
    session: Session, items: list[dict[str, Any]], columns: tuple[str, ...], *, key: str = "key"
) -> None:
    if session.json:
        output.show_json(items)
        return
    shown = {"region_name": "region", "server_name": "server", "key": key, "not_seen": "not seen"}
    output.table(
        [shown.get(column, column) for column in columns],
        ([one[column] for column in columns] for one in items),
    )


@guests.command()
def show(ctx: typer.Context, region: Region, vmid: Vmid) -> None:
    """Shows one, and the newest of what others did to it."""
    session: Session = ctx.obj
    one = session.api.get(f"/v1/guests/{region}/{vmid}")
    if session.json:
        output.show_json(one)
        return
    output.table(("", ""), ((key, value) for key, value in one.items() if key not in {"acts", "region"}))
    if one["acts"]:
        output.table(("at", "who", "what"), ((act["at"], act["who"], act["what"]) for act in one["acts"]))


@guests.command()
def attribute(
    ctx: typer.Context,
    region: Region,
    vmid: Vmid,
    project: Annotated[str | None, typer.Argument(help="the project that it belongs to from now on")] = None,
    nobody: Annotated[bool, typer.Option("--nobody", help="it belongs to no project")] = False,
) -> None:
    """Says whose a guest is; nothing is written to Proxmox."""
    session: Session = ctx.obj
    if (project is None) != nobody:
        raise CommandError("give a project, or --nobody", 2)
    one = session.api.send("PATCH", f"/v1/guests/{region}/{vmid}", {"project": project})
    output.show_json(one) if session.json else output.console().print(f"{vmid} {one['project'] or '-'}")


@guests.command()
def manage(
    ctx: typer.Context,
    region: Region,
    vmid: Vmid,
    name: Annotated[str | None, typer.Option(help="the server's name; the VM's own when left out")] = None,
    wait: Wait = True,
    dry_run: DryRun = False,
) -> None:
    """Takes a VM under management as it is; `zone9 server release` undoes it."""
    body = {} if name is None else {"name": name}
    change(
        ctx.obj, "POST", f"/v1/guests/{region}/{vmid}/manage", body, wait=wait, dry_run=dry_run,
        collection="servers",
    )  # fmt: skip
