"""Databases for tests: each is as the migrations left it, whoever had it before.

Making one copies a few hundred files, which costs more than most tests; emptying one does not.
"""

import uuid
from typing import Any

import psycopg
from psycopg import sql

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
SEQUENCES = "SELECT sequencename, start_value FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL"


def in_database(url: str, name: str) -> str:
    return url.replace("/postgres?", f"/{name}?")


class Databases:
    """Hands out copies of `z9_template`; one that comes back is emptied and handed out again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._free: list[str] = []
        with psycopg.connect(in_database(url, "z9_template")) as connection:
            self._tables = [str(row[0]) for row in connection.execute(TABLES).fetchall()]
            self._seeds = {table: rows for table in self._tables if (rows := _rows_of(connection, table))}

    def take(self) -> str:
        if self._free:
            return self._free.pop()
        name = f"z9_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE z9_template STRATEGY file_copy")
        return name

    def give_back(self, name: str) -> None:
        """Empties a database; one that a test has changed otherwise is dropped."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                (name,),
            )
        try:
            self._empty(name)
        except psycopg.Error:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            return
        self._free.append(name)

    def _empty(self, name: str) -> None:
        with psycopg.connect(in_database(self.url, name)) as connection:
            if [str(row[0]) for row in connection.execute(TABLES).fetchall()] != self._tables:
                raise psycopg.ProgrammingError("other tables than the migrations made")
            # The triggers that keep history and proofs would refuse.
            connection.execute("SET session_replication_role = replica")
            for table in self._tables:
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
            for table, copied in self._seeds.items():
                with connection.cursor().copy(
                    sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))
                ) as copy:
                    copy.write(copied)
            for sequence, start in connection.execute(SEQUENCES).fetchall():
                connection.execute("SELECT setval(%s::regclass, %s, false)", (sequence, start))


def _rows_of(connection: psycopg.Connection[Any], table: str) -> bytes:
    with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
        return b"".join(bytes(part) for part in copy)
