"""The connection to PostgreSQL, and the one way to read a row.

Every public store call is one transaction on one pooled connection. A lost connection surfaces as
`Unreachable`: the loop backs off, the API answers 503.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from zone9.base.errors import Unreachable
from zone9.store.migrate import sync_url

Row = RowMapping


# A process that stops in the middle of a transaction must not hold its rows for longer than others wait before they
# take its tasks over (10 s): the server ends such a session.
SESSION_OPTIONS = "-c idle_in_transaction_session_timeout=8s"


class Database:
    """Owns the pool: `size` connections, no more, so that a hundred runs do not exhaust the server."""

    def __init__(self, url: str, *, size: int = 10) -> None:
        self.url = url
        self.engine: AsyncEngine = create_async_engine(
            sync_url(url),
            pool_size=size,
            max_overflow=0,
            pool_timeout=60,
            pool_pre_ping=False,
            connect_args={"options": SESSION_OPTIONS},
            json_serializer=lambda value: json.dumps(value, default=str, ensure_ascii=False),
        )

        # For a single statement: PostgreSQL makes it a transaction of its own, without a BEGIN and a COMMIT to send.
        self._single = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """Opens a transaction; it commits at the end and rolls back on any exception."""
        async with _said(self.engine.begin()) as connection:
            yield connection

    @asynccontextmanager
    async def single(self) -> AsyncIterator[AsyncConnection]:
        """Lends a connection for exactly one statement, which is its own transaction."""
        async with _said(self._single.connect()) as connection:
            yield connection

    async def close(self) -> None:
        await self.engine.dispose()


@asynccontextmanager
async def _said(opened: AbstractAsyncContextManager[AsyncConnection]) -> AsyncIterator[AsyncConnection]:
    """Says a lost connection as `Unreachable`; any other error stays what it is."""
    try:
        async with opened as connection:
            yield connection
    except (OperationalError, InterfaceError) as error:
        raise Unreachable(
            "the database does not answer", code="database_unreachable", internal=str(error.orig or error)
        ) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise Unreachable(
                "the connection to the database was lost",
                code="database_unreachable",
                internal=str(error),
            ) from error
        raise


async def rows(connection: AsyncConnection, sql: str, **values: Any) -> list[Row]:
    """Runs a statement and returns all rows as mappings."""
    result = await connection.execute(text(sql), values)
    return list(result.mappings().all())


async def row(connection: AsyncConnection, sql: str, **values: Any) -> Row | None:
    """Runs a statement and returns its first row, or None."""
    return (await connection.execute(text(sql), values)).mappings().first()


async def run(connection: AsyncConnection, sql: str, **values: Any) -> int:
    """Runs a statement that returns nothing; says how many rows it touched."""
    return int((await connection.execute(text(sql), values)).rowcount)


def as_json(value: Any) -> str:
    """Renders a value for a `CAST(:x AS jsonb)` parameter."""
    return json.dumps(value, default=str, ensure_ascii=False)
