"""`zone9 serve`: the database, the API and the workers of one installation.

It owns the embedded PostgreSQL (unless ZONE9_DATABASE_URL names another), brings it to the newest version, makes the
first token at the first start, and supervises a process for the API and one for each worker. One process owns a data
directory at a time. Nothing here answers a request or runs a job.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated

import structlog
import typer

from zone9.base.errors import Never, Unreachable
from zone9.base.sealing import Sealer
from zone9.cli import logs
from zone9.cli.client import CommandError, write_config
from zone9.cli.supervise import Role, Supervisor, on_ending
from zone9.store.database import Database
from zone9.store.embedded import EmbeddedPostgres, data_directory
from zone9.store.migrate import migrate

log = structlog.get_logger("zone9.serve")

WATCH_SECONDS = 1.0


def serve(
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8009,
    role: Annotated[str, typer.Option(help="all, api or worker")] = "all",
    workers: Annotated[int, typer.Option(min=1, max=64, help="worker processes")] = 1,
    settle: Annotated[
        float, typer.Option(min=0.0, help="seconds an unanswered write may still turn up")
    ] = 35.0,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="make another administrator's token, and show it this once")
    ] = False,
) -> None:
    """Serves until it is told to stop."""
    if role not in {"all", "api", "worker"}:
        raise CommandError("--role is all, api or worker", 2)
    if role != "all" and not os.environ.get("ZONE9_DATABASE_URL"):
        raise CommandError("--role api and --role worker need ZONE9_DATABASE_URL", 2)
    logs.configure("serve")
    roles = []
    if role != "worker":
        _check_port(host, port)
        roles.append(Role("api", ("-m", "zone9.cli.processes", "api", host, str(port))))
    if role != "api":
        names = [f"worker-{number}" for number in range(1, workers + 1)]
        roles += [Role(name, ("-m", "zone9.cli.processes", name, str(settle))) for name in names]
    address = None if role == "worker" else _address(host, port)
    asyncio.run(_serve(roles, address, new_token=new_token))


def key_file() -> Path:
    """Returns the sealing key's file; it is never in the database nor in a backup of it."""
    return Path(os.environ.get("ZONE9_KEY_FILE") or data_directory() / "sealing.key")


async def _serve(roles: list[Role], address: str | None, *, new_token: bool) -> None:
    end = asyncio.Event()
    on_ending(end)
    async with _database() as url:
        if end.is_set():
            return
        Sealer.from_file(key_file())
        database = Database(url, size=2)
        try:
            told = await _tokens(database, address, new_token=new_token)
            print("\n".join([f"zone9 is at {address}" if address else "zone9 works", *told]), flush=True)

            async def count(name: str, code: int, restarts: int) -> None:
                await _count(database, name, code, restarts)

            environment = {**os.environ, "ZONE9_DATABASE_URL": url, "ZONE9_KEY_FILE": str(key_file())}
            await Supervisor(roles, environment, count, end).run()
        finally:
            await database.close()


@contextlib.asynccontextmanager
async def _database() -> AsyncIterator[str]:
    """Yields the address of a database at the newest version, and stops what it started."""
    directory = data_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot use {directory}: {error.strerror}", 1) from None
    if url := os.environ.get("ZONE9_DATABASE_URL"):
        await asyncio.to_thread(_migrate, url)
        yield url
        return
    with _alone(directory):
        first = not (directory / "postgresql" / "PG_VERSION").exists()
        _progress(
            f"starting the embedded PostgreSQL in {directory / 'postgresql'}{' (new)' if first else ''}"
        )
        embedded = await asyncio.to_thread(EmbeddedPostgres, directory / "postgresql")
        try:
            _progress("bringing the database to the newest version")
            await asyncio.to_thread(_migrate, embedded.url)
            watching = asyncio.create_task(_watch(embedded))
            try:
                yield embedded.url
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        finally:
            await asyncio.to_thread(embedded.stop)


async def _watch(embedded: EmbeddedPostgres) -> None:
    """Starts the embedded PostgreSQL again when somebody has killed it; workers and API wait or come back."""
    restarts = 0
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        try:
            if await asyncio.to_thread(embedded.revive):
                restarts += 1
                log.error("ended by itself", role="postgresql", restarts=restarts)
        except Never as error:
            log.error("database", why=error.public, internal=error.internal)  # noqa: TRY400 - it says enough


def _migrate(url: str) -> None:
    """Raises Never or Unreachable with a sentence for whoever started it, which never holds the address."""
    from alembic.util import CommandError as AlembicError  # here: only a start needs it
    from sqlalchemy.exc import OperationalError, SQLAlchemyError

    try:
        migrate(url)
    except OperationalError as error:
        lines = str(error.orig or error).strip().splitlines()
        raise Unreachable(
            f"the database does not answer: {lines[0] if lines else 'no reason given'}"
        ) from None
    except AlembicError:
        raise Never("the database was made by a newer zone9; start that one") from None
    except SQLAlchemyError as error:
        raise Never(f"ZONE9_DATABASE_URL cannot be used ({type(error).__name__})") from None


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Holds the data directory: two servers on one embedded database would stop it under each other."""
    try:
        handle = os.open(directory / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise CommandError(f"cannot use {directory}: {error.strerror}", 1) from None
    with os.fdopen(handle, "r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(
                f"another zone9 runs on {directory} (process {lock.read().strip()})", 1
            ) from None
        lock.seek(0)
        lock.truncate()
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        yield


async def _tokens(database: Database, address: str | None, *, new_token: bool) -> list[str]:
    """Makes the installation and, the first time or when asked, an administrator's token; returns what to say."""
    from zone9.store import installation, tokens  # here: the command line as a whole has no use for them

    await installation.ensure(database)
    token, which = await tokens.first(database), "the first token"
    if token is None and new_token:
        async with database.begin() as connection:
            _row, token = await tokens.create(connection, name="recovered", role="admin", project=None)
        which = "a new token"
    if token is None:
        return []
    told = [f"{which} (shown once): {token}"]
    if address is not None:
        try:
            told.append(f"the command line finds it in {write_config(address, token)}")
        except OSError as error:
            told.append(f"the command line's file could not be written: {error.strerror}")
    return told


async def _count(database: Database, role: str, code: int, restarts: int) -> None:
    """Counts a restart where every process can see it: in the change sequence."""
    from zone9.store.waking import emit

    async with database.begin() as connection:
        data: dict[str, object] = {"role": role, "exit": code, "restarts": restarts}
        await emit(connection, "process", project=None, resource=None, data=data)


def _address(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _check_port(host: str, port: int) -> None:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}", 1) from None


def _progress(what: str, **more: object) -> None:
    """Says what a slow start is at: to people as a line, else as a line of log."""
    if sys.stderr.isatty():
        print(f"{what} …", file=sys.stderr, flush=True)
    else:
        log.info(what, **more)


def openapi() -> None:
    """Prints the API's OpenAPI document."""
    from zone9.api.app import described
    from zone9.products.registry import registry

    print(json.dumps(described(registry()).openapi(), indent=1, ensure_ascii=False, sort_keys=True))
