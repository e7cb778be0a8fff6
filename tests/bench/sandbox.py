"""The sandbox as a server: requests a second and memory with 1,000 and 10,000 VMs, beside fakepve with the same ones.

Each is a process of its own and is asked the same by the same client, four requests at a time, uncompressed.
`python -m bench.sandbox` runs it without an installation.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.kit import Figure, Installation
from zone9.sandbox import Sandbox

COUNTS = (1000, 10_000)
NODES = ("pve1", "pve2", "pve3")
PARALLEL = 4
SECONDS = 2.0
TOKEN, SECRET = "root@pam!bench", "bench"


@dataclass(frozen=True)
class Asked:
    """Is one kind of request; `vm` is (node, vmid) of one after another."""

    name: str
    method: str
    path: Callable[[tuple[str, int]], str]
    form: dict[str, str] | None = None


ASKED = (
    Asked("GET config", "GET", lambda vm: f"/nodes/{vm[0]}/qemu/{vm[1]}/config"),
    Asked("GET status/current", "GET", lambda vm: f"/nodes/{vm[0]}/qemu/{vm[1]}/status/current"),
    Asked("GET cluster/resources", "GET", lambda _: "/cluster/resources"),
    Asked("PUT config", "PUT", lambda vm: f"/nodes/{vm[0]}/qemu/{vm[1]}/config", {"description": "measured"}),
)


def run(_made: Installation | None = None) -> Iterator[Figure]:
    for count in COUNTS:
        with tempfile.TemporaryDirectory(prefix="z9-bench-") as name:
            machines = Path(name, "machines")
            vms = _write_machines(machines, count)
            ours, theirs = (asyncio.run(_measure(kind, machines, count, vms)) for kind in ("ours", "fakepve"))
        for what, value in ours.items():
            unit = "MiB" if what.startswith("resident") else "s" if what == "started" else "req/s"
            yield Figure(f"sandbox, {count} VMs: {what}", value, unit, f"fakepve 0.5.0: {what}", theirs[what])


def _furnished(count: int) -> Sandbox:
    sandbox = Sandbox(NODES, seed=1)
    sandbox.add_inventory(vms=count, containers=0, templates=3, pools=0, locked=0.0)
    sandbox.accounts.add_token(TOKEN, secret=SECRET, privsep=False)
    return sandbox


def _write_machines(path: Path, count: int) -> list[tuple[str, int]]:
    """Writes the machines for the other one, a line each, and answers those that are asked about."""
    found = _furnished(count).vms.values()
    with path.open("w") as file:
        for vm in found:
            row = {"vmid": vm.vmid, "name": vm.name, "node": vm.node, "config": vm.config}
            row["status"] = "running" if vm.running else "stopped"
            file.write(json.dumps(row) + "\n")
    return [(vm.node, vm.vmid) for vm in found if not vm.is_template]


async def _measure(kind: str, machines: Path, count: int, vms: list[tuple[str, int]]) -> dict[str, float]:
    began = time.perf_counter()
    with _served(kind, machines, count) as (pid, url):
        figures = {"started": time.perf_counter() - began, "resident at the start": _resident(pid)}
        headers = {"Authorization": f"PVEAPIToken={TOKEN}={SECRET}", "Accept-Encoding": "identity"}
        connector = aiohttp.TCPConnector(
            ssl=False, limit=PARALLEL
        )  # whose certificate it is, is not measured
        async with aiohttp.ClientSession(f"{url}/", connector=connector, headers=headers) as http:
            for asked in ASKED:
                figures[asked.name] = await _rate(http, asked, vms)
        figures["resident at the end"] = _resident(pid)
    return figures


async def _rate(http: aiohttp.ClientSession, asked: Asked, vms: list[tuple[str, int]]) -> float:
    done = 0
    began = time.perf_counter()

    async def ask() -> None:
        nonlocal done
        while time.perf_counter() - began < SECONDS:
            path = f"/api2/json{asked.path(vms[done * 7 % len(vms)])}"
            done += 1
            async with http.request(asked.method, path, data=asked.form) as answer:
                await answer.read()
                assert answer.status == 200, (answer.status, answer.reason, path)

    await asyncio.gather(*(ask() for _ in range(PARALLEL)))
    return done / (time.perf_counter() - began)


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@contextlib.contextmanager
def _served(kind: str, machines: Path, count: int) -> Iterator[tuple[int, str]]:
    command = [sys.executable, "-m", "bench.sandbox", kind, str(machines), str(count)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert child.stdout is not None
        yield child.pid, child.stdout.readline().strip()
    finally:
        child.terminate()
        child.wait(30)
        child.stdout.close()


async def _serve_ours(count: int) -> None:
    async with _furnished(count) as sandbox:
        print(sandbox.url, flush=True)
        await asyncio.Event().wait()


async def _serve_fakepve(machines: Path) -> None:
    from fakepve.certs import make_cert  # here: the process of the other one has none of it
    from fakepve.server import FakePve

    pve: Any = FakePve(host="127.0.0.1", port=0)
    pve.time_scale = 0
    pve.apitokens[TOKEN] = SECRET
    with machines.open() as file:
        for line in file:
            row = json.loads(line)
            pve.add_vm(row["vmid"], row["name"], node=row["node"], status=row["status"], config=row["config"])
    certificate, key, _ = make_cert(str(machines.parent), hosts=("127.0.0.1",))
    await pve.start(certificate, key)
    print(pve.url, flush=True)
    await asyncio.Event().wait()


def main(arguments: list[str]) -> None:
    match arguments:
        case ["ours", _, count]:
            asyncio.run(_serve_ours(int(count)))
        case ["fakepve", machines, _]:
            asyncio.run(_serve_fakepve(Path(machines)))
        case _:
            for figure in run():
                print(figure.line(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
