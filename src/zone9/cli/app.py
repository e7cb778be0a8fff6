"""The command line, put together; every error becomes one line and an exit code, never a traceback."""

import sys
from typing import Annotated

import typer

from zone9.base.errors import Later, Problem
from zone9.cli import demo, kinds, more, sandbox, serve, stack
from zone9.cli.client import CommandError
from zone9.cli.context import Session
from zone9.wiring import registry

app = typer.Typer(
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


for product in registry().values():
    app.add_typer(kinds.commands(product), name=product.kind)
app.add_typer(more.jobs, name="job")
app.add_typer(more.tokens, name="token")
app.add_typer(more.projects, name="project")
app.command("events")(more.events)
app.command("apply")(stack.apply)
app.command("serve")(serve.serve)
app.command("openapi")(serve.openapi)
app.command("demo")(demo.demo)
app.add_typer(sandbox.app, name="sandbox")


def run(arguments: list[str]) -> int:
    """Runs one command and returns its exit code."""
    try:
        result = app(_output_anywhere(arguments), standalone_mode=False)
    except CommandError as error:
        return _line(error.line, error.code)
    except Problem as error:
        return _line(error.public, 4 if isinstance(error, Later) else 1)
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - see below
        # Typer's own errors (usage, missing arguments, abort) carry their sentence and exit code.
        shown = getattr(error, "format_message", None)
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
