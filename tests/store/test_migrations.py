"""Migrations: from nothing, again, and by several processes at once."""

import asyncio
import uuid

import psycopg

from postgres_servers import Server
from zone9.model.audit import Head, Link, follow
from zone9.store.installation import newest_migration
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
    assert versions(url) == [(newest_migration(),)]
    migrate(url)
    assert versions(url) == [(newest_migration(),)]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


async def test_what_the_first_version_stored_begins_the_record(postgres: Server) -> None:
    name = f"z9_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = postgres.url.replace("/postgres?", f"/{name}?")
    migrate(url, "0001")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO projects (id, name) VALUES ('prj_1', 'default')")
        connection.execute(
            "INSERT INTO resources (id, kind, project, name, spec) VALUES ('key_1', 'ssh-key', 'prj_1', 'mine', '{}')"
        )
        for version in (1, 2):
            connection.execute(
                "INSERT INTO intent_history (resource, version, name, spec, resolved, phase, actor, cause)"
                " VALUES ('key_1', %s, 'mine', '{}', '{}', 'live', 'token:first', 'request')",
                (version,),
            )
    migrate(url)
    with psycopg.connect(url) as connection:
        entries = connection.execute("SELECT seq, entry, hash, project FROM audit ORDER BY seq").fetchall()
        follow(Head(), [Link(*one[:3]) for one in entries])
        assert [(one[3], '"taken_over": true' in one[1]) for one in entries] == [("prj_1", True)] * 2
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
