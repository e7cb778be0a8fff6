"""The audit in the database: every change of intent is in it, in order, and cannot be changed there."""

import asyncio
import json

import psycopg
import pytest

from world import World
from zone9.model.audit import Broken, Head, Link, follow
from zone9.store import tokens


async def links(world: World) -> list[Link]:
    found = await world.all("SELECT seq, entry, hash FROM audit ORDER BY seq")
    return [Link(int(one["seq"]), one["entry"], one["hash"]) for one in found]


async def test_every_version_is_an_entry_and_the_chain_holds(world: World) -> None:
    made = await world.server("web1")
    await world.settle(made.resource)
    await world.change("server", "web1", patch={"memory_mib": 1024})
    await world.delete("server", "web1")
    entries = await links(world)
    follow(Head(), entries)
    told = [json.loads(one.entry) for one in entries]
    about = [one for one in told if one.get("resource") == made.resource]
    assert [(one["action"], one["intent_version"], one["actor"]) for one in about] == [
        ("create", 1, "tester"),
        ("request", 2, "tester"),
        ("delete", 3, "tester"),
    ]
    assert about[1]["changed"] == {"memory_mib": 1024}
    versions = await world.all("SELECT count(*) AS n FROM intent_history")
    assert len([one for one in told if "intent_version" in one]) == versions[0]["n"]


async def test_what_is_rolled_back_leaves_no_entry_and_no_gap(world: World) -> None:
    before = await links(world)

    async def half_done() -> None:
        async with world.zone9.database.begin() as connection:
            await tokens.create(connection, name="gone", role="admin", project=None)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await half_done()
    assert await links(world) == before
    await world.create("plan", "next", {"cores": 1, "memory_mib": 512, "disk_gib": 4})
    follow(Head(), await links(world))


async def test_entries_of_many_at_once_are_one_chain(world: World) -> None:
    await asyncio.gather(
        *(world.create("plan", f"p{n}", {"cores": 1, "memory_mib": 512, "disk_gib": 4}) for n in range(20))
    )
    entries = await links(world)
    assert follow(Head(), entries).seq == len(entries)
    assert {json.loads(one.entry)["name"] for one in entries} >= {f"p{n}" for n in range(20)}


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE audit SET entry = replace(entry, 'tester', 'nobody') WHERE seq = 2",
        "DELETE FROM audit WHERE seq = 2",
        "UPDATE audit SET seq = -seq WHERE seq IN (2, 3); UPDATE audit SET seq = 5 + seq WHERE seq < 0",
    ],
)
async def test_a_tampered_database_is_found(world: World, database_url: str, tamper: str) -> None:
    follow(Head(), await links(world))
    with psycopg.connect(database_url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(tamper)
        connection.execute("SET session_replication_role = replica")
        connection.execute(tamper)
    with pytest.raises(Broken):
        follow(Head(), await links(world))
