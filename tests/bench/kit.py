"""A whole installation in processes of its own: sandbox, API, worker, a PostgreSQL that syncs as in production."""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from zone9.pve.client import Client, Endpoint
from zone9.store.embedded import EmbeddedPostgres


@dataclass(frozen=True)
class Figure:
    """Is one measured thing and what it is measured against; `unit` says what the numbers are."""

    name: str
    value: float
    unit: str
    baseline_name: str
    baseline: float

    def line(self) -> str:
        ratio = self.value / self.baseline if self.baseline else float("nan")
        digits = 4 if ratio < 0.1 else 2
        return (
            f"{self.name:<52} {self.value:>10.2f} {self.unit:<9} "
            f"{self.baseline_name:<46} {self.baseline:>10.2f}  x{ratio:.{digits}f}"
        )


@dataclass
class Installation:
    """Is zone9 and a sandbox, both running."""

    http: httpx2.Client
    sandbox: dict[str, Any]
    database_url: str

    def client(self) -> Client:
        return Client(
            Endpoint((self.sandbox["url"],), self.sandbox["token"], self.sandbox["fingerprint"]), slots=8
        )

    def wait(self, job: str) -> dict[str, Any]:
        while True:
            found = self.http.get(f"/v1/jobs/{job}", headers={"Prefer": "wait=10"}).json()
            if found["status"] not in {"queued", "running", "waiting"}:
                return dict(found)

    def durations(self, names: list[str]) -> list[float]:
        """Returns intent to applied, in ms, from zone9's own records."""
        with psycopg.connect(self.database_url) as connection:
            rows = connection.execute(
                "SELECT extract(epoch FROM j.finished_at - j.created_at) * 1000 FROM jobs j "
                "JOIN resources r ON r.id = j.resource WHERE r.name = ANY(%s) AND j.status = 'succeeded'",
                (names,),
            ).fetchall()
        return sorted(float(row[0]) for row in rows)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def process(arguments: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    child = subprocess.Popen(
        [sys.executable, "-m", "zone9.cli", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.terminate()
        child.wait(30)
        assert child.stdout is not None
        child.stdout.close()


@contextlib.contextmanager
def installation() -> Iterator[Installation]:
    """Starts everything, with a region, a plan, an image and a network that are applied."""
    with tempfile.TemporaryDirectory(prefix="z9-bench-") as name, contextlib.ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o755)
        database = EmbeddedPostgres(directory / "pg")
        stack.callback(database.stop)
        environment = {
            **os.environ, "PYTHONPATH": "src", "ZONE9_DATABASE_URL": database.url, "ZONE9_DATA": str(directory / "data"),
            "XDG_CONFIG_HOME": str(directory / "config"),
        }  # fmt: skip
        sandbox = stack.enter_context(process(["--output", "json", "sandbox", "--no-qemu"], environment))
        assert sandbox.stdout is not None
        told = json.loads(sandbox.stdout.readline())
        port = free_port()
        served = stack.enter_context(process(["serve", "--port", str(port)], environment))
        assert served.stdout is not None
        token = next(line for line in served.stdout if "z9_" in line).split()[-1]
        http = httpx2.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {token}"},
            timeout=70,
            trust_env=False,
        )
        stack.callback(http.close)
        made = Installation(http, told, database.url)
        for _ in range(300):
            with contextlib.suppress(httpx2.TransportError):
                if http.get("/readyz").status_code == 200:
                    break
            time.sleep(0.1)
        _furnish(made)
        yield made


def _furnish(made: Installation) -> None:
    token_id, secret = made.sandbox["token"].split("=", 1)
    region = {
        "urls": [made.sandbox["url"]], "fingerprint": made.sandbox["fingerprint"], "token_id": token_id,
        "token_secret": secret, "clones_per_template": 8,
    }  # fmt: skip
    for path, name, spec in (
        ("regions", "r1", region),
        ("plans", "small", {"cores": 1, "memory_mib": 512, "disk_gib": 4}),
        ("images", "tiny", {"region": "r1", "vmid": made.sandbox["template"]}),
        ("networks", "lan", {"region": "r1", "cidr": "10.10.0.0/20", "gateway": "10.10.0.1"}),
    ):
        answer = made.http.post(f"/v1/{path}", json={"name": name, "spec": spec})
        answer.raise_for_status()
        if answer.json()["job"]:
            made.wait(answer.json()["job"]["id"])


SERVER = {"region": "r1", "plan": "small", "image": "tiny", "networks": [{"network": "lan"}]}


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def median(values: list[float]) -> float:
    return statistics.median(values)
