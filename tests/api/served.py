"""A whole zone9 behind a real address: API, worker and sandbox in one thread with a loop of its own.

For what cannot be tried in the test's own loop: streams, clients that block, and generated requests.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from world import World, make_world
from zone9.api.app import create_app
from zone9.api.state import ApiState
from zone9.jobs.engine import Pace
from zone9.sandbox import Sandbox
from zone9.store import tokens
from zone9.store.listening import Bell
from zone9.store.waking import QUEUE


class Served:
    """Is a running zone9: its address, an administrator's token, and its world for looking behind the scenes."""

    def __init__(self) -> None:
        self.url = ""
        self.token = ""
        self.world: World
        self.loop = asyncio.new_event_loop()
        self.stopping = asyncio.Event()

    def do(self, coroutine: Coroutine[Any, Any, Any], *, seconds: float = 60) -> Any:
        """Runs a coroutine in zone9's own loop and returns what it returns."""
        future: Future[Any] = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return future.result(seconds)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@contextmanager
def serving(database_url: str, key_file: Path, *, worker: bool = True) -> Iterator[Served]:
    """Serves until the block ends."""
    served, ready = Served(), threading.Event()
    failed: list[BaseException] = []

    async def whole() -> None:
        try:
            async with _running(served, database_url, key_file, worker=worker):
                ready.set()
                await served.stopping.wait()
        except BaseException as error:
            failed.append(error)
            raise
        finally:
            ready.set()

    def run() -> None:
        with contextlib.suppress(BaseException):
            served.loop.run_until_complete(whole())
        served.loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(60)
    if failed:
        raise failed[0]
    try:
        yield served
    finally:
        served.loop.call_soon_threadsafe(served.stopping.set)
        thread.join(30)
    if failed:
        raise failed[0]


@asynccontextmanager
async def _running(served: Served, database_url: str, key_file: Path, *, worker: bool) -> AsyncIterator[None]:
    async with Sandbox(nodes=("pve1", "pve2"), seed=1) as sandbox:
        sandbox.add_template(9000, "pve1")
        world = served.world = await make_world(database_url, sandbox, key_file)
        zone9 = world.zone9
        async with zone9.database.begin() as connection:
            _, served.token = await tokens.create(connection, name="first", role="admin", project=None)
        state = ApiState(
            zone9.database, zone9.asking, zone9.products, zone9.sealer, 1, Bell(zone9.database.url)
        )
        config = uvicorn.Config(
            create_app(state),
            host="127.0.0.1",
            port=0,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        # uvicorn answers signals only in the main thread, which this is not.
        tasks = [asyncio.create_task(server.serve())]
        if worker:
            tasks.append(asyncio.create_task(_working(world)))
        while not server.started:  # noqa: ASYNC110 - uvicorn offers nothing to wait for
            await asyncio.sleep(0.01)
        served.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        try:
            yield
        finally:
            server.should_exit = True
            for task in tasks[1:]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await world.close()


async def _working(world: World) -> None:
    """Is the engine without its signal handlers, which need the main thread."""
    engine = world.zone9.engine(pace=Pace(beat=0.5, stalled=5, sweep=0.05))
    async with engine.app.open_async():

        async def sweep() -> None:
            while True:
                await engine.sweep_once()
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            group.create_task(sweep())
            await engine.app.run_worker_async(
                queues=[QUEUE],
                concurrency=10,
                wait=True,
                fetch_job_polling_interval=0.5,
                delete_jobs="always",
                install_signal_handlers=False,
                shutdown_graceful_timeout=2,
            )


structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
