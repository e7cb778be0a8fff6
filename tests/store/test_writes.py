"""Write records and slots: one record each write, closed once; a slot each holder, given back or run out."""

from typing import Any

import pytest

from world import World
from zone9.store.database import run
from zone9.store.runs import FenceLost
from zone9.store.writes import LEASE_SECONDS, LeaseTaken, Settled


async def taken(world: World, name: str) -> Any:
    return await world.zone9.store.begin((await world.server(name, networks=[])).resource)


async def opened(
    world: World, begun: Any, step: str = "clone", lease: tuple[str, int] | None = ("clone:x", 1)
) -> Any:
    return await world.zone9.store.open_write(
        resource=begun.intent.id, fence=begun.fence, job=begun.job, version=1, step=step, target="1", node="n",
        request={}, lease=lease,
    )  # fmt: skip


async def test_who_was_overtaken_writes_nothing_down(world: World) -> None:
    old = await taken(world, "a")
    await world.zone9.store.begin(old.intent.id)
    with pytest.raises(FenceLost):
        await opened(world, old)
    with pytest.raises(FenceLost):
        await world.zone9.store.keep(old.intent.id, old.fence, {"vmid": 1}, ())
    assert not await world.all("SELECT id FROM writes")
    assert not await world.all("SELECT slot FROM leases")
    assert "vmid" not in (await world.row(old.intent.id))["facts"]


async def test_a_slot_that_nobody_gave_back_runs_out(world: World) -> None:
    dead, next_ = await taken(world, "a"), await taken(world, "b")
    await opened(world, dead)
    await world.pass_time(LEASE_SECONDS - 5)
    with pytest.raises(LeaseTaken):
        await opened(world, next_)
    await world.pass_time(10)
    await opened(world, next_)
    assert [one["holder"] for one in await world.all("SELECT holder FROM leases")] == [next_.intent.id]


async def test_who_has_a_slot_needs_no_second_one(world: World) -> None:
    one, other = await taken(world, "a"), await taken(world, "b")
    await opened(world, one, lease=("clone:x", 2))
    await opened(world, one, lease=("clone:x", 2))
    await opened(world, other, lease=("clone:x", 2))
    assert len(await world.all("SELECT slot FROM leases")) == 2


async def test_a_slot_that_is_given_back_is_ones_own_alone(world: World) -> None:
    one, other = await taken(world, "a"), await taken(world, "b")
    record = await opened(world, one, lease=("clone:x", 2))
    await opened(world, other, lease=("clone:x", 2))
    await world.zone9.store.settle(record, Settled("done"))
    assert [lease["holder"] for lease in await world.all("SELECT holder FROM leases")] == [other.intent.id]


async def test_a_free_slot_wakes_the_living_one_that_waits_and_lets_it_wait_no_more(world: World) -> None:
    one, gone, waits = [await taken(world, name) for name in ("a", "b", "c")]
    record = await opened(world, one)
    async with world.zone9.database.begin() as connection:
        await run(
            connection,
            """
            UPDATE resources SET waiting_for = 'clone:x', phase = CASE WHEN id = :gone THEN 'deleted' ELSE phase END,
                next_reconcile_at = z9_now() + CASE WHEN id = :gone THEN interval '1 s' ELSE interval '1 min' END
            WHERE id IN (:gone, :waits)
            """,
            gone=gone.intent.id,
            waits=waits.intent.id,
        )
        await run(connection, "DELETE FROM procrastinate_jobs")
    await world.zone9.store.settle(record, Settled("done"))
    woken = await world.all("SELECT lock FROM procrastinate_jobs")
    assert [task["lock"] for task in woken] == [f"resource:{waits.intent.id}"]
    assert (await world.row(waits.intent.id))["waiting_for"] is None


async def test_a_record_is_closed_once_with_one_proof(world: World) -> None:
    begun = await taken(world, "a")
    record = await opened(world, begun)
    done = Settled("done", "OK", {"status": "stopped"}, "d", record.opened_at)
    await world.zone9.store.settle(record, done)
    await world.zone9.store.settle(record, Settled("failed", "late", {}, "e", record.opened_at))
    assert [one["outcome"] for one in await world.all("SELECT outcome FROM writes")] == ["done"]
    assert [one["digest"] for one in await world.all("SELECT digest FROM proofs")] == ["d"]


async def test_what_was_not_read_back_is_not_proven(world: World) -> None:
    begun = await taken(world, "a")
    await world.zone9.store.settle(await opened(world, begun), Settled("not_sent"))
    assert not await world.all("SELECT id FROM proofs")


async def test_what_is_known_of_a_step_is_what_is_open_and_what_ended_last(world: World) -> None:
    store, begun = world.zone9.store, await taken(world, "a")
    for text in ("first", "second"):
        record = await opened(world, begun)
        await store.settle(record, Settled("failed", text))
        await world.pass_time(10)
    still = await opened(world, begun, step="start")
    await store.write_sent(still.id, "UPID:n:1")
    known = await store.recorded(begun.intent.id)
    assert {step: one.exit_text for step, one in known.last.items()} == {"clone": "second"}
    assert [(one.id, one.upid) for one in known.open_writes] == [(still.id, "UPID:n:1")]


async def test_a_job_is_told_something_once_and_nothing_after_its_end(world: World) -> None:
    store, begun = world.zone9.store, await taken(world, "a")
    for _ in range(2):
        await store.note(begun.job, "the template is on one node only")
    assert (await world.job(begun.job))["notes"] == ["the template is on one node only"]
    await world.all(
        """UPDATE jobs SET status = 'canceled', steps = '[{"step": "clone", "percent": 10}]' WHERE id = :id RETURNING id""",
        id=begun.job,
    )
    await store.note(begun.job, "late")
    await store.progress(begun.job, 90)
    ended = await world.job(begun.job)
    assert (ended["notes"], ended["steps"][0]["percent"]) == (["the template is on one node only"], 10)
