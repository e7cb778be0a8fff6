"""`zone9 serve`: the database, the API and the workers of one installation.

It owns the embedded PostgreSQL (unless ZONE9_DATABASE_URL names one), brings it to the newest version, makes the
first token at the first start, and supervises a process for the API and one for each worker.
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from zone9.base.sealing import Sealer
from zone9.cli import logs
from zone9.cli.client import CommandError, write_config
from zone9.cli.supervise import Role, Supervisor
from zone9.store.database import Database
from zone9.store.embedded import EmbeddedPostgres, data_directory
from zone9.store.migrate import migrate


def serve(
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8009,
    role: Annotated[str, typer.Option(help="all, api or worker")] = "all",
    workers: Annotated[int, typer.Option(min=1, max=64, help="worker processes")] = 1,
    settle: Annotated[
        float, typer.Option(min=0.0, help="seconds an unanswered write may still turn up")
    ] = 35.0,
) -> None:
    """Serves until it is told to stop."""
    if role not in {"all", "api", "worker"}:
        raise CommandError("--role is all, api or worker", 2)
    if role == "all":
        logs.configure("serve")
        asyncio.run(_all(host, port, workers, settle))
        return
    url = os.environ.get("ZONE9_DATABASE_URL")
    if not url:
        raise CommandError("--role api and --role worker need ZONE9_DATABASE_URL", 2)
    logs.configure(role)
    if role == "api":
        from zone9.cli.processes import api  # here: a worker needs no web server

        _check_port(host, port)
        api(url, key_file(), host, port)
    else:
        from zone9.cli.processes import worker

        worker(url, key_file(), settle)


def key_file() -> Path:
    """Returns the sealing key's file; it is never in the database nor in a backup of it."""
    return Path(os.environ.get("ZONE9_KEY_FILE") or data_directory() / "sealing.key")


async def _all(host: str, port: int, workers: int, settle: float) -> None:
    _check_port(host, port)
    directory = data_directory()
    directory.mkdir(parents=True, exist_ok=True)
    url, embedded = os.environ.get("ZONE9_DATABASE_URL"), None
    if not url:
        print("starting the embedded PostgreSQL …", file=sys.stderr)
        embedded = EmbeddedPostgres(directory / "postgresql")
        url = embedded.url
    try:
        await asyncio.to_thread(migrate, url)
        Sealer.from_file(key_file())
        database = Database(url, size=2)
        try:
            await _first_start(database, host, port)
            roles = [Role("api", ("serve", "--role", "api", "--host", host, "--port", str(port)))]
            roles += [
                Role(f"worker-{number}", ("serve", "--role", "worker", "--settle", str(settle)))
                for number in range(1, workers + 1)
            ]
            environment = {**os.environ, "ZONE9_DATABASE_URL": url, "ZONE9_KEY_FILE": str(key_file())}
            supervisor = Supervisor(roles, environment, lambda name, code: _count(database, name, code))
            await supervisor.run()
        finally:
            await database.close()
    finally:
        if embedded is not None:
            embedded.stop()


async def _first_start(database: Database, host: str, port: int) -> None:
    """Makes the installation and the first administrator's token, which is shown this once."""
    from zone9.store import installation, tokens

    await installation.ensure(database)
    address = f"http://{'127.0.0.1' if host in {'0.0.0.0', '::'} else host}:{port}"
    token = await tokens.first(database)
    if token is not None:
        kept = write_config(address, token)
        print(
            f"zone9 is at {address}\nthe first token (shown once): {token}\nthe command line finds it in {kept}"
        )
    else:
        print(f"zone9 is at {address}")
    sys.stdout.flush()


async def _count(database: Database, role: str, code: int) -> None:
    """Counts a restart where every process can see it: in the change sequence."""
    from zone9.store.waking import emit

    async with database.begin() as connection:
        await emit(connection, "process", project=None, resource=None, data={"role": role, "exit": code})


def _check_port(host: str, port: int) -> None:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}", 1) from None


def openapi() -> None:
    """Prints the API's OpenAPI document."""
    from zone9.api.app import described
    from zone9.wiring import registry

    print(json.dumps(described(registry()).openapi(), indent=1, ensure_ascii=False, sort_keys=True))
