"""The connection to PostgreSQL, and the one way to run a statement and read a row.

Every public store call is one transaction on one pooled connection. A lost connection surfaces as `Unreachable`:
the loop backs off, the API answers 503. Statements are plain SQL with named parameters (`:name`) and go straight to
the driver, which prepares what it meets often: an ORM's layer would cost more than the statement.
"""

import asyncio
import functools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from zone9.base.errors import Unreachable
from zone9.store.urls import libpq_url

Row = dict[str, Any]
Connection = psycopg.AsyncConnection[Row]

# A process that stops in the middle of a transaction must not hold its rows for longer than others wait before they
# take its tasks over (10 s): the server ends such a session.
SESSION_OPTIONS = "-c idle_in_transaction_session_timeout=8s"

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


class Database:
    """Lends connections: `size` of them, no more, so that a hundred runs do not exhaust the server.

    A connection that cannot be made is an error at once, for whoever asked: the loop and the clients know how to come
    back. (psycopg's own pool would keep each of them waiting for its next try.)
    """

    def __init__(self, url: str, *, size: int = 10) -> None:
        self.url = url
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Connection] = []

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Connection]:
        """Opens a transaction; it commits at the end and rolls back on any exception."""
        async with self.single() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def single(self) -> AsyncIterator[Connection]:
        """Lends a connection for exactly one statement, which is its own transaction."""
        connection: Connection | None = None
        try:
            async with self._slots:
                # The one used last: it has the statements prepared, and the others may rest.
                connection = self._idle.pop() if self._idle else await self._connect()
                try:
                    yield connection
                finally:
                    if connection.info.transaction_status == TransactionStatus.IDLE:
                        self._idle.append(connection)
                    else:
                        await connection.close()
        except psycopg.Error as error:
            lost = connection is None or connection.closed
            if lost:
                await self.close()  # the idle ones have most likely died with it
            if lost or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
                raise Unreachable(
                    "the database does not answer", code="database_unreachable", internal=str(error)
                ) from error
            raise

    async def _connect(self) -> Connection:
        return await psycopg.AsyncConnection.connect(
            libpq_url(self.url), autocommit=True, row_factory=dict_row, options=SESSION_OPTIONS
        )

    async def close(self) -> None:
        """Closes what is idle; the object can be used again."""
        while self._idle:
            await self._idle.pop().close()


async def rows(connection: Connection, sql: str, **values: Any) -> list[Row]:
    """Runs a statement and returns all rows as mappings."""
    return await (await connection.execute(_for_driver(sql), values)).fetchall()


async def row(connection: Connection, sql: str, **values: Any) -> Row | None:
    """Runs a statement and returns its first row, or None."""
    return await (await connection.execute(_for_driver(sql), values)).fetchone()


async def run(connection: Connection, sql: str, **values: Any) -> int:
    """Runs a statement that returns nothing; says how many rows it touched."""
    return (await connection.execute(_for_driver(sql), values)).rowcount


def as_json(value: Any) -> str:
    """Renders a value for a `CAST(:x AS jsonb)` parameter."""
    return json.dumps(value, default=str, ensure_ascii=False)


@functools.cache
def _for_driver(sql: str) -> bytes:
    """Returns a statement in the driver's own notation; there are as many as stand in the code."""
    return _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%")).encode()
