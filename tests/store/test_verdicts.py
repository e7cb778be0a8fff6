"""What may be written, by whom, and in which order."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from world import ADMIN, World
from zone9.base.errors import Refused, Unreachable
from zone9.model.asking import Scope
from zone9.model.facts import Message, Verdict
from zone9.model.states import Convergence, Health
from zone9.store import runs
from zone9.store.database import Database, rows, run
from zone9.store.runs import store_verdict
from zone9.store.writes import LeaseTaken, Settled


def verdict(at: Any, version: int = 1, *, green: bool) -> Verdict:
    convergence = Convergence.APPLIED if green else Convergence.FAILED
    health = Health.OK if green else Health.DEGRADED
    return Verdict(convergence, health, version, at, "a test", None if green else Message("x", "x"))


async def test_a_slow_green_never_lands_on_a_fast_red(world: World) -> None:
    made = await world.server(networks=[])
    begun = await world.zone9.store.begin(made.resource)
    assert begun is not None
    now = await runs.now(world.zone9.database)
    async with world.zone9.database.begin() as connection:
        assert await store_verdict(connection, begun.intent, verdict(now, green=False), None)
        assert not await store_verdict(
            connection, begun.intent, verdict(now - timedelta(seconds=1), green=True), None
        )
    found = await world.row(made.resource)
    assert (found["convergence"], found["applied_version"]) == ("failed", None)


async def test_a_verdict_for_an_older_version_is_nobodys(world: World) -> None:
    made = await world.server(networks=[])
    begun = await world.zone9.store.begin(made.resource)
    assert begun is not None
    await world.change("server", "web1", patch={"tags": ["x"]})
    now = await runs.now(world.zone9.database)
    async with world.zone9.database.begin() as connection:
        assert not await store_verdict(connection, begun.intent, verdict(now, green=True), None)
    assert (await world.row(made.resource))["applied_version"] is None


async def test_a_terminal_job_never_changes_again(world: World) -> None:
    made = await world.server(networks=[])
    await world.settle(made.resource)
    with pytest.raises(psycopg.Error, match="cannot change"):
        async with world.zone9.database.begin() as connection:
            await run(connection, "UPDATE jobs SET status = 'failed' WHERE id = :id", id=made.job)


async def test_history_and_proofs_are_append_only(world: World) -> None:
    made = await world.server(networks=[])
    await world.settle(made.resource)
    for table in ("intent_history", "proofs"):
        with pytest.raises(psycopg.Error, match="append-only"):
            async with world.zone9.database.begin() as connection:
                await run(connection, f"UPDATE {table} SET resource = resource")


async def test_every_write_has_a_proof_with_both_halves(world: World) -> None:
    made = await world.server(tags=["a"])
    await world.settle(made.resource)
    await world.settle((await world.act("web1", "stop")).resource)
    writes = await world.all(
        "SELECT id, step, outcome FROM writes WHERE resource = :id ORDER BY id", id=made.resource
    )
    proofs = await world.all(
        "SELECT step, request, read_back, digest FROM proofs WHERE resource = :id ORDER BY id",
        id=made.resource,
    )
    assert [one["step"] for one in writes] == [one["step"] for one in proofs]
    assert all(one["outcome"] == "done" for one in writes)
    assert proofs[-1]["read_back"]["status"] == "stopped"
    assert all(one["digest"] for one in proofs)


async def test_no_more_than_so_many_hold_a_lease_and_who_gives_it_back_wakes_the_next(world: World) -> None:
    store = world.zone9.store
    made = [await world.server(f"l{number}", networks=[]) for number in range(4)]
    begun = [await store.begin(one.resource) for one in made]

    async def take(one: Any) -> Any:
        return await store.open_write(
            resource=one.intent.id, fence=one.fence, job=None, version=1, step="clone", target="1", node="n",
            request={}, lease=("clone:x", 2),
        )  # fmt: skip

    records = [await take(one) for one in begun[:2]]
    for one in begun[2:]:
        assert one is not None
        with pytest.raises(LeaseTaken):
            await take(one)
        assert await store.conclude(
            one, None, observed=None, job_status="waiting", delay=500, waiting_for="clone:x"
        )
    async with world.zone9.database.begin() as connection:
        await run(connection, "DELETE FROM procrastinate_jobs")
    await store.settle(records[0], Settled("done"))
    woken = await world.all("SELECT lock FROM procrastinate_jobs")
    assert [one["lock"] for one in woken] == [f"resource:{made[2].resource}"]


async def test_projects_do_not_see_one_another(world: World) -> None:
    async with world.zone9.database.begin() as connection:
        await run(connection, "INSERT INTO projects (id, name) VALUES ('prj_two', 'two')")
    two = Scope(token="t", actor="two", role="owner", project="prj_two")
    made = await world.server(networks=[])
    spec = {"region": "r1", "plan": "small", "image": "tiny", "networks": [{"network": "lan"}]}
    with pytest.raises(Refused) as refused:
        async with world.zone9.database.begin() as connection:
            await world.zone9.asking.create(connection, two, "server", "web1", spec)
    assert refused.value.code == "reference_not_found"
    with pytest.raises(Refused) as refused:
        async with world.zone9.database.begin() as connection:
            await world.zone9.asking.delete(connection, two, "server", made.resource)
    assert refused.value.code == "not_found"
    async with world.zone9.database.begin() as connection:
        same_name = await world.zone9.asking.create(
            connection, two, "server", "web1", {**spec, "networks": []}
        )
    assert same_name.resource != made.resource


async def test_the_regions_token_is_in_no_column_in_plain(world: World) -> None:
    made = await world.server(tags=["a"])
    await world.settle(made.resource)
    secret = world.sandbox.token.split("=", 1)[1]
    tables = await world.all("SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'")
    assert len(tables) > 15
    for table in tables:
        for one in await world.all(f'SELECT t::text AS line FROM "{table["name"]}" t'):
            assert secret not in one["line"], table["name"]


async def test_an_intent_its_job_and_its_task_stand_or_fall_together(world: World) -> None:
    class Stop(Exception):
        pass

    counts = "SELECT (SELECT count(*) FROM resources) AS r, (SELECT count(*) FROM jobs) AS j, (SELECT count(*) FROM procrastinate_jobs) AS t, (SELECT count(*) FROM addresses) AS a, (SELECT count(*) FROM events) AS e"
    before = (await world.all(counts))[0]
    spec = {"region": "r1", "plan": "small", "image": "tiny", "networks": [{"network": "lan"}]}

    async def cut_short() -> None:
        async with world.zone9.database.begin() as connection:
            await world.zone9.asking.create(connection, ADMIN, "server", "web1", spec)
            raise Stop

    with pytest.raises(Stop):
        await cut_short()
    assert (await world.all(counts))[0] == before


async def test_a_lost_database_is_unreachable_and_comes_back(world: World) -> None:
    database = Database(world.zone9.database.url, size=1)
    async with database.begin() as connection:
        await rows(connection, "SELECT 1")
    async with world.zone9.database.begin() as connection:
        await rows(
            connection,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()",
        )
    with pytest.raises(Unreachable):
        async with database.begin() as connection:
            await rows(connection, "SELECT 1")
    async with database.begin() as connection:
        assert await rows(connection, "SELECT 1 AS one")
    await database.close()
