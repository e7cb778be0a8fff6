"""The event stream and waiting for a job, over a real connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from api_kit import SERVER
from served import Served, serving
from zone9.store import events
from zone9.store.database import row, run


@pytest.fixture
def served(database_url: str, tmp_path: Path) -> Iterator[Served]:
    with serving(database_url, tmp_path / "key") as one:
        yield one


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=served.url, headers=served.headers, timeout=20) as one:
        yield one


class Stream:
    """Reads events one by one."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.aiter_lines()

    async def next(self, *, seconds: float = 15) -> dict[str, Any]:
        found: dict[str, Any] = {}
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                key, _, value = line.partition(": ")
                if line == "" and "event" in found:
                    return found
                if key in {"id", "event", "data"}:
                    found[key] = json.loads(value) if key == "data" else value
        raise AssertionError("the stream ended")


async def sql(served: Served, statement: str, **values: Any) -> None:
    async def do() -> None:
        async with served.world.zone9.database.begin() as connection:
            await run(connection, statement, **values)

    await asyncio.to_thread(served.do, do())


async def test_a_stream_begins_now_and_resumes_after_the_last_event_seen(
    served: Served, client: httpx2.AsyncClient
) -> None:
    async with client.stream("GET", "/v1/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = Stream(response)
        hello = await stream.next()
        assert hello["event"] == "hello"
        made = (await client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
        first = await stream.next()
    seen = [first]
    async with client.stream("GET", "/v1/events", headers={"Last-Event-ID": first["id"]}) as response:
        stream = Stream(response)
        await stream.next()
        while (seen[-1]["event"], seen[-1]["data"].get("status")) != ("job", "succeeded"):
            seen.append(await stream.next())
    assert len({one["id"] for one in seen}) == len(seen)
    async with client.stream("GET", "/v1/events", headers={"Last-Event-ID": hello["id"]}) as response:
        stream = Stream(response)
        await stream.next()
        again = [await stream.next() for _ in seen]
    assert [one["id"] for one in again] == [one["id"] for one in seen]
    jobs = [one["data"]["status"] for one in seen if one["data"].get("job") == made["job"]["id"]]
    assert [jobs[0], jobs[-1]] == ["queued", "succeeded"]


async def test_an_event_of_an_older_transaction_that_commits_later_is_not_lost(
    served: Served, client: httpx2.AsyncClient
) -> None:
    async with client.stream("GET", "/v1/events") as response:
        stream = Stream(response)
        await stream.next()
        opened = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def slow() -> None:
            ending = asyncio.Event()
            loop.call_soon_threadsafe(waits.append, (asyncio.get_running_loop(), ending))
            async with served.world.zone9.database.begin() as connection:
                await run(connection, "INSERT INTO events (kind, data) VALUES ('slow', '{}')")
                loop.call_soon_threadsafe(opened.set)
                await ending.wait()

        waits: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        running = asyncio.create_task(asyncio.to_thread(served.do, slow()))
        await opened.wait()
        await sql(served, "INSERT INTO events (kind, data) VALUES ('quick', '{}')")
        await sql(served, "SELECT pg_notify('z9_events', '')")
        with pytest.raises(TimeoutError):
            await stream_quiet(stream)
        other, ending = waits[0]
        other.call_soon_threadsafe(ending.set)
        await running
    async with client.stream("GET", "/v1/events", headers={"Last-Event-ID": "e1-0-0"}) as response:
        found: list[str] = []
        stream = Stream(response)
        while "quick" not in found:
            found.append((await stream.next())["event"])
        assert found[-2:] == ["slow", "quick"]


async def stream_quiet(stream: Stream) -> None:
    while True:
        assert (await stream.next(seconds=1.0))["event"] not in {"slow", "quick"}


async def test_a_place_that_is_too_old_or_of_another_epoch_is_410(
    served: Served, client: httpx2.AsyncClient
) -> None:
    async def answer(place: str) -> tuple[int, str]:
        got = await client.get("/v1/events", headers={"Last-Event-ID": place})
        return got.status_code, got.json()["code"]

    assert await answer("e2-0-0") == (410, "events_too_old")
    assert await answer("nonsense") == (400, "bad_event_id")
    await sql(served, "UPDATE events SET at = at - interval '8 days'")
    assert await asyncio.to_thread(served.do, events.trim(served.world.zone9.database)) > 0
    assert await answer("e1-0-0") == (410, "events_too_old")


async def test_another_projects_events_are_not_told(served: Served, client: httpx2.AsyncClient) -> None:
    await client.post("/v1/projects", json={"name": "other"})
    made = await client.post(
        "/v1/tokens", json={"name": "t", "role": "viewer"}, headers={"Zone9-Project": "other"}
    )
    headers = {"Authorization": f"Bearer {made.json()['token']}"}
    async with client.stream("GET", "/v1/events", headers=headers) as response:
        stream = Stream(response)
        await stream.next()
        await client.post("/v1/servers", json={"name": "web1", "spec": SERVER})
        key = {"public_key": SSH_KEY}
        await client.post("/v1/ssh-keys", json={"name": "k", "spec": key}, headers={"Zone9-Project": "other"})
        told = await stream.next()
        while told["event"] in {"verdict", "process"}:  # of regions and images, which are everybody's
            told = await stream.next()
    assert told["data"]["resource"].startswith("key_")


SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJvYmJvYmJvYmJvYmJvYmJvYmJvYmJvYmJvYmJvYmJv bob"


async def test_a_stream_ends_when_its_token_is_revoked(served: Served, client: httpx2.AsyncClient) -> None:
    made = (await client.post("/v1/tokens", json={"name": "t", "role": "viewer"})).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    async with client.stream("GET", "/v1/events", headers=headers) as response:
        stream = Stream(response)
        await stream.next()
        assert (await client.post(f"/v1/tokens/{made['id']}/revoke")).status_code == 200
        assert (await client.get("/v1/jobs", headers=headers)).status_code == 401
        await client.post("/v1/servers", json={"name": "web1", "spec": SERVER})
        with pytest.raises(AssertionError, match="the stream ended"):
            await stream.next()


async def test_prefer_wait_holds_a_job_until_it_moves(served: Served, client: httpx2.AsyncClient) -> None:
    made = (await client.post("/v1/servers", json={"name": "web1", "spec": SERVER})).json()
    path, job = f"/v1/jobs/{made['job']['id']}", made["job"]
    looks = 0
    async with asyncio.timeout(30):
        while job["status"] in {"queued", "running", "waiting"}:
            got = await client.get(path, headers={"Prefer": "wait=10"})
            assert got.headers["preference-applied"] == "wait=10"
            job, looks = got.json(), looks + 1
    assert job["status"] == "succeeded"
    assert looks < 40
    assert (await client.get("/v1/servers/web1")).json()["state"]["chip"] == "applied"


async def test_a_lost_listener_connects_again(served: Served) -> None:
    bell = served.world.zone9  # the API's own listener is the one that says LISTEN
    await sql(
        served,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN z9_events%' "
        "AND datname = current_database()",
    )

    async def listening() -> int:
        async with bell.database.begin() as connection:
            found = await row(
                connection,
                "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE 'LISTEN z9_events%' "
                "AND datname = current_database()",
            )
            assert found is not None
            return int(found["n"])

    for _ in range(75):
        if await asyncio.to_thread(served.do, listening()) == 1:
            return
        await asyncio.sleep(0.2)
    raise AssertionError("nobody listens")
