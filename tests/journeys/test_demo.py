"""`zone9 demo` from outside: its exit code is a separate process's, and a dropped write makes it fail."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_processes import Command, eventually, free_port, gone, page, run

pytestmark = pytest.mark.slow
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture
def started() -> Iterator[list[Command]]:
    commands: list[Command] = []
    yield commands
    for one in commands:
        if one.child.poll() is None:
            one.end()


def run_for_good(started: list[Command], directory: Path, *arguments: str) -> Command:
    one = Command(directory, "demo", "--serve", "--port", str(free_port()), *arguments)
    started.append(one)
    one.until("ends it all")
    return one


def test_the_demo_succeeds_when_a_stranger_finds_what_was_asked(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--no-qemu", ZONE9_DATABASE_URL=NOWHERE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "web1: VM 10000 on pve1, running, is as it was asked" in done.stdout
    assert "web2: VM 10001 on" in done.stdout
    table = [line.split()[1:4] for line in done.stdout.splitlines() if line.startswith("servers/")]
    assert table == [["1", "1", "applied"], ["1", "1", "applied"]]
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "config").exists()


def test_the_demo_fails_when_a_write_is_dropped(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--no-qemu", "--drop-write")

    assert done.returncode == 1
    assert "web1: not found as asked: " in done.stdout
    assert "128 MiB were asked, it has 512" in done.stdout
    assert done.stderr.splitlines()[-1] == "zone9: the witness did not find what was asked"
    table = [line.split()[1:4] for line in done.stdout.splitlines() if line.startswith("servers/")]
    assert table == [["1", "-", "failed"], ["1", "-", "failed"]]  # zone9 does not claim it either


@pytest.mark.qemu
def test_the_demo_with_real_guests_reads_their_pages(tmp_path: Path) -> None:
    done = run(tmp_path, "demo", "--qemu")

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("is as it was asked and its page says its name, uuid and address") == 2


@pytest.mark.qemu
def test_a_killed_guest_has_no_page_until_zone9_starts_it_again(
    started: list[Command], tmp_path: Path
) -> None:
    zone9 = run_for_good(started, tmp_path, "--qemu")
    control = zone9.out.split("control port: ")[1].split()[0]

    def web1() -> dict[str, object]:
        vms = json.loads(page(f"{control}/vms") or "[]")
        return next(vm for vm in vms if vm["config"].get("name") == "web1")

    before = web1()
    assert "web1" in (page(str(before["page_url"])) or "")
    os.kill(int(str(before["pid"])), signal.SIGKILL)

    eventually(lambda: page(str(before["page_url"])) is None)
    eventually(lambda: web1()["status"] == "running" and web1()["pid"] != before["pid"])
    eventually(lambda: "web1" in (page(str(web1()["page_url"])) or ""))
    assert web1()["uuid"] == before["uuid"]


def test_a_second_run_finds_what_the_first_one_made(started: list[Command], tmp_path: Path) -> None:
    first = run_for_good(started, tmp_path, "--no-qemu")
    family = first.family()
    assert "the first token (shown once): z9_" in first.out
    assert "web1" in run(tmp_path, "server", "list").stdout
    assert first.end(signal.SIGINT) == 0
    assert not gone(family)

    second = run_for_good(started, tmp_path, "--no-qemu")
    family = second.family()
    assert second.out.count("(was there)") == 7
    assert second.out.count("is as it was asked") == 2
    assert "z9_" not in second.out
    beside = run(tmp_path, "demo", "--serve", "--no-qemu")
    assert beside.returncode == 1
    assert "another sandbox keeps its cluster" in beside.stderr
    assert second.end() == 0
    assert not gone(family)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["demo", "--nonsense"], "--nonsense"),
        (["demo", "again"], "again"),
        (["sandbox", "--nodes", "0"], "--nodes"),
        (["sandbox", "--port", "99999"], "--port"),
        (["sandbox", "fault", "lock_timeout"], "--control"),
        (["sandbox", "fault", "--control", "http://127.0.0.1:1", "lock_timeout"], "no sandbox answers"),
        (["sandbox", "fault", "--control", "nonsense", "lock_timeout"], "no sandbox answers"),
        (["sandbox", "--keep", "/nonexistent/file"], "cannot write beside"),
        (["nonsense"], "nonsense"),
    ],
)
def test_garbage_is_answered_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = run(tmp_path, *arguments)

    assert done.returncode in {1, 2, 4}
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert says in done.stderr
