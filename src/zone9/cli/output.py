"""Tables for people, JSON for programs, and the progress of a job."""

import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from zone9.cli.client import Api, CommandError
from zone9.cli.words import say

OPEN = {"queued", "running", "waiting"}


def console() -> Console:
    # Into a pipe, nothing is cut to a terminal's width. A fingerprint's `:AB:` is no emoji, a name's `[b]` no style.
    width = None if sys.stdout.isatty() else 400
    return Console(highlight=False, soft_wrap=True, emoji=False, markup=False, width=width)


def show_json(value: Any) -> None:
    """Prints JSON, two spaces deep, with nothing around it."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def table(columns: Iterable[str], lines: Iterable[Iterable[Any]]) -> None:
    """Prints a plain table."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(say(column), no_wrap=column in {"id", "name"})
    for line in lines:
        made.add_row(*("" if cell is None else str(cell) for cell in line))
    console().print(made)


def resources(items: list[dict[str, Any]]) -> None:
    """Prints resources with both version numbers."""
    table(
        ("name", "asked", "applied", "state", "id"),
        (
            (
                one["name"],
                one["intent_version"],
                one["applied_version"] or "-",
                one["state"]["label"],
                one["id"],
            )
            for one in items
        ),
    )


def resource(one: dict[str, Any]) -> None:
    """Prints one resource: asked beside read."""
    verdict = one["verdict"]
    lines = [
        ("name", one["name"]),
        ("id", one["id"]),
        ("state", one["state"]["label"]),
        ("asked", one["intent_version"]),
        ("applied", one["applied_version"] or "-"),
        ("measured at", verdict["measured_at"] or "-"),
        ("witness", verdict["witness"] or "-"),
    ]
    if verdict["message"]:
        lines.append(("message", verdict["message"]["text"]))
    lines += [(f"spec.{key}", json.dumps(value, ensure_ascii=False)) for key, value in one["spec"].items()]
    observed = one["observed"] or {}
    lines += [(f"read.{key}", json.dumps(value, ensure_ascii=False)) for key, value in observed.items()]
    lines += [
        (f"differs.{diff['field']}", f"{diff['asked']!r} asked, {diff['read']!r} read ({_why(diff)})")
        for diff in verdict["diffs"]
    ]
    table(("", ""), lines)


def _why(diff: dict[str, Any]) -> str:
    """Returns what it takes to put a difference right and, for drift, who made it."""
    if not diff.get("drift"):
        return str(diff["class"])
    by = say("changed by {who}", who=diff["who"]) if diff["who"] else say("changed by somebody")
    return f"{diff['class']}, {by}"


def follow(api: Api, job_id: str, *, quiet: bool, wait_for_people: bool = False) -> dict[str, Any]:
    """Follows a job to its end, with a bar where somebody watches. A job that needs a person ends the wait."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=quiet or not sys.stderr.isatty(),
    )
    with bar:
        line = bar.add_task("…", total=None)
        while True:
            job: dict[str, Any] = api.get(f"/v1/jobs/{job_id}", headers={"Prefer": "wait=10"})
            step = job["steps"][-1] if job["steps"] else None
            bar.update(line, description=describe(job), total=100, completed=(step or {}).get("percent") or 0)
            if job["status"] not in OPEN:
                return job
            if job["needs"] and not wait_for_people:
                return job
            if job["status"] == "waiting":
                time.sleep(0.2)


def describe(job: dict[str, Any]) -> str:
    """Returns a job's line: what, and at which step."""
    step = job["steps"][-1]["step"] if job["steps"] else job["kind"]
    why = f": {job['error']['text']}" if job["error"] and job["status"] == "waiting" else ""
    return f"{job['resource_kind']} {job['resource_name']} {step} {job['status']}{why}"


def ended(job: dict[str, Any]) -> None:
    """Raises CommandError unless the job ended with its version read back."""
    if job["status"] == "succeeded":
        return
    if job["needs"]:
        raise CommandError(say("waiting for: {needs}", needs=job["needs"]), 3)
    why = job["error"]["text"] if job["error"] else job["status"]
    raise CommandError(f"{job['resource_kind']} {job['resource_name']}: {why}", 1)
