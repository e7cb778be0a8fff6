"""A write asks its permit when its turn has come, and again as the last thing before its bytes leave."""

import asyncio
import time
from dataclasses import dataclass, field

import httpx2
import pytest
from pve_tls_server import TOKEN, Certificate, Permit, Server, slow_road

from zone9.base.errors import Later
from zone9.pve.client import Client, Endpoint

WRITES = ("POST", "PUT", "DELETE")


async def test_confirm_may_read_inside_its_slot(server: Server, certificate: Certificate) -> None:
    endpoint = Endpoint((server.url,), TOKEN, fingerprint=certificate.fingerprint)

    @dataclass
    class Reading(Permit):
        async def confirm(self) -> None:
            await client.get("/nodes/a/qemu/1/config", slot_held=True, current=True)
            await super().confirm()

    async with Client(endpoint, slots=1) as client, asyncio.timeout(5):
        await asyncio.gather(
            *(
                client.write("PUT", "/nodes/a/qemu/1/config", {"cores": 1}, node="a", permit=Reading())
                for _ in range(3)
            )
        )
    assert [seen.method for seen in server.seen] == ["GET", "PUT"] * 3
    assert server.most == 1


@dataclass
class Ageing(Permit):
    """Is fresh for `life` seconds after its confirmation, on a real clock."""

    life: float = 60.0
    ages: list[float] = field(default_factory=list)
    confirmed: float = 0.0

    async def confirm(self) -> None:
        self.confirmed = time.monotonic()

    def still_fresh(self) -> None:
        self.ages.append(time.monotonic() - self.confirmed)
        if self.ages[-1] > self.life:
            raise Later("The confirmation is too old.", code="stale")


@pytest.mark.parametrize("life", [60.0, 0.2])
async def test_freshness_is_asked_after_the_connection_was_made(
    server: Server, certificate: Certificate, life: float
) -> None:
    permit = Ageing(life=life)
    path, form = "/nodes/a/qemu/1/config", {"cores": 2}
    async with (
        slow_road(server.url, delay=0.3) as url,
        Client(Endpoint((url,), TOKEN, fingerprint=certificate.fingerprint)) as client,
    ):
        if life > 1:
            await client.write("POST", path, form, node="a", permit=permit)
        else:
            with pytest.raises(Later, match="too old"):
                await client.write("POST", path, form, node="a", permit=permit)
    assert permit.ages[0] < 0.2, "once before anything, for transports without a trace"
    assert all(age >= 0.3 for age in permit.ages[1:]), "and once the handshake is done"
    assert len(permit.ages) == (3 if life > 1 else 2), "before the headers and before the body"
    assert len(server.seen) == (1 if life > 1 else 0)
    assert bool(server.received) == (life > 1)


@pytest.mark.parametrize("method", WRITES)
@pytest.mark.parametrize("fresh", [0, 1])
async def test_a_stale_permit_sends_nothing(client: Client, server: Server, method: str, fresh: int) -> None:
    permit = Permit(stale_after=fresh)
    with pytest.raises(Later) as caught:
        await client.write(method, "/nodes/a/qemu/1/config", {"cores": 2}, node="a", permit=permit)
    assert caught.value.code == "stale"
    assert (server.seen, bytes(server.received)) == ([], b"")


async def test_a_permit_that_ages_between_headers_and_body_leaves_no_whole_request(
    client: Client, server: Server
) -> None:
    with pytest.raises(Later, match="took over"):
        await client.write(
            "PUT", "/nodes/a/qemu/1/config", {"cores": 2}, node="a", permit=Permit(stale_after=2)
        )
    assert server.seen == []
    assert await client.get("/version") == {}


async def test_a_refused_confirmation_sends_nothing(client: Client, server: Server) -> None:
    class Refusing(Permit):
        async def confirm(self) -> None:
            raise Later("Not ours any more.", code="fenced")

    with pytest.raises(Later) as caught:
        await client.write("DELETE", "/nodes/a/qemu/1", {}, node="a", permit=Refusing())
    assert caught.value.code == "fenced"
    assert server.connections == 0


async def test_a_transport_without_trace_still_asks_the_permit() -> None:
    seen: list[str] = []
    permit = Permit()

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.method)
        return httpx2.Response(200, json={"data": permit.steps[-1]})

    endpoint = Endpoint(("https://127.0.0.1:8006",), TOKEN, fingerprint="ab" * 32)
    async with Client(endpoint, transport=httpx2.MockTransport(answer)) as client:
        last = await client.write("PUT", "/nodes/a/qemu/1/config", {"a": 1}, node="a", permit=permit)
        assert last == "fresh"
        permit.stale_after = 0
        with pytest.raises(Later):
            await client.write("PUT", "/nodes/a/qemu/1/config", {"a": 1}, node="a", permit=permit)
    assert seen == ["PUT"]
