"""Who gets an identity, as a table; and the same against a real database, many at once."""

import asyncio
import hashlib

import pytest

from world import ADMIN, World
from zone9.appliances.enrolling import enrol
from zone9.appliances.enrolment import Claim, decide
from zone9.base.errors import Refused
from zone9.store import alarms, devices
from zone9.wire.messages import Enrolled, Enrolment

UUID = "0a0a0a0a-0000-4000-8000-000000000001"
OTHER = "0c0c0c0c-0000-4000-8000-000000000001"
BOOT = "0b0b0b0b-0000-4000-8000-000000000001"


def claim(token: str = "open", **more: object) -> Claim:
    return Claim(**{"token": token, "expired": False, "same_machine": True, "same_product": True, **more})  # type: ignore[arg-type]


TABLE = [
    (None, "token_unknown", None, False),
    (claim("void"), "token_unknown", None, False),
    (claim(), "new", None, False),
    (claim(expired=True), "token_expired", None, False),
    (claim(same_machine=False), "token_other_machine", "token_other_machine", False),
    (claim(same_machine=False, expired=True), "token_other_machine", "token_other_machine", False),
    (claim(same_product=False), "token_other_product", None, False),
    (claim("used", device="enrolled", same_secret=True), "again", None, False),
    (claim("used", device="enrolled", same_secret=True, expired=True), "again", None, False),
    (claim("used", device="active", same_secret=True), "token_spent", None, False),
    (claim("used", device="enrolled"), "token_frozen", "token_claimed_twice", True),
    (claim("used", device="active"), "token_frozen", "token_claimed_twice", True),
    (claim("used", device="active", proven=True), "token_spent", "token_sent_again", False),
    (claim("used", device="frozen", same_secret=True), "token_frozen", None, False),
    (claim("used", device="revoked", same_secret=True), "token_frozen", None, False),
    (claim("frozen", device="frozen"), "token_frozen", None, False),
    (claim("used", device="active", same_machine=False), "token_other_machine", "token_other_machine", False),
]


@pytest.mark.parametrize(("claimed", "said", "alarm", "freeze"), TABLE)
def test_decisions(claimed: Claim | None, said: str, alarm: str | None, freeze: bool) -> None:
    found = decide(claimed)
    assert (found.code or found.answer) == said
    assert (found.alarm.code if found.alarm else None) == alarm
    assert found.freeze is freeze
    assert (found.status == 200) == (found.answer != "refused")


async def minted(world: World, resource: str) -> str:
    async with world.zone9.database.begin() as connection:
        return await devices.mint(connection, resource=resource, product="lb", uuid=UUID.upper())


def asking(token: str, secret: str = "one", *, uuid: str = UUID, product: str = "lb") -> Enrolment:
    return Enrolment(token, hashlib.sha256(secret.encode()).hexdigest(), uuid, BOOT, product)


async def ask(world: World, request: Enrolment) -> Enrolled:
    return await enrol(world.zone9.database, request, epoch=1)


async def refused(world: World, request: Enrolment) -> str:
    with pytest.raises(Refused) as error:
        await ask(world, request)
    return error.value.code


async def sounded(world: World) -> dict[str, int]:
    async with world.zone9.database.begin() as connection:
        found = await alarms.listed(connection, ADMIN, below=None, limit=50, all_of_them=False)
    return {one["kind"]: one["times"] for one in found}


@pytest.fixture
async def resource(world: World) -> str:
    return (await world.server(networks=[])).resource


async def test_a_token_makes_one_device_and_a_lost_answer_is_given_again(world: World, resource: str) -> None:
    token = await minted(world, resource)
    answers = {await ask(world, asking(token)) for _ in range(3)}
    assert len(answers) == 1
    [device] = await world.all("SELECT * FROM devices")
    assert (device["state"], device["uuid"], device["resource"]) == ("enrolled", UUID, resource)
    assert (
        await world.all("SELECT 1 AS one FROM bootstrap_tokens WHERE hash = :hash", hash=token.encode()) == []
    )
    async with world.zone9.database.begin() as connection:
        await devices.change(connection, device["id"], state="active")
    assert await refused(world, asking(token)) == "token_spent"
    assert await sounded(world) == {}


async def test_many_with_one_token_make_one_device(world: World, resource: str) -> None:
    token = await minted(world, resource)
    same = await asyncio.gather(*(ask(world, asking(token)) for _ in range(8)))
    assert len({one.device for one in same}) == 1
    assert len(await world.all("SELECT id FROM devices")) == 1


async def test_of_many_that_claim_one_token_at_once_none_keeps_it(world: World, resource: str) -> None:
    token = await minted(world, resource)
    answers = await asyncio.gather(
        *(ask(world, asking(token, f"secret {number}")) for number in range(6)), return_exceptions=True
    )
    assert sum(isinstance(one, Enrolled) for one in answers) == 1
    assert {one.code for one in answers if isinstance(one, Refused)} == {"token_frozen"}
    assert [one["state"] for one in await world.all("SELECT state FROM devices")] == ["frozen"]
    assert await refused(world, asking(token, "secret 0")) == "token_frozen"
    assert await sounded(world) == {"token_claimed_twice": 1}
    again = await minted(world, resource)
    assert (await ask(world, asking(again, "new"))).device, "a re-issued one works"


async def test_b36_a_clone_gets_nothing_and_the_original_goes_on(world: World, resource: str) -> None:
    token = await minted(world, resource)
    for _ in range(3):
        assert await refused(world, asking(token, "clone", uuid=OTHER)) == "token_other_machine"
    assert await sounded(world) == {"token_other_machine": 3}
    assert (await ask(world, asking(token))).device
    assert await refused(world, asking(token, "clone", uuid=OTHER)) == "token_other_machine"
    assert [one["state"] for one in await world.all("SELECT state FROM devices")] == ["enrolled"]


async def test_a_token_lives_for_a_quarter_of_an_hour_from_the_start(world: World, resource: str) -> None:
    token = await minted(world, resource)
    await world.pass_time(3600)
    now = (await world.all("SELECT z9_now() AS now"))[0]["now"]
    async with world.zone9.database.begin() as connection:
        await devices.started(connection, resource, now)
    await world.pass_time(devices.TOKEN_SECONDS - 5)
    assert (await ask(world, asking(token))).device
    other = await minted(world, resource)
    async with world.zone9.database.begin() as connection:
        await devices.started(connection, resource, now)
    await world.pass_time(10)
    assert await refused(world, asking(other, "late")) == "token_expired"
    assert (await ask(world, asking(token))).device, "what was used is given again, however late"


async def test_a_new_token_voids_the_one_before(world: World, resource: str) -> None:
    first, second = await minted(world, resource), await minted(world, resource)
    assert await refused(world, asking(first)) == "token_unknown"
    assert await refused(world, asking("x" * 40)) == "token_unknown"
    assert (await ask(world, asking(second))).device


async def test_a_secret_is_one_devices(world: World, resource: str) -> None:
    first = await minted(world, resource)
    await ask(world, asking(first))
    assert await refused(world, asking(await minted(world, resource))) == "secret_known"


async def test_with_its_resource_a_device_is_revoked_and_a_token_void(world: World, resource: str) -> None:
    await world.settle(resource)
    used = await minted(world, resource)
    await ask(world, asking(used))
    left = await minted(world, resource)
    await world.delete("server", resource)
    assert (await world.settle(resource))["phase"] == "deleted"
    assert [one["state"] for one in await world.all("SELECT state FROM devices")] == ["revoked"]
    assert await refused(world, asking(left, "two")) == "token_unknown"
    assert await refused(world, asking(used)) == "token_frozen"
