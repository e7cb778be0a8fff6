"""What a pass over a region costs, and how soon one edit among thousands is noticed, beside reading every config.

The sandbox is one process and the passes are another (`bench.passing`), made anew for each size, so that CPU time and
memory are those of the passes alone. PostgreSQL's are in neither. All share the machine, so the wall times have the
sandbox's and PostgreSQL's work in them.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import httpx2
import psycopg

from bench.kit import Figure, Installation, median, process
from bench.passing import AT_ONCE, CONFIG, EDITS
from zone9.reconcile.passes import PASS_SECONDS, ROUND_SECONDS
from zone9.store.migrate import migrate

COUNTS = (1000, 10_000)
# VMs alone, so that there are as many as the figures say. None is locked: one that is locked as a clone is read again in
# every pass, which is no steady state.
SHAPE = {"containers": 0, "templates": 0, "locked": 0.0}


def run(made: Installation) -> Iterator[Figure]:
    few, many = (_measured(made, count) for count in COUNTS)
    for count, one in zip(COUNTS, (few, many), strict=True):
        yield from _costs(f"{count:,} VMs", one)
    yield from _growth(few["requests"], many["requests"])


def _costs(size: str, one: dict[str, Any]) -> Iterator[Figure]:
    """Yields what one size costs, each beside a pass that reads every config."""
    every, baseline = one["everything"], f"every config read, {AT_ONCE} at once"
    a_pass, requests = median(one["wall"]), sum(one["requests"].values())
    round_passes = math.ceil(one["vms"] / one["requests"][CONFIG])
    minutes = round_passes * max(PASS_SECONDS, a_pass) / 60
    noticed = [seconds * 1000 for seconds in one["noticed"]]
    every_ms = every["wall"] * 1000
    for name, value, unit, named, against in (
        ("a pass, requests", requests, "requests", baseline, every["requests"]),
        ("a pass, CPU, p50", median(one["cpu"]) * 1000, "ms", baseline, every["cpu"] * 1000),
        ("a pass, wall, p50", a_pass * 1000, "ms", baseline, every_ms),
        ("peak memory", one["peak"], "MiB", "the process before its first pass", one["before"]),
        ("passes until all was read once", one["first"], "passes", "passes of an audit round", round_passes),
        ("these back to back, wall", one["first_wall"], "s", baseline, every["wall"]),
        ("an edit noticed, back to back, p50", median(noticed), "ms", f"{baseline}, wall", every_ms),
        (f"an edit noticed, slowest of {EDITS}", max(noticed), "ms", f"{baseline}, wall", every_ms),
        (f"an audit round, {PASS_SECONDS:.0f} s between", minutes, "min", "the aim", ROUND_SECONDS / 60),
    ):
        yield Figure(f"{size}: {name}", value, unit, named, against)


def _growth(few: dict[str, float], many: dict[str, float]) -> Iterator[Figure]:
    """Yields the requests of a pass by sort: only those of the audit may grow with the VMs."""
    size, baseline = f"{COUNTS[1]:,} VMs", f"{COUNTS[0]:,} VMs"
    for sort in sorted((few.keys() | many.keys()) - {CONFIG}):
        yield Figure(f"{size}: {sort}", many.get(sort, 0), "a pass", baseline, few.get(sort, 0))
    lists = [sum(one.values()) - one[CONFIG] for one in (few, many)]
    yield Figure(f"{size}: all of these", lists[1], "a pass", baseline, lists[0])
    yield Figure(f"{size}: config reads of the audit", many[CONFIG], "a pass", baseline, few[CONFIG])


def _measured(made: Installation, count: int) -> dict[str, Any]:
    """Measures over a sandbox and a database of their own, in a process that has done nothing else."""
    name = f"z9_passes_{count}"
    with psycopg.connect(made.database_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = made.database_url.replace("/postgres?", f"/{name}?")
    migrate(url)
    environment = {**os.environ, "PYTHONPATH": "src:tests"}
    sandbox = process(["--output", "json", "sandbox", "--no-qemu"], environment)
    with sandbox as child, tempfile.TemporaryDirectory(prefix="z9-bench-") as directory:
        assert child.stdout is not None
        told = json.loads(child.stdout.readline())
        # The sandbox comes with a template and a VM of its own.
        shape = {**SHAPE, "vms": count - 2}
        httpx2.post(f"{told['control_url']}/inventory", json=shape, trust_env=False).raise_for_status()
        given = json.dumps({**told, "database": url, "key": f"{directory}/key"})
        command = [sys.executable, "-m", "bench.passing"]
        done = subprocess.run(
            command, input=given, stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
    found = dict(json.loads(done.stdout))
    assert found["vms"] == count
    return found
