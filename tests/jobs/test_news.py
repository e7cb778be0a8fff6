"""News of a task that comes while the worker looks for tasks: Procrastinate forgets it, we look once more."""

from typing import Any

import pytest
from procrastinate.manager import JobManager

from world import World
from zone9.jobs.engine import Engine


async def nothing(_id: str) -> None:
    """Does nothing."""


async def test_news_during_a_fetch_is_a_reason_to_look_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = Engine(world.zone9.database, reconcile=nothing, verify=nothing).app.job_manager
    tell: list[Any] = []
    looks: list[Any] = []

    async def listen(self: JobManager, *, on_notification: Any, queues: Any = None) -> None:
        tell.append(on_notification)

    async def fetch(self: JobManager, queues: Any, worker_id: int) -> Any:
        looks.append(worker_id)
        if len(looks) == 1:  # its statement has begun, and another process commits a task
            await tell[0](channel="any", notification={"type": "job_inserted", "job_id": 1})
            return None
        return "the task" if len(looks) == 2 else None

    async def heard(**_news: Any) -> None:
        """Is what the worker does with news."""

    monkeypatch.setattr(JobManager, "listen_for_jobs", listen)
    monkeypatch.setattr(JobManager, "fetch_job", fetch)
    await manager.listen_for_jobs(on_notification=heard)

    assert await manager.fetch_job(queues=None, worker_id=7) == "the task"
    assert await manager.fetch_job(queues=None, worker_id=7) is None
    assert looks == [7, 7, 7]
