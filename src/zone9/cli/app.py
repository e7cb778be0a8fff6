"""The command line, put together; every error becomes one line and an exit code, never a traceback."""

import functools
import sys
from typing import Annotated

import typer

from zone9.base.errors import Later as ComesLater
from zone9.base.errors import Problem
from zone9.cli.client import CommandError
from zone9.cli.context import Session
from zone9.cli.lazy import Later, group

# By hand, so that the help costs nothing; a test compares them with the registry of products.
KINDS = {
    "region": "regions: Proxmox clusters",
    "plan": "plans: sizes of servers",
    "image": "images: what servers are cloned from",
    "ssh-key": "SSH keys",
    "network": "networks and their addresses",
    "server": "servers",
}


def _of_kind(kind: str) -> typer.Typer:
    from zone9.cli import kinds  # here: see `lazy`
    from zone9.products.registry import registry

    return kinds.commands(registry()[kind])


COMMANDS = {
    **{kind: Later(told, functools.partial(_of_kind, kind)) for kind, told in KINDS.items()},
    "guest": Later("every VM and container: list, attribute, manage", "zone9.cli.guests:guests"),
    "job": Later("jobs: list, show, watch, cancel", "zone9.cli.more:jobs"),
    "alarm": Later("alarms: list, acknowledge", "zone9.cli.more:alarms"),
    "token": Later("API tokens", "zone9.cli.more:tokens"),
    "project": Later("projects", "zone9.cli.more:projects"),
    "audit": Later("who asked for what: list, head, verify", "zone9.cli.audit:audit"),
    "convergence": Later("Shows how long things took from asked to read back.", "zone9.cli.more:convergence"),
    "events": Later("Follows what changes, a line each.", "zone9.cli.more:events"),
    "apply": Later(
        "Asks for everything in a file, and waits until it was read back.", "zone9.cli.stack:apply"
    ),
    "serve": Later("Serves until it is told to stop.", "zone9.cli.serve:serve"),
    "openapi": Later("Prints the API's OpenAPI document.", "zone9.cli.serve:openapi"),
    "demo": Later("Shows a server being asked for and read back, against a sandbox.", "zone9.cli.demo:demo"),
    "sandbox": Later("a Proxmox to try zone9 against", "zone9.cli.sandbox:app"),
}

app = typer.Typer(
    cls=group(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="zone9: what was asked, and what was measured.",
)


@app.callback()
def common(
    ctx: typer.Context,
    url: Annotated[str | None, typer.Option(help="address of the API (or ZONE9_URL)")] = None,
    project: Annotated[str | None, typer.Option(help="project (or ZONE9_PROJECT)")] = None,
    output: Annotated[str, typer.Option(help="table or json")] = "table",
) -> None:
    if output not in {"table", "json"}:
        raise CommandError("--output is table or json", 2)
    session = Session(url, project, json=output == "json")
    ctx.obj = session
    ctx.call_on_close(session.close)


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code."""
    try:
        result = app(_output_anywhere(arguments), standalone_mode=False)
    except CommandError as error:
        return _line(error.line, error.code)
    except Problem as error:
        return _line(error.public, 4 if isinstance(error, ComesLater) else 1)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - see below
        # Typer's own errors (usage, missing arguments, abort) carry their sentence and exit code.
        shown = getattr(error, "format_message", None)
        if shown is not None and not shown():
            return 2  # nothing was asked: the help was printed
        if shown is not None:
            return _line(str(shown()), int(getattr(error, "exit_code", 2)))
        if type(error).__name__ in {"Abort", "Exit"}:
            return int(getattr(error, "exit_code", 1))
        return _line(f"zone9 has a fault here: {type(error).__name__}: {error}", 1)
    return result if isinstance(result, int) else 0


def _output_anywhere(arguments: list[str]) -> list[str]:
    """Lets `--output json` stand behind the command too, where people write it."""
    for place, word in enumerate(arguments):
        if word == "--output" and place + 1 < len(arguments):
            return ["--output", arguments[place + 1], *arguments[:place], *arguments[place + 2 :]]
        if word.startswith("--output="):
            return [word, *arguments[:place], *arguments[place + 1 :]]
    return arguments


def _line(text: str, code: int) -> int:
    print(f"zone9: {' '.join(text.split())}", file=sys.stderr)
    return code
