"""`zone9 demo`: zone9 and a sandbox, a network and two servers, and a witness that never asks zone9.

Everything is in a temporary directory and goes with it. The exit code is the witness's: a separate process that
asks the sandbox and the guests' own pages.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from zone9.cli import output
from zone9.cli.client import Api, CommandError
from zone9.cli.supervise import die_with_parent

PATIENCE = 120.0
PORT = 8009
PLAN = {"cores": 1, "memory_mib": 128, "disk_gib": 4}


def demo(
    serve: Annotated[bool, typer.Option("--serve", help="go on serving afterwards")] = False,
    qemu: Annotated[
        bool | None, typer.Option("--qemu/--no-qemu", help="real guests; the default is where QEMU is")
    ] = None,
    drop_write: Annotated[
        bool, typer.Option("--drop-write", help="the sandbox drops a write: the demo must fail")
    ] = False,
) -> None:
    """Shows intent becoming truth, and lets a stranger check it."""
    with tempfile.TemporaryDirectory(prefix="zone9-demo-") as directory, contextlib.ExitStack() as stack:
        Path(directory).chmod(0o755)
        sandbox = stack.enter_context(_sandbox(qemu))
        api, shown = stack.enter_context(_zone9(Path(directory), serve=serve))
        if drop_write:
            _drop(sandbox["control_url"])
        servers = _ask_for_everything(api, sandbox)
        print("\nthe witness asks the sandbox, and not zone9:", flush=True)
        case = {"control_url": sandbox["control_url"], "servers": servers, "pages": sandbox["qemu"]}
        verdict = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("witness.py"))],
            input=json.dumps(case),
            text=True,
            check=False,
        )
        if verdict.returncode != 0:
            raise CommandError("the witness did not find what was asked", 1)
        if serve:
            print(
                f"\n{shown}\nthe sandbox's control port: {sandbox['control_url']}\nCtrl-C ends it all.",
                flush=True,
            )
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600)


@contextlib.contextmanager
def _child(arguments: list[str], environment: dict[str, str], log: Any) -> Iterator["subprocess.Popen[str]"]:
    child = subprocess.Popen(
        [sys.executable, "-m", "zone9.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=log,
        stdin=subprocess.DEVNULL,
        text=True,
        env=environment,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - nothing but a prctl
        start_new_session=True,
    )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


@contextlib.contextmanager
def _sandbox(qemu: bool | None) -> Iterator[dict[str, Any]]:
    arguments = ["--output", "json", "sandbox"]
    if qemu is not None:
        arguments.append("--qemu" if qemu else "--no-qemu")
    with _child(arguments, dict(os.environ), None) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line:
            raise CommandError("the sandbox did not start", 1)
        told: dict[str, Any] = json.loads(line)
        guests = "a running VM is a QEMU process" if told["qemu"] else "no QEMU: a VM is a row"
        print(f"a Proxmox sandbox is at {told['url']} ({guests})", flush=True)
        yield told


@contextlib.contextmanager
def _zone9(directory: Path, *, serve: bool) -> Iterator[tuple[Api, str]]:
    """Starts an installation in a directory of its own and yields its API and what to tell about it."""
    port = PORT if serve and _free(PORT) else _free_port()
    environment = {
        **os.environ,
        "ZONE9_DATA": str(directory / "data"),
        "XDG_CONFIG_HOME": str(directory / "config"),
    }
    environment.pop("ZONE9_KEY_FILE", None)
    with (
        (directory / "zone9.log").open("w") as log,
        _child(["serve", "--port", str(port), "--settle", "2"], environment, log) as child,
    ):
        assert child.stdout is not None
        token = None
        for line in child.stdout:
            if "token" in line and "z9_" in line:
                token = line.rsplit(" ", 1)[1].strip()
            if token and "command line" in line:
                break
        if token is None:
            raise CommandError(f"zone9 did not start: {(directory / 'zone9.log').read_text()[-500:]}", 1)
        url = f"http://127.0.0.1:{port}"
        api = Api(url, token)
        _until_ready(api, child)
        print(f"zone9 is at {url}", flush=True)
        try:
            yield api, f"zone9 is at {url}\nexport ZONE9_URL={url} ZONE9_TOKEN={token}"
        finally:
            api.close()


def _until_ready(api: Api, child: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and child.poll() is None:
        try:
            api.get("/readyz")
        except CommandError:
            time.sleep(0.1)
        else:
            return
    raise CommandError("zone9 did not become ready", 1)


def _ask_for_everything(api: Api, sandbox: dict[str, Any]) -> list[dict[str, Any]]:
    """Asks through the API, shows both numbers converge, and returns what was asked of the servers."""
    token_id, secret = sandbox["token"].split("=", 1)
    region = {
        "urls": [sandbox["url"]],
        "fingerprint": sandbox["fingerprint"],
        "token_id": token_id,
        "token_secret": secret,
    }
    base = {
        "region": "sandbox",
        "plan": "nano",
        "image": "tiny",
        "networks": [{"network": "private"}],
        "tags": ["demo"],
    }
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("regions", "sandbox", region),
        ("plans", "nano", PLAN),
        ("images", "tiny", {"region": "sandbox", "vmid": sandbox["template"]}),
        (
            "networks",
            "private",
            {"region": "sandbox", "cidr": "10.9.0.0/24", "gateway": "10.9.0.1", "vlan": None},
        ),
        ("servers", "web1", base),
        ("servers", "web2", base),
    ]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    jobs: dict[tuple[str, str], str | None] = {}
    began: dict[tuple[str, str], float] = {}
    with Live(console=output.console(), refresh_per_second=8, transient=False) as live:
        for collection, name, spec in asked:
            key = (collection, name)
            began[key] = time.monotonic()
            answer = api.send("POST", f"/v1/{collection}", {"name": name, "spec": spec})
            rows[key], jobs[key] = answer["resource"], answer["job"]["id"] if answer["job"] else None
            rows[key]["seconds"] = 0.0
            if collection != "servers":
                _follow(api, live, rows, jobs, began, [key])
        _follow(api, live, rows, jobs, began, [key for key in rows if key[0] == "servers"])
    return [
        {
            "name": name,
            "power": "on",
            "cores": PLAN["cores"],
            "memory_mib": PLAN["memory_mib"],
            "tags": spec["tags"],
        }
        for collection, name, spec in asked
        if collection == "servers"
    ]


def _follow(
    api: Api,
    live: Live,
    rows: dict[tuple[str, str], dict[str, Any]],
    jobs: dict[tuple[str, str], str | None],
    began: dict[tuple[str, str], float],
    keys: list[tuple[str, str]],
) -> None:
    until = time.monotonic() + PATIENCE
    open_ = [key for key in keys if jobs[key] is not None]
    while open_ and time.monotonic() < until:
        for key in list(open_):
            job = api.get(f"/v1/jobs/{jobs[key]}")
            rows[key] = {**api.get(f"/v1/{key[0]}/{key[1]}"), "seconds": time.monotonic() - began[key]}
            if job["status"] not in output.OPEN:
                open_.remove(key)
        live.update(_table(rows))
        time.sleep(0.05)
    live.update(_table(rows))


def _table(rows: dict[tuple[str, str], dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("resource", "intent version", "applied version", "state", "converged after"):
        table.add_column(column)
    for (collection, name), row in rows.items():
        done = row["applied_version"] == row["intent_version"]
        seconds = f"{row['seconds']:.2f} s" if done else "…"
        table.add_row(
            f"{collection}/{name}",
            str(row["intent_version"]),
            str(row["applied_version"] or "-"),
            row["state"]["chip"],
            seconds,
        )
    return table


def _drop(control_url: str) -> None:
    """Tells the sandbox to answer configuration writes as if they were done, and to do nothing."""
    import httpx2  # here: only this needs it

    document = {"kind": "silent_noop", "method": "PUT", "path": "*/config"}
    httpx2.post(f"{control_url}/faults", json=document, trust_env=False).raise_for_status()


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
