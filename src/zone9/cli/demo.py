"""`zone9 demo`: zone9 and a sandbox, a network and two servers, and a witness that never asks zone9.

Once (`make demo`), everything is in a temporary directory and goes with it, and the exit code is the witness's: a
separate process that asks the sandbox and the guests' own pages. With `--serve` (`make run`) it lies in the user's
data directory, goes on serving, and is found again the next time.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from zone9.cli import children
from zone9.cli.client import CommandError
from zone9.cli.sandbox import control_port
from zone9.cli.showing import Household
from zone9.cli.supervise import endings
from zone9.store.embedded import data_directory

PLAN = {"cores": 1, "memory_mib": 128, "disk_gib": 4}
NETWORK = {"region": "sandbox", "cidr": "10.9.0.0/24", "gateway": "10.9.0.1", "vlan": None}
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHI/LokKyj3N2j/w5e4V7E9/FgOQQbOPyt0orsk4Yz0E demo"
SERVER = {
    "region": "sandbox",
    "plan": "nano",
    "image": "tiny",
    "ssh_keys": ["demo"],
    "networks": [{"network": "private"}],
    "tags": ["demo"],
}
SERVERS = ("web1", "web2")


def demo(
    serve: Annotated[
        bool, typer.Option("--serve", help="in the data directory, and go on serving afterwards")
    ] = False,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="with --serve; a free one when it is taken")
    ] = 8009,
    qemu: Annotated[
        bool | None, typer.Option("--qemu/--no-qemu", help="real guests; the default is where QEMU is")
    ] = None,
    drop_write: Annotated[
        bool, typer.Option("--drop-write", help="the sandbox drops a write: the demo must fail")
    ] = False,
) -> None:
    """Shows intent becoming truth, and lets a stranger check it."""
    for number in endings():
        signal.signal(number, _end)
    with contextlib.ExitStack() as stack:
        place = _lasting() if serve else _passing(stack)
        print("starting a Proxmox sandbox …", file=sys.stderr, flush=True)
        sandbox = stack.enter_context(children.sandbox(place, qemu))
        print(f"a Proxmox sandbox is at {sandbox['url']} ({sandbox['why']})", flush=True)
        print("starting zone9 on the embedded PostgreSQL …", file=sys.stderr, flush=True)
        api, told = stack.enter_context(children.zone9(place, port))
        print(told[0], flush=True)
        if drop_write:
            _drop(sandbox["control_url"])
        household = Household(api)
        _ask(household, sandbox)
        verdict = _witness(sandbox)
        if verdict != 0:
            raise CommandError("the witness did not find what was asked", 1)
        if serve:
            _go_on(told, sandbox, place)


def _lasting() -> children.Place:
    return children.Place(data_directory(), lasting=True)


def _passing(stack: contextlib.ExitStack) -> children.Place:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zone9-demo-")))
    directory.chmod(0o755)  # as root, the database's own user goes through it
    return children.Place(directory / "data", directory / "config")


def _ask(household: Household, sandbox: dict[str, Any]) -> None:
    """Asks through the API, one after another where one stands on another; the servers together."""
    token_id, secret = sandbox["token"].split("=", 1)
    region = {
        "urls": [sandbox["url"]],
        "fingerprint": sandbox["fingerprint"],
        "token_id": token_id,
        "token_secret": secret,
    }
    with household.shown():
        household.ask("regions", "sandbox", region, renew=True)
        household.ask("plans", "nano", PLAN)
        household.ask("images", "tiny", {"region": "sandbox", "vmid": sandbox["template"]})
        household.ask("ssh-keys", "demo", {"public_key": SSH_KEY})
        household.ask("networks", "private", NETWORK)
        household.ask_together("servers", dict.fromkeys(SERVERS, SERVER))


def _witness(sandbox: dict[str, Any]) -> int:
    """Lets a separate process look. What it is told is what was asked, and never what zone9 answered."""
    print("\nthe witness asks the sandbox and the guests, and not zone9:", flush=True)
    asked = {
        "power": "on",
        "cores": PLAN["cores"],
        "memory_mib": PLAN["memory_mib"],
        "tags": SERVER["tags"],
        "ssh_key": SSH_KEY,
        "cidr": NETWORK["cidr"],
    }
    case = {
        "control_url": sandbox["control_url"],
        "pages": sandbox["qemu"],
        "servers": [{"name": name, **asked} for name in SERVERS],
    }
    witness = str(Path(__file__).with_name("witness.py"))
    # -I: neither its directory nor PYTHONPATH is searched, so it could not import zone9 if it wanted to.
    return subprocess.run(
        [sys.executable, "-I", witness], input=json.dumps(case), text=True, check=False
    ).returncode


def _go_on(told: list[str], sandbox: dict[str, Any], place: children.Place) -> None:
    print("", *told, sep="\n")
    print(f"the sandbox's control port: {sandbox['control_url']}")
    print(f"the log: {place.log}")
    print("try `.venv/bin/zone9 server list`; Ctrl-C ends it all", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _drop(control_url: str) -> None:
    """Tells the sandbox to answer configuration writes as if they were done, and to do nothing."""
    control_port(
        control_url, "POST", "/faults", {"kind": "silent_noop", "method": "WRITE", "path": "*/config"}
    )


def _end(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
