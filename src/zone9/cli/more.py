"""Jobs, events, alarms, tokens and projects."""

import json
from typing import Annotated

import typer

from zone9.cli import output
from zone9.cli.client import CommandError
from zone9.cli.context import Session

jobs = typer.Typer(no_args_is_help=True, help="jobs")
tokens = typer.Typer(no_args_is_help=True, help="API tokens")
alarms = typer.Typer(no_args_is_help=True, help="alarms")
projects = typer.Typer(no_args_is_help=True, help="projects")


@jobs.command("list")
def list_jobs(ctx: typer.Context) -> None:
    """Lists the newest jobs."""
    session: Session = ctx.obj
    items = session.api.get("/v1/jobs", page_size=50)["items"]
    if session.json:
        output.show_json(items)
    else:
        lines = (
            (one["id"], one["kind"], one["resource_name"], one["status"], one["created_at"]) for one in items
        )
        output.table(("id", "kind", "resource", "status", "created"), lines)


@jobs.command()
def show(ctx: typer.Context, job: str) -> None:
    """Shows one job with its steps and evidence."""
    output.show_json(ctx.obj.api.get(f"/v1/jobs/{job}"))


@jobs.command()
def watch(
    ctx: typer.Context,
    job: str,
    wait: Annotated[bool, typer.Option("--wait", help="also while a person has to do something")] = False,
) -> None:
    """Follows a job to its end; exit code 0 only when it was read back."""
    session: Session = ctx.obj
    last = output.follow(session.api, job, quiet=session.json, wait_for_people=wait)
    output.show_json(last) if session.json else output.console().print(output.describe(last))
    output.ended(last)


@jobs.command()
def cancel(ctx: typer.Context, job: str) -> None:
    """Ends an open job; its version is given up."""
    output.console().print(ctx.obj.api.send("POST", f"/v1/jobs/{job}/cancel", {})["status"])


def events(ctx: typer.Context) -> None:
    """Follows what changes, a line each."""
    session: Session = ctx.obj
    for line in session.api.stream("/v1/events"):
        if line.startswith("data: ") and line != "data: {}":
            data = json.loads(line[6:])
            print(json.dumps(data, ensure_ascii=False) if session.json else _told(data), flush=True)


def convergence(
    ctx: typer.Context,
    window: Annotated[int, typer.Option(help="how far to look back, in seconds")] = 86_400,
) -> None:
    """Shows how long things took from asked to read back, and what is under way."""
    session: Session = ctx.obj
    report = session.api.get("/v1/convergence", window=window)
    if session.json:
        output.show_json(report)
        return
    shares = ("p50", "p95", "p99", "longest")
    rows = (
        (one["kind"], one["region_name"], one["count"], *(f"{one[p]:.2f}" for p in shares))
        for one in report["converged"]
    )
    output.table(("kind", "region", "versions", *(f"{p} s" for p in shares)), rows)
    if report["under_way"]:
        waiting = (
            (one["kind"], one["region_name"], one["count"], f"{one['oldest']:.0f}")
            for one in report["under_way"]
        )
        output.table(("under way", "region", "versions", "oldest s"), waiting)


def _told(data: dict[str, object]) -> str:
    rest = {key: value for key, value in data.items() if key not in {"kind", "at", "resource"}}
    return f"{data['at']} {data['kind']} {data['resource'] or ''} {json.dumps(rest, ensure_ascii=False)}"


@tokens.command("create")
def create_token(
    ctx: typer.Context,
    name: str,
    role: Annotated[str, typer.Option(help="admin owner operator member viewer")],
) -> None:
    """Makes a token and shows it this once."""
    made = ctx.obj.api.send("POST", "/v1/tokens", {"name": name, "role": role})
    output.show_json(made) if ctx.obj.json else print(made["token"])


@tokens.command("list")
def list_tokens(ctx: typer.Context) -> None:
    """Lists tokens with their last use."""
    items = list(ctx.obj.api.all("/v1/tokens"))
    if ctx.obj.json:
        output.show_json(items)
    else:
        lines = ((one["id"], one["name"], one["role"], one["project"], one["last_used_at"]) for one in items)
        output.table(("id", "name", "role", "project", "last used"), lines)


@tokens.command("revoke")
def revoke_token(ctx: typer.Context, token: str) -> None:
    """Revokes a token, by its id."""
    if token.startswith("z9_"):
        raise CommandError("give the token's id, not the token", 2)
    ctx.obj.api.send("POST", f"/v1/tokens/{token}/revoke", {})


@projects.command("create")
def create_project(ctx: typer.Context, name: str) -> None:
    """Makes a project."""
    made = ctx.obj.api.send("POST", "/v1/projects", {"name": name})
    output.show_json(made) if ctx.obj.json else print(made["id"])


@projects.command("list")
def list_projects(ctx: typer.Context) -> None:
    """Lists projects."""
    items = list(ctx.obj.api.all("/v1/projects"))
    if ctx.obj.json:
        output.show_json(items)
    else:
        output.table(("id", "name", "quota"), ((one["id"], one["name"], one["quota"]) for one in items))


@alarms.command("list")
def list_alarms(
    ctx: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="also those that were acknowledged")] = False,
) -> None:
    """Lists open alarms, newest first."""
    items = list(ctx.obj.api.all("/v1/alarms", all="true" if everything else None))
    if ctx.obj.json:
        output.show_json(items)
    else:
        lines = (
            (one["id"], one["resource_name"], one["text"], one["times"], one["last_at"]) for one in items
        )
        output.table(("id", "resource", "alarm", "times", "last"), lines)


@alarms.command()
def acknowledge(ctx: typer.Context, alarm: str) -> None:
    """Says that an alarm was seen; the same again opens another."""
    one = ctx.obj.api.send("POST", f"/v1/alarms/{alarm}/acknowledge", {})
    output.show_json(one) if ctx.obj.json else output.console().print(f"{alarm} {one['acknowledged_by']}")
