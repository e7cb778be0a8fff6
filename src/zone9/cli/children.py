"""The demo's two children: a sandbox, and a whole zone9 on the embedded database, each as anybody would start it.

Both get SIGTERM when the demo ends, however it ends, and tidy up after themselves.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from zone9.cli.client import Api, CommandError, write_config
from zone9.cli.supervise import die_with

PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """Is where an installation of the demo lives: its data, and the command line's file."""

    data: Path
    config_home: Path | None = None
    lasting: bool = False

    @property
    def log(self) -> Path:
        return self.data / "demo.log"

    def environment(self) -> dict[str, str]:
        """Returns the environment of a zone9 here: on the embedded database, whatever the caller's says."""
        environment = {**os.environ, "ZONE9_DATA": str(self.data)}
        if self.config_home is not None:
            environment["XDG_CONFIG_HOME"] = str(self.config_home)
        for name in ("ZONE9_DATABASE_URL", "ZONE9_KEY_FILE"):
            environment.pop(name, None)
        return environment


@contextlib.contextmanager
def sandbox(place: Place, qemu: bool | None) -> Iterator[dict[str, Any]]:
    """Yields what a sandbox says of itself once it listens."""
    arguments = ["--output", "json", "sandbox"]
    if qemu is not None:
        arguments.append("--qemu" if qemu else "--no-qemu")
    if place.lasting:
        arguments += ["--keep", str(place.data / "sandbox.json")]
    with _child("the sandbox", arguments, place) as (_, lines):
        yield json.loads(next(lines))


@contextlib.contextmanager
def zone9(place: Place, wanted: int) -> Iterator[tuple[Api, list[str]]]:
    """Yields the API of a running zone9 at the wanted port or a free one, and what to tell people about it."""
    port = wanted if place.lasting and _is_free(wanted) else _free_port()
    url = f"http://127.0.0.1:{port}"
    kept = _kept_token(place)
    arguments = ["serve", "--port", str(port), "--settle", "2"]
    if kept is None:
        arguments.append("--new-token")
    with _child("zone9", arguments, place) as (child, lines):
        told = [next(lines)]
        if kept is None:
            told += [next(lines), next(lines)]
            kept = told[1].rsplit(" ", 1)[1]
            _keep_token(place, kept)
        else:
            told.append(f"the command line has its token in {write_config(url, kept)}")
        api = Api(url, kept)
        try:
            _until_ready(api, child)
            yield api, told
        finally:
            api.close()


def _kept_token(place: Place) -> str | None:
    """Returns the token that an earlier run left beside its data."""
    file = place.data / "demo.token"
    return file.read_text().strip() if place.lasting and file.exists() else None


def _keep_token(place: Place, token: str) -> None:
    handle = os.open(place.data / "demo.token", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f"{token}\n")


@contextlib.contextmanager
def _child(
    what: str, arguments: list[str], place: Place
) -> Iterator[tuple["subprocess.Popen[str]", Iterator[str]]]:
    """Starts `zone9 …` and yields it with the lines it prints; when it prints none, its log's last line is the error."""
    place.data.mkdir(parents=True, exist_ok=True)
    with place.log.open("a+") as log:
        log.seek(0, os.SEEK_END)
        began = log.tell()
        child = subprocess.Popen(
            [sys.executable, "-m", "zone9.cli", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
            text=True,
            env=place.environment(),
            preexec_fn=die_with(os.getpid(), signal.SIGTERM),  # noqa: PLW1509 - nothing but a prctl
            start_new_session=True,
        )
        try:
            assert child.stdout is not None
            yield child, _lines(what, child.stdout, log, began)
        finally:
            child.terminate()
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _lines(what: str, stdout: IO[str], log: IO[str], began: int) -> Iterator[str]:
    for line in stdout:
        yield line.rstrip("\n")
    log.seek(began)
    said = [line.strip() for line in log if line.strip()]
    raise CommandError(
        f"{what} did not start: {said[-1].removeprefix('zone9: ') if said else 'it says nothing'}", 1
    )


def _until_ready(api: Api, child: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and child.poll() is None:
        with contextlib.suppress(CommandError):
            api.get("/readyz")
            return
        time.sleep(0.1)
    raise CommandError("zone9 did not become ready", 1)


def _is_free(port: int) -> bool:
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
