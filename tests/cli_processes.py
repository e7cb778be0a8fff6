"""Starts zone9 as people do, in a directory of the test's own, and says what is left of it."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

PATIENCE = 60.0
FOREIGN = ("ZONE9_DATABASE_URL", "ZONE9_KEY_FILE", "ZONE9_URL", "ZONE9_TOKEN", "ZONE9_PROJECT", "ZONE9_LANG")
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(directory: Path, **more: str) -> dict[str, str]:
    """Returns an environment in which nothing of the tester's own zone9 is read or written."""
    kept = {key: value for key, value in os.environ.items() if key not in FOREIGN}
    return {**kept, "ZONE9_DATA": str(directory / "data"), "XDG_CONFIG_HOME": str(directory / "config"),
            "LANG": "C.UTF-8", "PYTHONPATH": "src", **more}  # fmt: skip


def run(
    directory: Path, *arguments: str, seconds: float = 110, **more: str
) -> "subprocess.CompletedProcess[str]":
    """Runs one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "zone9.cli", *arguments],
        env=environment(directory, **more),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=seconds,
    )


class Command:
    """Is a command that goes on: what it prints, and every process that it started."""

    def __init__(self, directory: Path, *arguments: str, **more: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._errors = (directory / "stderr").open("ab")
        self.child = subprocess.Popen(
            [sys.executable, "-m", "zone9.cli", *arguments],
            env=environment(directory, **more),
            stdout=subprocess.PIPE,
            stderr=self._errors,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.out = ""

    @property
    def errors(self) -> str:
        return (self.directory / "stderr").read_text()

    def until(self, text: str) -> str:
        """Reads what it prints until a text was there, and returns all of it."""
        assert self.child.stdout is not None
        end = time.monotonic() + PATIENCE
        while text not in self.out:
            ready, _, _ = select.select([self.child.stdout], [], [], max(0.0, end - time.monotonic()))
            more = os.read(self.child.stdout.fileno(), 65536) if ready else b""
            assert more, f"{text!r} was not printed: {self.out}\n{self.errors[-3000:]}"
            self.out += more.decode()
        return self.out

    def family(self) -> list[psutil.Process]:
        """Returns everything it started, with the embedded PostgreSQL, which is nobody's child."""
        found = psutil.Process(self.child.pid).children(recursive=True)
        pid_file = self.directory / "data" / "postgresql" / "postmaster.pid"
        if pid_file.exists():
            found.append(psutil.Process(int(pid_file.read_text().split()[0])))
        return found

    def child_like(self, *words: str) -> psutil.Process | None:
        """Returns the child whose command line holds the words."""
        for one in psutil.Process(self.child.pid).children():
            if all(word in " ".join(one.cmdline()) for word in words):
                return one
        return None

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Tells it to end, and returns its exit code."""
        if self.child.poll() is None:
            self.child.send_signal(number)
        code = self.child.wait(PATIENCE)
        assert self.child.stdout is not None
        self.child.stdout.close()
        self._errors.close()
        return code


def gone(processes: list[psutil.Process], seconds: float = 15) -> list[psutil.Process]:
    """Returns which of these processes still live when the time is over."""
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return alive


def eventually(look: Callable[[], object], seconds: float = PATIENCE) -> object:
    """Looks until there is something, and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.1)
    raise AssertionError(f"nothing within {seconds} s")


def page(url: str) -> str | None:
    """Returns a page of this machine, None while nobody answers."""
    try:
        with LOCAL.open(url, timeout=5) as answer:
            return answer.read().decode()
    except (OSError, urllib.error.URLError):
        return None


def open_directory() -> Iterator[Path]:
    """Yields a directory that the embedded PostgreSQL's own user can enter; pytest's are closed to all others."""
    directory = Path(tempfile.mkdtemp(prefix="z9-cli-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
