"""Procrastinate, set up with the rules that keep it honest (docs/decisions/0003).

One task is one short run. Never its retries, never a time together with a lock, no priorities among tasks of
one lock, no queueing lock. Tasks of a dead worker come back through its public API.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import procrastinate
import structlog
from procrastinate.jobs import Job, Notification
from procrastinate.manager import JobManager, NotificationCallback

from zone9.jobs.heart import BEAT_SECONDS, STALLED_SECONDS, Heart
from zone9.store.database import SESSION_OPTIONS, Database, rows
from zone9.store.urls import libpq_url
from zone9.store.waking import QUEUE, RECONCILE, VERIFY, claim_due

log = structlog.get_logger("zone9.jobs")
logging.getLogger("procrastinate").setLevel(logging.WARNING)

Runner = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Is how fast the engine's own clocks tick, in seconds; tests make them quick."""

    beat: float = BEAT_SECONDS
    stalled: float = STALLED_SECONDS
    sweep: float = 0.5
    poll: float = 1.0
    concurrency: int = 40


class Engine:
    """Is one worker: it runs tasks, sweeps what is due, and brings back what a dead worker left."""

    def __init__(
        self,
        database: Database,
        *,
        reconcile: Runner,
        verify: Runner,
        pace: Pace | None = None,
        heart: Heart | None = None,
    ) -> None:
        self.database = database
        self.pace = pace or Pace()
        self._heart = heart
        connector = procrastinate.PsycopgConnector(
            conninfo=libpq_url(database.url), min_size=2, max_size=6, kwargs={"options": SESSION_OPTIONS}
        )
        self.app = procrastinate.App(connector=connector)
        self.app.job_manager = _Manager(connector, heart)
        self.app.task(name=RECONCILE, queue=QUEUE)(_task("resource", reconcile))
        self.app.task(name=VERIFY, queue=QUEUE)(_task("job", verify))

    async def run(self, *, also: tuple[Callable[[], Awaitable[None]], ...] = ()) -> None:
        """Works until it is cancelled or told to stop; any exception out of it ends the process."""
        async with self.app.open_async():
            if self._heart is not None:
                self._heart.start()
            try:
                async with asyncio.TaskGroup() as group:
                    side = [group.create_task(self._sweep()), group.create_task(self._bring_back())]
                    side += [group.create_task(_endless(one)) for one in also]
                    await self.app.run_worker_async(
                        queues=[QUEUE],
                        concurrency=self.pace.concurrency,
                        wait=True,
                        fetch_job_polling_interval=self.pace.poll,
                        update_heartbeat_interval=self.pace.beat,
                        stalled_worker_timeout=self.pace.stalled * 3,
                        delete_jobs="always",
                        install_signal_handlers=True,
                        shutdown_graceful_timeout=10,
                    )
                    for task in side:
                        task.cancel()
            finally:
                if self._heart is not None:
                    self._heart.stop()

    async def sweep_once(self) -> list[str]:
        """Defers what is due and returns its ids."""
        async with self.database.begin() as connection:
            return await claim_due(connection)

    async def bring_back_once(self) -> int:
        """Puts tasks whose worker has not beaten for long enough back into the queue."""
        stalled = list(await self.app.job_manager.get_stalled_jobs(seconds_since_heartbeat=self.pace.stalled))
        count = 0
        for job in stalled:
            if job.id is None:
                continue
            log.warning("task of a dead worker comes back", task=job.id, lock=job.lock)
            await self.app.job_manager.retry_job(job)
            count += 1
        return count

    async def _sweep(self) -> None:
        while True:
            await _surviving(self.sweep_once, "sweep")
            await asyncio.sleep(self.pace.sweep)

    async def _bring_back(self) -> None:
        while True:
            await _surviving(self.bring_back_once, "bring back")
            await asyncio.sleep(min(self.pace.beat, 1.0))


class _Manager(JobManager):
    """Tells our heart of each beat that the database took, and misses no news of a task."""

    def __init__(self, connector: Any, heart: Heart | None) -> None:
        super().__init__(connector)
        self._heart = heart
        self._heard = 0

    async def update_heartbeat(self, worker_id: int) -> None:
        await super().update_heartbeat(worker_id)
        if self._heart is not None:
            self._heart.beat()

    async def listen_for_jobs(
        self, *, on_notification: NotificationCallback, queues: Iterable[str] | None = None
    ) -> None:
        async def hear(*, channel: str, notification: Notification) -> None:
            self._heard += 1
            await on_notification(channel=channel, notification=notification)

        await super().listen_for_jobs(on_notification=hear, queues=queues)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Looks once more when news came while it looked: the worker forgets what it heard during a fetch.

        Without this such a task would lie until the next poll.
        """
        while True:
            heard = self._heard
            job = await super().fetch_job(queues=queues, worker_id=worker_id)
            if job is not None or heard == self._heard:
                return job


def _task(argument: str, runner: Runner) -> Callable[..., Awaitable[None]]:
    async def task(**arguments: Any) -> None:
        try:
            await runner(str(arguments[argument]))
        except Exception:
            # The run ends here and the resource's own next time brings it back: never Procrastinate's retry.
            log.exception("run ended by an error that is not one of ours", **arguments)
            raise

    return task


async def _endless(one: Callable[[], Awaitable[None]]) -> None:
    await one()


async def _surviving(once: Callable[[], Awaitable[Any]], what: str) -> None:
    """Runs a periodic duty; a database that is away for a moment does not end the worker (its heart may)."""
    try:
        await once()
    except Exception:
        log.exception("periodic duty failed", duty=what)


async def queue_length(database: Database) -> int:
    """Returns how many tasks wait."""
    async with database.begin() as connection:
        found = await rows(connection, "SELECT count(*) AS n FROM procrastinate_jobs WHERE status = 'todo'")
        return int(found[0]["n"])
