"""The five rules of the engine (docs/decisions/0003), each with the test that fails when it is broken."""

import ast
import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from world import World
from zone9.base.backoff import CEILING_SECONDS, delay
from zone9.base.errors import Later, Unreachable
from zone9.jobs.engine import Engine, Pace
from zone9.jobs.heart import Heart
from zone9.store.database import Database, rows, run
from zone9.store.runs import FenceLost
from zone9.store.starting import Starting
from zone9.store.waking import claim_due, defer_reconcile, wake

SOURCE = Path(__file__).parents[2] / "src" / "zone9"


@asynccontextmanager
async def engine(database: Database, runner: Any, **pace: Any) -> AsyncIterator[Engine]:
    """Runs a worker with a runner of the test's own."""

    async def nothing(_job: str) -> None:
        """Measures nothing."""

    one = Engine(
        database,
        reconcile=runner,
        verify=nothing,
        pace=Pace(**{"sweep": 0.05, "beat": 0.3, "stalled": 1.0, **pace}),
    )
    task = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(what: Callable[[], Any], seconds: float = 30) -> None:
    """Waits for something to become true."""
    async with asyncio.timeout(seconds):
        while True:
            found = what()
            if (await found) if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.02)


async def _status(world: World, job: str | None, status: str) -> bool:
    return (await world.job(job))["status"] == status


async def tasks(world: World) -> list[Any]:
    return await world.all("SELECT * FROM procrastinate_jobs ORDER BY id")


# Rule 1: one task is one short run; what waits holds nothing.


async def test_1_an_edit_of_a_server_that_waits_runs_at_once(world: World) -> None:
    answer = await world.server(networks=[])
    made = await world.settle(answer.resource)
    world.sandbox.operator.set_lock(made["facts"]["vmid"], "backup")
    await world.change("server", "web1", patch={"tags": ["one"]})
    await world.run(answer.resource)
    waiting = await world.row(answer.resource)
    assert waiting["next_reconcile_at"] is not None
    world.sandbox.operator.set_lock(made["facts"]["vmid"], None)
    edited = await world.change("server", "web1", patch={"tags": ["two"]})
    async with engine(world.zone9.database, world.zone9.loop.run):
        # Its own time to come back lay later, and is not waited for.
        await until(lambda: _status(world, edited.job, "succeeded"), 4)


async def test_1_no_task_ever_carries_a_time_a_retry_or_a_queueing_lock(world: World) -> None:
    await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        await run(connection, "UPDATE resources SET next_reconcile_at = z9_now() WHERE kind = 'region'")
        await claim_due(connection)
    deferred = await tasks(world)
    assert deferred
    for one in deferred:
        assert one["scheduled_at"] is None
        assert one["queueing_lock"] is None
        assert one["priority"] == 0
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword):
                assert node.arg not in {"queueing_lock", "schedule_at", "retry"}, file


async def test_1_a_wake_up_in_the_middle_of_a_run_is_never_lost(world: World) -> None:
    answer = await world.server(networks=[])
    begun = await world.zone9.store.begin(answer.resource)
    assert begun is not None
    async with world.zone9.database.begin() as connection:
        await wake(connection, [answer.resource])
    assert not await world.zone9.store.conclude(begun, None, observed=None, job_status=None, delay=None)
    fresh = await world.zone9.store.refresh(begun)
    assert await world.zone9.store.conclude(fresh, None, observed=None, job_status=None, delay=None)


# Rule 2: one running task a resource, and no more than the lock for it.


async def test_2_two_workers_never_run_one_resource_at_the_same_time(world: World) -> None:
    database, inside, worst, count = world.zone9.database, {"n": 0}, {"n": 0}, {"n": 0}

    async def runner(resource: str) -> None:
        if resource != "same":
            return
        inside["n"] += 1
        worst["n"] = max(worst["n"], inside["n"])
        await asyncio.sleep(0.001)
        inside["n"] -= 1
        count["n"] += 1

    async with database.begin() as connection:
        await run(
            connection,
            """
            INSERT INTO procrastinate_jobs (queue_name, task_name, lock, args)
            SELECT 'zone9', 'zone9.reconcile', 'resource:same', '{"resource": "same"}' FROM generate_series(1, 100)
            """,
        )
    async with engine(database, runner, poll=0.02), engine(database, runner, poll=0.02):
        await until(lambda: count["n"] == 100)
    assert worst["n"] == 1


async def test_2_a_resource_has_one_waiting_task_however_often_it_is_woken(world: World) -> None:
    answer = await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        for _ in range(5):
            await wake(connection, [answer.resource])
    waiting = await tasks(world)
    assert [one["lock"] for one in waiting].count(f"resource:{answer.resource}") == 1


# Rule 3: the worker is a process of its own (its end by an error: test_processes; its restart: the command line's tests).


def test_3_a_worker_that_cannot_beat_ends_itself() -> None:
    ended: list[int] = []
    now = [0.0]
    heart = Heart(limit=8.0, end=ended.append, clock=lambda: now[0])
    heart.start()
    now[0] = 7.9
    time.sleep(0.4)
    assert not ended
    now[0] = 8.1
    deadline = time.monotonic() + 5
    while not ended and time.monotonic() < deadline:
        time.sleep(0.05)
    heart.stop()
    assert ended == [70]


def test_3_a_process_that_was_stopped_longer_than_its_limit_ends_when_it_goes_on() -> None:
    code = "import time; from zone9.jobs.heart import Heart; h = Heart(limit=1.0); h.start(); print('up', flush=True); time.sleep(60)"
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        assert child.poll() is None
        child.send_signal(signal.SIGCONT)
        assert child.wait(timeout=5) == 70
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


# Rule 4: tasks of a dead worker come back, with a higher fence, and the old run can write nothing more.


async def test_4_a_task_of_a_dead_worker_comes_back(world: World) -> None:
    database = world.zone9.database
    ran: list[str] = []

    async def runner(resource: str) -> None:
        ran.append(resource)

    async with database.begin() as connection:
        await defer_reconcile(connection, ["srv_orphan"])
        # A worker took it, and its last beat is long ago.
        worker = (
            await rows(
                connection,
                "INSERT INTO procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 minute') RETURNING id",
            )
        )[0]["id"]
        await run(
            connection,
            "UPDATE procrastinate_jobs SET status = 'doing', worker_id = :worker WHERE lock = 'resource:srv_orphan'",
            worker=worker,
        )
    async with engine(database, runner):
        await until(lambda: "srv_orphan" in ran)


async def test_4_a_run_that_was_taken_over_can_write_nothing(world: World) -> None:
    answer = await world.server(networks=[])
    store = world.zone9.store
    old = await store.begin(answer.resource)
    new = await store.begin(answer.resource)
    assert old is not None
    assert new is not None
    assert new.fence == old.fence + 1
    resource = answer.resource
    region = old.intent.resolved["region"]
    attempts = [
        store.check_fence(resource, old.fence),
        store.record(resource, old.fence, {"x": 1}),
        store.place(resource, old.fence, region=region, first=10_000, last=10_999, facts={}),
        store.burn(resource, old.fence, region=region, vmid=1, why="x"),
        store.burn_foreign(resource, old.fence, region=region, vmids=(1,)),
        store.change_spec(resource, old.fence, {"power": "off"}, actor="guest", cause="x"),
        store.start_job(old, Starting("apply", "x", None)),
        store.refresh(old),
        store.conclude(old, None, observed=None, job_status="failed", delay=None),
        store.open_write(
            resource=resource,
            fence=old.fence,
            job=None,
            version=1,
            step="x",
            target="1",
            node="n",
            request={},
            lease=None,
        ),
    ]
    before = await world.row(resource)
    for one in attempts:
        with pytest.raises(FenceLost):
            await one
    assert await world.row(resource) == before
    attempt = await world.job(answer.job)
    assert attempt["attempt"] == new.fence


# Rule 5: the sweeper defers what is due, once; passing faults back off, for ever; a given-up version is not retried.


async def test_5_what_is_due_is_deferred_once_by_two_sweepers(world: World) -> None:
    answers = [await world.server(f"s{number}", networks=[]) for number in range(20)]
    ids = [one.resource for one in answers]
    async with world.zone9.database.begin() as connection:
        await run(connection, "DELETE FROM procrastinate_jobs")
        await run(connection, "UPDATE resources SET next_reconcile_at = NULL WHERE kind <> 'server'")
        await run(connection, "UPDATE resources SET next_reconcile_at = z9_now() WHERE kind = 'server'")

    async def sweep() -> list[str]:
        async with world.zone9.database.begin() as connection:
            return await claim_due(connection)

    found = await asyncio.gather(sweep(), sweep(), sweep())
    assert sorted(itertools.chain(*found)) == sorted(ids)
    assert len(await tasks(world)) == 20


async def test_5_a_given_up_version_is_measured_but_never_written_by_the_sweeper(world: World) -> None:
    answer = await world.server(networks=[])
    await world.settle(answer.resource)
    world.sandbox.faults.add("silent_noop", "PUT", "*/config", times=1)
    changed = await world.change("server", "web1", patch={"tags": ["x"]})
    assert (await world.settle(changed.resource))["convergence"] == "failed"
    before = len(world.writes())
    for _ in range(5):
        await world.pass_time(700)
        if changed.resource in await world.due():
            await world.run(changed.resource)
    assert world.writes()[before:] == []


async def test_5_passing_faults_back_off_to_ten_minutes_and_never_end(world: World) -> None:
    answer = await world.server(networks=[])
    await world.sandbox.stop()
    pauses = []
    for _ in range(14):
        await world.run(answer.resource)
        found = await world.all(
            "SELECT extract(epoch FROM next_reconcile_at - z9_now()) AS pause, convergence FROM resources WHERE id = :id",
            id=answer.resource,
        )
        pauses.append(float(found[0]["pause"]))
        await world.pass_time(700)
    assert found[0]["convergence"] == "pending" or found[0]["convergence"] == "applying"
    assert max(pauses) <= 600
    assert max(delay(n) for n in range(40)) <= CEILING_SECONDS
    job = await world.job(answer.job)
    assert job["status"] == "waiting"
    assert issubclass(FenceLost, Later)


async def test_4_a_process_that_stops_inside_a_transaction_does_not_hold_its_rows(world: World) -> None:
    answer = await world.server(networks=[])
    stopped = Database(world.zone9.database.url, size=1)

    async def stop_inside() -> None:
        async with stopped.begin() as connection:
            await run(connection, "SET LOCAL idle_in_transaction_session_timeout = '1s'")
            await rows(connection, "SELECT 1 FROM resources WHERE id = :id FOR UPDATE", id=answer.resource)
            sql = "SELECT reset_val FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
            assert (await rows(connection, sql))[0]["reset_val"] == "8000"
            async with asyncio.timeout(10):
                assert await world.zone9.store.begin(answer.resource) is not None
            await rows(connection, "SELECT 1")

    with pytest.raises(Unreachable):
        await stop_inside()
    await stopped.close()
