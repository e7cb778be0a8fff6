"""Asks zone9's API for things by name, and shows each one's two version numbers converge.

What is there already is not asked again: it is shown. Nothing here knows what a server is.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.live import Live
from rich.table import Table

from zone9.cli import output
from zone9.cli.client import Api
from zone9.products.registry import registry

PATIENCE = 120.0
SETTLED = {"applied", "failed", "missing", "duplicate", "pending_restart", "oscillating"}


@dataclass
class Line:
    """Is one resource on the screen."""

    collection: str
    name: str
    row: dict[str, Any]
    began: float
    was_there: bool
    seconds: float = 0.0
    job: str | None = None
    done: bool = False

    def look(self, api: Api) -> None:
        """Reads it anew; it is done when its job has ended, or, without one, when nothing is in flight."""
        ended = self.job is None or api.get(f"/v1/jobs/{self.job}")["status"] not in output.OPEN
        self.row = api.get(f"/v1/{self.collection}/{self.name}")
        self.seconds = time.monotonic() - self.began
        self.done = ended and self.row["state"]["chip"] in SETTLED

    @property
    def converged(self) -> str:
        if not self.done:
            return "…"
        if self.row["applied_version"] != self.row["intent_version"]:
            return "-"
        return f"{self.seconds:.2f} s{' (was there)' if self.was_there else ''}"


class Household:
    """Is what was asked so far, as a table."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lines: list[Line] = []
        self._live: Live | None = None
        self._outside = {product.collection for product in registry().values() if product.outside}

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Keeps the table on the screen; where nobody watches, only its end is printed."""
        with Live(console=output.console(), refresh_per_second=8) as self._live:
            yield
            self._draw()

    def ask(self, collection: str, name: str, spec: Mapping[str, Any], *, renew: bool = False) -> None:
        """Asks for one thing and waits for it; with `renew`, one that is there gets this spec too."""
        self._follow([self._begin(collection, name, spec, renew=renew)])

    def ask_together(self, collection: str, specs: Mapping[str, Mapping[str, Any]]) -> None:
        """Asks for several and waits for all."""
        self._follow([self._begin(collection, name, spec) for name, spec in specs.items()])

    def _begin(self, collection: str, name: str, spec: Mapping[str, Any], *, renew: bool = False) -> Line:
        began, path = time.monotonic(), f"/v1/{collection}"
        there = self._api.get(path, name=name)["items"]
        if not there:
            answer = self._api.send("POST", path, {"name": name, "spec": dict(spec)})
        elif renew:
            answer = self._api.send("PATCH", f"{path}/{name}", {"spec": dict(spec)})
        elif collection not in self._outside:
            answer = {"resource": there[0], "job": None}
        else:
            # What was measured before the last end is history: a fresh look is asked for.
            answer = self._api.send("POST", f"{path}/{name}/reconcile", {})
        job = answer["job"]["id"] if answer["job"] else None
        line = Line(collection, name, answer["resource"], began, was_there=bool(there), job=job)
        self._lines.append(line)
        return line

    def _follow(self, lines: list[Line]) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for line in lines:
                if not line.done:
                    line.look(self._api)
            self._draw()
            if all(line.done for line in lines):
                return
            time.sleep(0.05)

    def _draw(self) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("resource", "intent version", "applied version", "state", "converged after"):
            table.add_column(column)
        for line in self._lines:
            table.add_row(
                f"{line.collection}/{line.name}",
                str(line.row["intent_version"]),
                str(line.row["applied_version"] or "-"),
                line.row["state"]["chip"],
                line.converged,
            )
        if self._live is not None:
            self._live.update(table)
