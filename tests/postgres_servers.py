"""PostgreSQL servers for tests: the wheel's, which zone9 brings along, and Debian's, the oldest that it supports."""

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg

from databases import Databases, in_database
from zone9.store.embedded import EmbeddedPostgres
from zone9.store.migrate import migrate

KINDS = ("postgresql18", "postgresql15")
DEBIAN = Path("/usr/lib/postgresql/15/bin")


class DebianPostgres:
    """Is the system's own PostgreSQL, in a directory of this session; root needs the user `postgres` for it."""

    def __init__(self, directory: Path) -> None:
        if not (DEBIAN / "initdb").exists():
            raise FileNotFoundError("PostgreSQL 15 is missing: run scripts/system-packages as root")
        self._directory = directory
        self._as: dict[str, object] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(directory, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._run("initdb", "-A", "trust", "-U", "postgres", "-D", str(directory / "data"), "-N")
        options = f"-c listen_addresses='' -c unix_socket_directories={directory}"
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


@dataclass(frozen=True)
class Server:
    """Is a server that runs; `url` is its maintenance database."""

    url: str
    databases: Databases


class Servers:
    """Starts each kind of server when it is first asked for, and ends them all together."""

    def __init__(self) -> None:
        self._running: dict[str, Server] = {}
        self._endings = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._endings.close()

    def of(self, kind: str) -> Server:
        if kind not in self._running:
            self._running[kind] = self._start(kind)
        return self._running[kind]

    def _start(self, kind: str) -> Server:
        directory = Path(tempfile.mkdtemp(prefix="z9-"))
        self._endings.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)
        server = DebianPostgres(directory) if kind == "postgresql15" else EmbeddedPostgres(directory / "pg")
        self._endings.callback(server.stop)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE DATABASE z9_template")
        migrate(in_database(server.url, "z9_template"))
        return Server(server.url, Databases(server.url))
