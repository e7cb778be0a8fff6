"""How soon a deferred task begins, beside Procrastinate with nothing of ours around it."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import procrastinate

from bench.kit import Figure, Installation, median, percentile
from zone9.jobs.engine import Engine
from zone9.store.database import Database
from zone9.store.urls import libpq_url
from zone9.store.waking import defer_reconcile

COUNT = 200


async def ours(url: str) -> list[float]:
    database = Database(url, size=4)
    begun: dict[str, asyncio.Future[float]] = {}

    async def runner(resource: str) -> None:
        begun[resource].set_result(time.perf_counter())

    async def nothing(_job: str) -> None:
        """Measures nothing."""

    worker = asyncio.create_task(Engine(database, reconcile=runner, verify=nothing).run())
    await asyncio.sleep(1.5)
    times = []
    for number in range(COUNT):
        key = f"bench-{number}"
        begun[key] = asyncio.get_running_loop().create_future()
        async with database.begin() as connection:
            await defer_reconcile(connection, [key])
        committed = time.perf_counter()
        times.append((await begun[key] - committed) * 1000)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    await database.close()
    return times


async def bare(url: str) -> list[float]:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=libpq_url(url)))
    begun: dict[str, asyncio.Future[float]] = {}

    @app.task(name="bench.bare", queue="bench")
    async def task(key: str) -> None:
        begun[key].set_result(time.perf_counter())

    times = []
    async with app.open_async():
        worker: asyncio.Task[Any] = asyncio.create_task(
            app.run_worker_async(
                queues=["bench"], concurrency=40, install_signal_handlers=False, delete_jobs="always"
            )
        )
        await asyncio.sleep(1.5)
        for number in range(COUNT):
            key = f"bare-{number}"
            begun[key] = asyncio.get_running_loop().create_future()
            await task.defer_async(key=key)
            committed = time.perf_counter()
            times.append((await begun[key] - committed) * 1000)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    return times


def run(made: Installation) -> Iterator[Figure]:
    # A database of its own: the installation's worker would take these tasks.
    import psycopg  # here: nothing else in this module speaks SQL

    from zone9.store.migrate import migrate

    with psycopg.connect(made.database_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE z9_bench")
    url = made.database_url.replace("/postgres?", "/z9_bench?")
    migrate(url)
    mine, theirs = asyncio.run(ours(url)), asyncio.run(bare(url))
    yield Figure("task pick-up, p50", median(mine), "ms", "bare Procrastinate, p50", median(theirs))
    yield Figure(
        "task pick-up, p99", percentile(mine, 0.99), "ms", "bare Procrastinate, p99", percentile(theirs, 0.99)
    )
