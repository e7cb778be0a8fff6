"""Real parts for every test: a PostgreSQL of this session's own, and a database from a migrated template.

`ZONE9_TEST_POSTGRES` chooses it: `embedded` (the wheel's 18, the default) or `debian` (the system's 15).
"""

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
import structlog

from databases import Databases, in_database
from world import World, make_world
from zone9.sandbox import Sandbox
from zone9.store.embedded import EmbeddedPostgres
from zone9.store.migrate import migrate

# Thousands of steps are logged by the cut tests; what matters is asserted.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))

DEBIAN = Path("/usr/lib/postgresql/15/bin")


class DebianPostgres:
    """Is the system's own PostgreSQL, in a directory of this session; root needs the user `postgres` for it."""

    def __init__(self, directory: Path) -> None:
        if not (DEBIAN / "initdb").exists():
            pytest.fail("PostgreSQL 15 is missing: run scripts/system-packages as root")
        self._directory = directory
        self._as: dict[str, object] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(directory, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "-A", "trust", "-U", "postgres", "-D", str(directory / "data"), "-N")
        options = f"-c listen_addresses='' -c unix_socket_directories={directory} -c fsync=off"
        self._run(
            "pg_ctl",
            "-w",
            "-D",
            str(directory / "data"),
            "-l",
            str(directory / "log"),
            "-o",
            options,
            "start",
        )
        self.url = f"postgresql://postgres@/postgres?host={directory}"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(  # its output goes to a file: a daemon that inherits a pipe would hold it open
            [DEBIAN / program, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd="/", **self._as,
        )  # fmt: skip

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "-D", str(self._directory / "data"), "stop")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Yields the address of a running server; its migrated template database is `z9_template`."""
    directory = Path(tempfile.mkdtemp(prefix="z9-"))
    directory.chmod(0o755)
    kind = os.environ.get("ZONE9_TEST_POSTGRES", "embedded")
    server = DebianPostgres(directory) if kind == "debian" else EmbeddedPostgres(directory / "pg")
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            if kind != "debian":
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE DATABASE z9_template")
        migrate(in_database(server.url, "z9_template"))
        yield server.url
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def databases(postgres: str) -> Databases:
    return Databases(postgres)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Yields the address of a database that is as the migrations left it."""
    name = databases.take()
    yield in_database(databases.url, name)
    databases.give_back(name)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    """Yields a Proxmox with one template; a request that Proxmox's schema forbids fails the test."""
    async with Sandbox(nodes=("pve1", "pve2"), seed=1) as one:
        one.add_template(9000, "pve1")
        yield one
        await asyncio.sleep(0)
        assert not one.violations, one.violations


@pytest.fixture
async def world(database_url: str, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[World]:
    """Yields zone9 joined to the sandbox, with a region, a plan, an image and a network asked for and applied."""
    one = await make_world(database_url, sandbox, tmp_path / "key")
    yield one
    await one.close()
