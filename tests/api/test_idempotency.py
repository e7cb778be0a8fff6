"""Idempotency keys: the answer stands or falls with its transaction (design section 7)."""

import asyncio
from typing import Any

import pytest

from api_kit import PLAN, SERVER
from api_world import Api
from zone9.base.errors import Refused
from zone9.store import idempotency
from zone9.store.database import run

KEY = {"Idempotency-Key": "k"}


async def test_a_second_request_while_the_first_is_open_is_409(api: Api) -> None:
    zone9 = api.world.zone9
    token = (await api.client.get("/v1/tokens")).json()["items"][0]["id"]
    async with zone9.database.begin() as connection:
        await idempotency.recall(connection, zone9.sealer, token=token, key="k", body_hash=b"x")
        answer = await api.client.post("/v1/plans", json={"name": "p", "spec": PLAN}, headers=KEY)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_in_progress")
    assert (
        await api.client.post("/v1/plans", json={"name": "p", "spec": PLAN}, headers=KEY)
    ).status_code == 200


async def test_ten_at_once_make_one(api: Api) -> None:
    body = {"name": "web1", "spec": SERVER}
    answers = await asyncio.gather(
        *(api.client.post("/v1/servers", json=body, headers=KEY) for _ in range(10))
    )
    assert {one.status_code for one in answers} <= {202, 409}
    assert {one.json()["code"] for one in answers if one.status_code == 409} <= {"idempotency_in_progress"}
    jobs = {one.json()["job"]["id"] for one in answers if one.status_code == 202}
    assert len(jobs) == 1
    assert len((await api.client.get("/v1/servers")).json()["items"]) == 1


async def test_a_refused_request_leaves_its_key_free(api: Api) -> None:
    wrong = await api.client.post("/v1/plans", json={"name": "Wrong!", "spec": PLAN}, headers=KEY)
    assert wrong.status_code == 422
    right = await api.client.post("/v1/plans", json={"name": "right", "spec": PLAN}, headers=KEY)
    assert right.status_code == 200
    assert "idempotent-replayed" not in right.headers


async def test_the_same_key_in_another_project_is_another_request(api: Api) -> None:
    await api.client.post("/v1/projects", json={"name": "other"})
    await api.client.post("/v1/ssh-keys", json={"name": "k", "spec": {"public_key": SSH_KEY}}, headers=KEY)
    there = await api.client.post(
        "/v1/ssh-keys",
        json={"name": "k", "spec": {"public_key": SSH_KEY}},
        headers={**KEY, "Zone9-Project": "other"},
    )
    assert there.json()["code"] == "idempotency_key_reused"


SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJvYmJvYmJvYmJvYmJvYmJvYmJvYmJvYmJvYmJvYmJv bob"


async def test_a_replayed_token_is_sealed_in_the_database(api: Api) -> None:
    body = {"name": "t", "role": "viewer"}
    first = await api.client.post("/v1/tokens", json=body, headers=KEY)
    again = await api.client.post("/v1/tokens", json=body, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["token"] == first.json()["token"]
    assert again.headers["idempotent-replayed"] == "true"
    stored = await api.world.all("SELECT body FROM idempotency")
    assert first.json()["token"].encode() not in b"".join(bytes(one["body"]) for one in stored)
    dumped = "".join(str(dict(one)) for one in await api.world.all("SELECT * FROM api_tokens"))
    assert first.json()["token"] not in dumped


async def test_a_key_is_kept_24_hours_and_until_its_job_has_ended(api: Api) -> None:
    made = await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER}, headers=KEY)
    await api.client.post("/v1/plans", json={"name": "p", "spec": PLAN}, headers={"Idempotency-Key": "p"})
    await api.world.pass_time(25 * 3600)
    again = await api.client.post("/v1/servers", json={"name": "web1", "spec": SERVER}, headers=KEY)
    assert again.headers["idempotent-replayed"] == "true"
    assert await idempotency.trim(api.world.zone9.database) == 1
    await api.world.settle(made.json()["resource"]["id"])
    assert await idempotency.trim(api.world.zone9.database) == 1


async def test_an_answer_sealed_for_one_key_does_not_open_for_another(api: Api) -> None:
    zone9 = api.world.zone9
    await api.client.post("/v1/tokens", json={"name": "t", "role": "viewer"}, headers=KEY)
    async with zone9.database.begin() as connection:
        await run(connection, "UPDATE idempotency SET key = 'other', body_hash = '\\x00'")
    found: dict[str, Any] = (await api.world.all("SELECT token FROM idempotency"))[0]  # type: ignore[assignment]
    with pytest.raises(Exception, match="does not open"):
        async with zone9.database.begin() as connection:
            await idempotency.recall(
                connection, zone9.sealer, token=found["token"], key="other", body_hash=b"\x00"
            )
    with pytest.raises(Refused):
        async with zone9.database.begin() as connection:
            await idempotency.recall(
                connection, zone9.sealer, token=found["token"], key="other", body_hash=b"\x01"
            )
