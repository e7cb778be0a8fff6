"""Addresses and VMIDs: unique by constraint, never given twice, never given back too early."""

import asyncio

import pytest

from world import ADMIN, World
from zone9.base.errors import Later, Refused
from zone9.store import allocations
from zone9.store.database import run


async def region_of(world: World) -> str:
    return str((await world.all("SELECT id FROM resources WHERE kind = 'region'"))[0]["id"])


async def test_fifty_takers_at_once_get_fifty_vmids(world: World) -> None:
    region = await region_of(world)
    made = await world.server(networks=[])

    async def take() -> int:
        async with world.zone9.database.begin() as connection:
            return await allocations.take_vmid(
                connection, region=region, resource=made.resource, first=10_000, last=10_999
            )

    taken = await asyncio.gather(*(take() for _ in range(50)))
    assert sorted(taken) == list(range(10_000, 10_050))


async def test_a_burnt_vmid_is_never_taken_again_and_a_used_up_range_says_so(world: World) -> None:
    region = await region_of(world)
    made = await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        await allocations.burn_vmid(connection, region=region, vmid=10_000, why="a test")
        taken = [
            await allocations.take_vmid(
                connection, region=region, resource=made.resource, first=10_000, last=10_003
            )
            for _ in range(3)
        ]
        assert taken == [10_001, 10_002, 10_003]
    async with world.zone9.database.begin() as connection:
        with pytest.raises(Later, match="used up"):
            await allocations.take_vmid(
                connection, region=region, resource=made.resource, first=10_000, last=10_003
            )


async def test_ids_go_up_within_the_range_and_its_gaps_come_last(world: World) -> None:
    region = await region_of(world)
    made = await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        for vmid in (9_000, 10_001, 20_000):
            await allocations.burn_vmid(connection, region=region, vmid=vmid, why="a test")
        taken = [
            await allocations.take_vmid(
                connection, region=region, resource=made.resource, first=9_999, last=10_003
            )
            for _ in range(4)
        ]
    assert taken == [10_002, 10_003, 9_999, 10_000]


async def test_an_id_is_burnt_once_and_for_its_first_reason(world: World) -> None:
    region = await region_of(world)
    made = await world.server(networks=[])
    async with world.zone9.database.begin() as connection:
        vmid = await allocations.take_vmid(
            connection, region=region, resource=made.resource, first=10_000, last=10_009
        )
        for why in ("a stranger has it", "deleted"):
            await allocations.burn_vmid(connection, region=region, vmid=vmid, why=why)
    found = await world.all("SELECT state, why FROM vmids WHERE vmid = :vmid", vmid=vmid)
    assert [(one["state"], one["why"]) for one in found] == [("burnt", "a stranger has it")]


async def test_network_broadcast_and_gateway_are_never_given(world: World) -> None:
    await world.create(
        "network", "tiny", {"region": "r1", "vlan": 7, "cidr": "10.20.0.0/29", "gateway": "10.20.0.1"}
    )
    given = []
    for number in range(5):
        await world.server(f"s{number}", networks=[{"network": "tiny"}])
        row = (await world.all("SELECT resolved FROM resources WHERE name = :name", name=f"s{number}"))[0]
        given.append(row["resolved"]["networks"][0]["address"])
    assert given == [f"10.20.0.{last}" for last in range(2, 7)]
    with pytest.raises(Refused) as full:
        await world.server("s9", networks=[{"network": "tiny"}])
    assert full.value.code == "network_full"


async def test_a_wanted_address_is_given_once(world: World) -> None:
    await world.server("a", networks=[{"network": "lan", "address": "10.10.0.50"}])
    for taken in ("10.10.0.50", "10.10.0.1", "10.10.0.0", "10.10.0.255", "192.0.2.1"):
        with pytest.raises(Refused) as refused:
            await world.server("b", networks=[{"network": "lan", "address": taken}])
        assert (refused.value.code, refused.value.status) == ("address_taken", 409)
    assert not await world.all("SELECT 1 FROM resources WHERE name = 'b'"), "nothing is left half-done"


async def test_a_released_address_rests_for_an_hour_of_the_databases_clock(world: World) -> None:
    made = await world.server("a", networks=[{"network": "lan", "address": "10.10.0.50"}])
    await world.settle(made.resource)
    await world.settle((await world.delete("server", "a")).resource)
    with pytest.raises(Refused):
        await world.server("b", networks=[{"network": "lan", "address": "10.10.0.50"}])
    await world.pass_time(3601)
    await world.server("b", networks=[{"network": "lan", "address": "10.10.0.50"}])


async def test_an_address_is_kept_by_whoever_has_it_and_rests_from_its_release_on(world: World) -> None:
    made, other = await world.server("a", networks=[]), await world.server("b", networks=[])
    network = (await world.all("SELECT id FROM resources WHERE name = 'lan'"))[0]["id"]
    spec = {"cidr": "10.10.0.0/24", "gateway": "10.10.0.1"}

    async def take(resource: str, wanted: str | None) -> str:
        async with world.zone9.database.begin() as connection:
            return await allocations.take_address(
                connection, network=network, spec=spec, resource=resource, wanted=wanted
            )

    given = await take(made.resource, None)
    assert [await take(made.resource, wanted) for wanted in (None, given)] == [given, given]
    assert await take(made.resource, "10.10.0.77") == "10.10.0.77", "another one was asked for"
    await world.pass_time(7200)
    with pytest.raises(Refused):
        await take(other.resource, given)  # however long it has been held
    async with world.zone9.database.begin() as connection:
        await allocations.release_addresses(connection, made.resource, left=False)
    with pytest.raises(Refused):
        await take(other.resource, given)
    await world.pass_time(allocations.REST_SECONDS + 1)
    assert await take(other.resource, given) == given


async def test_addresses_asked_for_at_once_are_distinct(world: World) -> None:
    await asyncio.gather(*(world.server(f"p{number}") for number in range(30)))
    rows = await world.all("SELECT resolved FROM resources WHERE kind = 'server'")
    addresses = [one["resolved"]["networks"][0]["address"] for one in rows]
    macs = [one["resolved"]["networks"][0]["mac"] for one in rows]
    assert len(set(addresses)) == len(set(macs)) == 30


async def test_a_vlan_of_a_bridge_is_one_network(world: World) -> None:
    await world.create("network", "v7", {"region": "r1", "vlan": 7, "cidr": "10.7.0.0/24"})
    with pytest.raises(Refused) as refused:
        await world.create("network", "again", {"region": "r1", "vlan": 7, "cidr": "10.8.0.0/24"})
    assert refused.value.code == "vlan_taken"
    await world.create(
        "network", "other", {"region": "r1", "bridge": "vmbr1", "vlan": 7, "cidr": "10.8.0.0/24"}
    )


async def test_a_quota_holds_under_concurrency(world: World) -> None:
    async with world.zone9.database.begin() as connection:
        await run(
            connection, "UPDATE projects SET quota = '{\"server\": 3}' WHERE id = :id", id=ADMIN.project
        )
    results = await asyncio.gather(
        *(world.server(f"q{n}", networks=[]) for n in range(10)), return_exceptions=True
    )
    refused = [one for one in results if isinstance(one, Refused)]
    assert {one.code for one in refused} == {"quota_reached"}
    rows = await world.all("SELECT count(*) AS n FROM resources WHERE kind = 'server' AND phase <> 'deleted'")
    assert rows[0]["n"] == 3
