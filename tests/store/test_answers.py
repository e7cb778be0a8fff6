"""Stored answers: given back as they were, to the same asker, until their time is over."""

import pytest

from world import World
from zone9.base.errors import Refused
from zone9.store import idempotency
from zone9.store.idempotency import Stored

ANSWER = Stored(201, {"Location": "/v1/x"}, b'{"token": "z9_secret"}')


async def keep(world: World, token: str = "t", *, secret: bool = False, job: str | None = None) -> None:
    async with world.zone9.database.begin() as connection:
        await idempotency.store(
            connection, world.zone9.sealer, ANSWER, token=token, key="k", body_hash=b"x", job=job, secret=secret
        )  # fmt: skip


async def recall(world: World, token: str = "t", body_hash: bytes = b"x") -> Stored | None:
    async with world.zone9.database.begin() as connection:
        return await idempotency.recall(
            connection, world.zone9.sealer, token=token, key="k", body_hash=body_hash
        )


@pytest.mark.parametrize("secret", [True, False])
async def test_an_answer_comes_back_as_it_was(world: World, *, secret: bool) -> None:
    await keep(world, secret=secret)
    assert await recall(world) == ANSWER
    stored = bytes((await world.all("SELECT body FROM idempotency"))[0]["body"])
    assert (b"z9_secret" in stored) is not secret


async def test_a_key_is_its_askers_own(world: World) -> None:
    await keep(world)
    assert await recall(world, token="other") is None
    with pytest.raises(Refused) as refused:
        await recall(world, body_hash=b"y")
    assert (refused.value.code, refused.value.status) == ("idempotency_key_reused", 422)


@pytest.mark.parametrize("status", ["succeeded", "failed", "canceled", "superseded", "waiting"])
async def test_a_key_is_free_after_a_day_once_its_job_has_ended(world: World, status: str) -> None:
    made = await world.server(networks=[])
    await world.all(
        "UPDATE jobs SET status = :status WHERE id = :id RETURNING id", status=status, id=made.job
    )
    await keep(world, job=made.job)
    await world.pass_time(24 * 3600 - 60)
    assert await recall(world) == ANSWER
    await world.pass_time(120)
    assert await recall(world) == (ANSWER if status == "waiting" else None)
