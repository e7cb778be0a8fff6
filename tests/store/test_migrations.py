"""Migrations: from nothing, again, and by several processes at once."""

import asyncio
import uuid

import psycopg

from postgres_servers import Server
from zone9.store.migrate import migrate


def versions(url: str) -> list[tuple[str]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT version_num FROM alembic_version").fetchall()


async def test_several_processes_may_migrate_one_empty_database(postgres: Server) -> None:
    name = f"z9_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = postgres.url.replace("/postgres?", f"/{name}?")
    await asyncio.gather(*(asyncio.to_thread(migrate, url) for _ in range(3)))
    assert versions(url) == [("0001",)]
    migrate(url)
    assert versions(url) == [("0001",)]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
