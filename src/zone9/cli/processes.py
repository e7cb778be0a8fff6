"""What one process of an installation does: serve the API, or work. `python -m zone9.cli.processes ROLE …`.

`zone9 serve` starts these and starts them again; they know their database and key file by environment, and nothing
of the sandbox or of the rest of the command line.
"""

import asyncio
import os
import sys
from pathlib import Path

import structlog

from zone9.base.errors import Problem
from zone9.cli import logs
from zone9.store import installation
from zone9.store.database import Database
from zone9.wiring import compose

log = structlog.get_logger("zone9.processes")


def api(url: str, key_file: Path, host: str, port: int) -> None:
    """Serves the API in this process until it is told to stop."""
    import uvicorn  # here: a worker needs no web server

    from zone9.api.app import create_app
    from zone9.api.state import ApiState
    from zone9.store.listening import Bell

    async def serve() -> None:
        epoch = await _epoch(url)
        zone9 = compose(url, key_file, epoch=epoch)
        state = ApiState(zone9.database, zone9.asking, zone9.products, zone9.sealer, epoch, Bell(url))
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
    from zone9.jobs.heart import Heart  # here: the API has no heart

    async def work() -> None:
        zone9 = compose(url, key_file, epoch=await _epoch(url), settle_seconds=settle)
        try:
            await zone9.engine(heart=Heart()).run(also=(zone9.passes.run,))
        finally:
            await zone9.close()

    asyncio.run(work())


async def _epoch(url: str) -> int:
    database = Database(url, size=1)
    try:
        return (await installation.ensure(database)).epoch
    finally:
        await database.close()


def main() -> int:
    """Runs one process; its arguments come from the supervisor, not from people."""
    role, *rest = sys.argv[1:]
    url, key_file = os.environ["ZONE9_DATABASE_URL"], Path(os.environ["ZONE9_KEY_FILE"])
    logs.configure(role)
    try:
        if role.startswith("worker"):
            worker(url, key_file, float(rest[0]))
        else:
            api(url, key_file, rest[0], int(rest[1]))
    except Problem as error:
        log.error("cannot go on", code=error.code, why=error.internal)  # noqa: TRY400 - it says enough
        return 1
    except Exception:
        log.exception("ended by an error")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
