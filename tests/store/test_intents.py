"""Intent: a new version forgets what stood in the way of the old one, and ends its jobs and no others."""

import pytest

from world import ADMIN, World
from zone9.base.errors import Refused
from zone9.store import intents
from zone9.store.database import run


async def test_a_new_version_starts_with_a_clean_slate(world: World) -> None:
    made = await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        await run(
            connection,
            "UPDATE resources SET failures = 7, given_up_version = 1, convergence = 'failed', waiting_for = 'x' WHERE id = :id",
            id=made.resource,
        )
    await world.change("server", "web1", patch={"tags": ["a"]})
    found = await world.row(made.resource)
    slate = [
        found[name]
        for name in ("intent_version", "failures", "given_up_version", "convergence", "waiting_for")
    ]
    assert slate == [2, 0, None, "pending", None]


async def test_a_new_version_ends_the_jobs_of_older_ones_but_no_look(world: World) -> None:
    made = await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        look = await world.zone9.asking.verify(connection, ADMIN, "server", "web1")
    newest = await world.change("server", "web1", patch={"tags": ["a"]})
    jobs = {one["id"]: one["status"] for one in await world.all("SELECT id, status FROM jobs")}
    assert [jobs[str(one)] for one in (made.job, look.job, newest.job)] == ["superseded", "queued", "queued"]
    told = await world.all("SELECT data FROM events WHERE kind = 'job' AND data ->> 'status' = 'superseded'")
    assert [one["data"]["job"] for one in told] == [made.job]


async def test_whoever_asks_for_the_same_again_gets_the_job_at_work_and_no_look(world: World) -> None:
    made = await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        await world.zone9.asking.verify(connection, ADMIN, "server", "web1")
        assert await intents.open_job_of(connection, made.resource, 1) == made.job
        assert await intents.open_job_of(connection, made.resource, 2) is None


async def test_a_deletion_that_is_tried_again_is_still_a_deletion(world: World) -> None:
    made, kept = await world.server(networks=[]), await world.server("web2", networks=[])
    await world.settle(made.resource)
    await world.delete("server", "web1")
    async with world.zone9.database.begin() as connection:
        for one in (made, kept):
            await run(
                connection,
                "UPDATE resources SET convergence = 'failed', given_up_version = 1 WHERE id = :id",
                id=one.resource,
            )
            await intents.ask_again(connection, one.resource)
    found = [await world.row(one.resource) for one in (made, kept)]
    assert [(one["convergence"], one["given_up_version"]) for one in found] == [
        ("deleting", None), ("pending", None),
    ]  # fmt: skip


async def test_what_a_version_no_longer_needs_is_free(world: World) -> None:
    made = await world.server(networks=[])
    await world.create("plan", "large", {"cores": 2, "memory_mib": 512, "disk_gib": 4})
    await world.change("server", "web1", patch={"plan": "large"})
    plans = {
        one["name"]: one["id"]
        for one in await world.all("SELECT id, name FROM resources WHERE kind = 'plan'")
    }
    async with world.zone9.database.begin() as connection:
        assert await intents.users_of(connection, plans["small"]) == []
        assert await intents.users_of(connection, plans["large"]) == ["server web1"]
        needed = await intents.needs_of(connection, made.resource)
    assert [name for name, one in plans.items() if one in needed] == ["large"]


async def test_the_deleted_stand_on_nothing_and_are_not_there(world: World) -> None:
    made = await world.server()
    await world.settle(made.resource)
    network = (await world.all("SELECT id FROM resources WHERE name = 'lan'"))[0]["id"]
    await world.settle((await world.delete("server", "web1")).resource)
    phases = await world.all(
        "SELECT phase FROM intent_history WHERE resource = :id ORDER BY version", id=made.resource
    )
    assert [one["phase"] for one in phases] == ["live", "deleting"]
    async with world.zone9.database.begin() as connection:
        await run(connection, "INSERT INTO edges VALUES (:id, :needs) ON CONFLICT DO NOTHING", id=made.resource, needs=network)  # fmt: skip
        assert await intents.users_of(connection, network) == []
        with pytest.raises(Refused) as refused:
            await intents.load_for_change(connection, made.resource)
    assert refused.value.code == "not_found"


async def test_a_kind_that_lives_here_alone_frees_what_it_stood_on(world: World) -> None:
    plan = (await world.all("SELECT id FROM resources WHERE name = 'small'"))[0]["id"]
    lan = (await world.all("SELECT id FROM resources WHERE name = 'lan'"))[0]["id"]
    async with world.zone9.database.begin() as connection:
        await run(connection, "INSERT INTO edges VALUES (:id, :needs)", id=plan, needs=lan)
        await intents.delete_at_once(connection, await intents.load_for_change(connection, plan))
        assert await intents.needs_of(connection, plan) == ()
    found = await world.row(plan)
    assert (found["phase"], found["next_reconcile_at"]) == ("deleted", None)
