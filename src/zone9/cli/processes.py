"""What one process of an installation does: serve the API, or work."""

import asyncio
from pathlib import Path

import structlog
import uvicorn

from zone9.api.app import create_app
from zone9.api.state import ApiState
from zone9.jobs.heart import Heart
from zone9.store import events, idempotency, installation
from zone9.store.database import Database
from zone9.store.listening import Bell
from zone9.wiring import compose

log = structlog.get_logger("zone9.processes")

TRIM_SECONDS = 3600.0


def api(url: str, key_file: Path, host: str, port: int) -> None:
    """Serves the API in this process until it is told to stop."""

    async def serve() -> None:
        zone9 = compose(url, key_file, epoch=(await _epoch(url)))
        state = ApiState(
            zone9.database, zone9.asking, zone9.products, zone9.sealer, await _epoch(url), Bell(url)
        )
        config = uvicorn.Config(
            create_app(state),
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
        )
        try:
            await uvicorn.Server(config).serve()
        finally:
            await zone9.close()

    asyncio.run(serve())


def worker(url: str, key_file: Path, settle: float) -> None:
    """Works in this process until it is told to stop; any exception ends it, and its supervisor counts that."""

    async def work() -> None:
        zone9 = compose(url, key_file, epoch=(await _epoch(url)), settle_seconds=settle)
        try:
            engine = zone9.engine(heart=Heart())
            await engine.run(also=(zone9.passes.run, lambda: _trim(zone9.database)))
        finally:
            await zone9.close()

    asyncio.run(work())


async def _epoch(url: str) -> int:
    database = Database(url, size=1)
    try:
        return (await installation.ensure(database)).epoch
    finally:
        await database.close()


async def _trim(database: Database) -> None:
    """Lets old events and idempotency keys go, once an hour."""
    while True:
        try:
            await events.trim(database)
            await idempotency.trim(database)
        except Exception:
            log.exception("trimming failed")
        await asyncio.sleep(TRIM_SECONDS)
