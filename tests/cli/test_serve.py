"""`zone9 serve` as a process: it restarts what ends, counts it, and leaves nothing behind."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cli_processes import Command, eventually, free_port, gone, page, run

pytestmark = pytest.mark.slow


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Command]]:
    """Ends whatever a test started."""
    commands: list[Command] = []
    yield commands
    for one in commands:
        if one.child.poll() is None:
            one.end()


def serve(started: list[Command], directory: Path, *arguments: str, **more: str) -> tuple[Command, int]:
    port = free_port()
    one = Command(directory, "serve", "--port", str(port), *arguments, **more)
    started.append(one)
    one.until("zone9 is at")
    return one, port


def one_line(text: str) -> str:
    """Returns the one line that a person gets, past the log's lines."""
    lines = [line for line in text.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


def test_a_killed_worker_is_started_again_and_counted(started: list[Command], tmp_path: Path) -> None:
    zone9, port = serve(started, tmp_path)
    eventually(lambda: page(f"http://127.0.0.1:{port}/readyz"))
    worker = eventually(lambda: zone9.child_like("zone9.cli.processes", "worker-1"))
    worker.kill()
    assert not gone([worker])

    another = eventually(lambda: zone9.child_like("zone9.cli.processes", "worker-1"))

    assert another.pid != worker.pid
    eventually(
        lambda: (
            'zone9_process_restarts{role="worker-1"} 1.0' in (page(f"http://127.0.0.1:{port}/metrics") or "")
        )
    )
    lines = [json.loads(line) for line in zone9.errors.splitlines()]
    ended = [line for line in lines if line["event"] == "ended by itself"]
    assert [(line["role"], line["exit"], line["restarts"]) for line in ended] == [("worker-1", -9, 1)]


def test_a_killed_database_is_started_again(started: list[Command], tmp_path: Path) -> None:
    zone9, port = serve(started, tmp_path)
    eventually(lambda: page(f"http://127.0.0.1:{port}/readyz"))
    database = zone9.family()[-1]
    database.kill()
    assert not gone([database])

    eventually(lambda: '"role": "postgresql", "restarts": 1' in zone9.errors)
    eventually(lambda: page(f"http://127.0.0.1:{port}/readyz"))

    family = zone9.family()
    assert family[-1].pid != database.pid
    assert zone9.end() == 0
    assert not gone(family)


def test_sigterm_leaves_no_process_behind(started: list[Command], tmp_path: Path) -> None:
    zone9, port = serve(started, tmp_path, "--workers", "2")
    eventually(lambda: page(f"http://127.0.0.1:{port}/readyz"))
    family = zone9.family()
    assert len(family) >= 4  # the API, two workers, PostgreSQL

    assert zone9.end(signal.SIGTERM) == 0

    assert not gone(family)


def test_children_die_with_a_killed_parent_and_the_next_start_finds_the_data(
    started: list[Command], tmp_path: Path
) -> None:
    zone9, _port = serve(started, tmp_path)
    assert "the first token" in zone9.until("command line")
    children = eventually(lambda: len(zone9.family()) >= 3 and zone9.family()[:-1])
    zone9.end(signal.SIGKILL)
    assert not gone(children)

    again, port = serve(started, tmp_path)
    eventually(lambda: page(f"http://127.0.0.1:{port}/readyz"))
    family = again.family()

    assert "token" not in again.out
    assert again.end() == 0
    assert not gone(family)


def test_another_token_can_be_made_by_who_owns_the_data(started: list[Command], tmp_path: Path) -> None:
    zone9, _port = serve(started, tmp_path)
    first = zone9.until("command line").split("(shown once): ")[1].split()[0]
    zone9.end()
    again, port = serve(started, tmp_path, "--new-token")
    second = again.until("command line").split("(shown once): ")[1].split()[0]
    eventually(lambda: page(f"http://127.0.0.1:{port}/readyz"))

    assert first != second
    assert run(tmp_path, "token", "list").stdout.count("tok_") == 2
    kept = tmp_path / "config" / "zone9" / "cli.toml"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert second in kept.read_text()
    assert first not in again.errors + zone9.errors
    assert second not in again.errors


def test_one_data_directory_has_one_zone9(started: list[Command], tmp_path: Path) -> None:
    zone9, port = serve(started, tmp_path)
    eventually(lambda: page(f"http://127.0.0.1:{port}/healthz"))

    second = run(tmp_path, "serve", "--port", str(free_port()))
    taken = run(tmp_path, "serve", "--port", str(port))

    assert second.returncode == taken.returncode == 1
    assert one_line(second.stderr).startswith("zone9: another zone9 runs on")
    assert one_line(taken.stderr) == f"zone9: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert zone9.child.poll() is None


def test_a_worker_alone_works_on_a_database_of_ones_own(
    started: list[Command], tmp_path: Path, database_url: str
) -> None:
    worker = Command(tmp_path, "serve", "--role", "worker", ZONE9_DATABASE_URL=database_url)
    started.append(worker)

    worker.until("zone9 works")

    eventually(lambda: worker.child_like("worker-1"))
    assert worker.child_like("processes api") is None
    assert worker.end() == 0


def test_a_database_that_does_not_answer_is_said_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql://zone9:s3cret@127.0.0.1:{nobody.getsockname()[1]}/zone9"
        done = run(tmp_path, "serve", "--port", str(free_port()), ZONE9_DATABASE_URL=url)

    assert done.returncode == 4
    assert one_line(done.stderr).startswith("zone9: the database does not answer: ")
    assert "s3cret" not in done.stderr


def test_a_newer_database_is_said_in_one_line(tmp_path: Path, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v9999'")

    done = run(tmp_path, "serve", "--port", str(free_port()), ZONE9_DATABASE_URL=database_url)

    assert done.returncode == 1
    assert one_line(done.stderr) == "zone9: the database was made by a newer zone9; start that one"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--port", "0"], "--port"),
        (["serve", "--port", "http"], "--port"),
        (["serve", "--role", "cook"], "--role is all, api or worker"),
        (["serve", "--role", "worker"], "need ZONE9_DATABASE_URL"),
        (["serve", "--workers", "0"], "--workers"),
        (["serve", "--nonsense"], "--nonsense"),
    ],
)
def test_garbage_is_answered_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = run(tmp_path, *arguments)

    assert done.returncode == 2
    assert says in one_line(done.stderr)
    assert not (tmp_path / "data").exists()
