"""What the client promises, against a real TLS server on loopback."""

import asyncio
import gzip
from urllib.parse import parse_qsl

import pytest
from pve_tls_server import TOKEN, Answer, Certificate, Permit, Server, serve

from zone9.base.errors import Later, Never, Unreachable
from zone9.pve.client import Client, Endpoint, encode, url_path
from zone9.pve.errors import (
    Denied,
    NodeDown,
    NotConnected,
    Rejected,
    ServerFault,
    Unauthenticated,
    UnknownOutcome,
)

WRITES = ("POST", "PUT", "DELETE")


async def test_a_read_returns_the_data(client: Client, server: Server) -> None:
    server.answer = lambda _: Answer({"version": "9.2.11"})
    assert await client.get("/version") == {"version": "9.2.11"}
    assert server.seen[0].target == "/api2/json/version"
    assert server.seen[0].headers["authorization"] == f"PVEAPIToken={TOKEN}"
    assert client.witness == server.url


async def test_gzip_is_asked_for_and_understood(client: Client, server: Server) -> None:
    raw = gzip.compress(b'{"data":[1,2,3]}')
    server.answer = lambda _: Answer(raw=raw, headers={"Content-Encoding": "gzip"})
    assert await client.get("/cluster/resources", type="vm") == [1, 2, 3]
    assert server.seen[0].headers["accept-encoding"] == "gzip"
    assert server.seen[0].target == "/api2/json/cluster/resources?type=vm"


@pytest.mark.parametrize("host_proof", ["fingerprint", "authority"])
async def test_another_certificate_gets_no_byte_of_the_token(
    certificate: Certificate, other_certificate: Certificate, host_proof: str
) -> None:
    pin = {"fingerprint": other_certificate.fingerprint}
    if host_proof == "authority":
        pin = {"ca_pem": other_certificate.pem}
    async with serve(certificate) as impostor:
        async with Client(Endpoint((impostor.url,), TOKEN, **pin)) as client:
            with pytest.raises(NotConnected) as caught:
                await client.get("/version")
            permit = Permit()
            with pytest.raises(NotConnected):
                await client.write("POST", "/nodes/a/qemu/1/status/start", {}, node="a", permit=permit)
        assert impostor.received == b""
        assert impostor.seen == []
    assert TOKEN.split("=")[1] not in caught.value.internal


async def test_the_authority_that_signed_is_trusted(certificate: Certificate) -> None:
    async with (
        serve(certificate) as server,
        Client(Endpoint((server.url,), TOKEN, ca_pem=certificate.pem)) as client,
    ):
        assert await client.get("/version") == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"urls": ("http://127.0.0.1:8006",)},
        {"urls": ()},
        {"urls": ("https://root@127.0.0.1:8006",)},
        {"urls": ("https://127.0.0.1:8006/elsewhere",)},
        {"fingerprint": ""},
        {"fingerprint": "aa:bb"},
        {"ca_pem": "both"},
        {"token": "no-token"},
        {"token": "a@pve!b=c\r\nX: y"},
    ],
)
def test_an_endpoint_without_proof_is_refused(changes: dict[str, object]) -> None:
    good = {"urls": ("https://127.0.0.1:8006",), "token": TOKEN, "fingerprint": "ab" * 32}
    assert Endpoint(**good).token_id == "z9@pve!ctl"
    with pytest.raises(ValueError, match="a "):
        Endpoint(**{**good, **changes})
    assert "5555" not in repr(Endpoint(**good))


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_whose_answer_is_lost_is_sent_once(client: Client, server: Server, method: str) -> None:
    server.answer = lambda _: Answer(drop=True)
    with pytest.raises(UnknownOutcome) as caught:
        await client.write(method, "/nodes/a/qemu/101/config", {"cores": 2}, node="a", permit=Permit())
    assert [seen.method for seen in server.seen] == [method]
    assert isinstance(caught.value, Unreachable)


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_on_a_used_connection_that_drops_is_sent_once(
    client: Client, server: Server, method: str
) -> None:
    await client.get("/version")
    server.answer = lambda _: Answer(drop=True)
    with pytest.raises(UnknownOutcome):
        await client.write(method, "/nodes/a/qemu/101/config", {"cores": 2}, node="a", permit=Permit())
    assert [seen.method for seen in server.seen] == ["GET", method]


async def test_a_write_without_an_answer_in_time_is_unknown(server: Server, certificate: Certificate) -> None:
    gate = asyncio.Event()
    server.answer = lambda _: Answer(before=gate.wait)
    endpoint = Endpoint((server.url, server.url), TOKEN, fingerprint=certificate.fingerprint)
    async with Client(endpoint, read_timeout=0.2) as client:
        with pytest.raises(UnknownOutcome):
            await client.write("PUT", "/nodes/a/qemu/1/config", {"cores": 2}, node="a", permit=Permit())
    gate.set()
    assert len(server.seen) == 1


async def test_a_read_goes_to_the_next_address_and_stays_there(certificate: Certificate) -> None:
    async with serve(certificate) as mute, serve(certificate) as good:
        mute.answer = lambda _: Answer(drop=True)
        good.answer = lambda _: Answer("here")
        endpoint = Endpoint((mute.url, good.url), TOKEN, fingerprint=certificate.fingerprint)
        async with Client(endpoint) as client:
            assert [await client.get("/version") for _ in range(2)] == ["here", "here"]
            assert client.witness == good.url
        assert (len(mute.seen), len(good.seen)) == (1, 2)


async def test_a_write_goes_to_the_next_address_only_when_nothing_was_sent(
    certificate: Certificate, other_certificate: Certificate
) -> None:
    async with serve(other_certificate) as impostor, serve(certificate) as good:
        endpoint = Endpoint((impostor.url, good.url), TOKEN, fingerprint=certificate.fingerprint)
        permit = Permit()
        async with Client(endpoint) as client:
            await client.write("POST", "/nodes/a/qemu/1/status/start", {}, node="a", permit=permit)
        assert (impostor.seen, len(good.seen)) == ([], 1)
        assert permit.steps.count("confirm") == 2, "each address needs a new confirmation"


async def test_a_redirect_is_not_followed(client: Client, server: Server) -> None:
    server.answer = lambda _: Answer(status=302, reason="Found", headers={"Location": server.url + "/stolen"})
    with pytest.raises(ServerFault):
        await client.get("/version")
    with pytest.raises(ServerFault):
        await client.write("POST", "/nodes/a/qemu/1/status/start", {}, node="a", permit=Permit())
    assert [seen.target for seen in server.seen] == [
        "/api2/json/version",
        "/api2/json/nodes/a/qemu/1/status/start",
    ]


async def test_a_page_instead_of_json_leaves_a_write_unknown(client: Client, server: Server) -> None:
    server.answer = lambda _: Answer(raw=b"<html>captive</html>")
    with pytest.raises(ServerFault):
        await client.get("/version")
    with pytest.raises(UnknownOutcome):
        await client.write("POST", "/nodes/a/qemu/1/status/start", {}, node="a", permit=Permit())


@pytest.mark.parametrize(
    ("status", "reason", "kind", "decision"),
    [
        (401, "Authentication failed!", Unauthenticated, Later),
        (403, "Permission check failed (/vms/999, VM.Audit)", Denied, Later),
        (595, "No route to host", NodeDown, Unreachable),
        (596, "Connection timed out", UnknownOutcome, Unreachable),
        (501, "Method 'POST /access/acl' not implemented", Rejected, Never),
    ],
)
async def test_errors_with_an_empty_body(
    client: Client, server: Server, status: int, reason: str, kind: type[Exception], decision: type[Exception]
) -> None:
    server.answer = lambda _: Answer(status=status, reason=reason, raw=b"")
    with pytest.raises(kind) as caught:
        await client.get("/nodes/pve1/qemu/999/config")
    assert isinstance(caught.value, decision)
    assert reason in caught.value.internal
    assert reason not in caught.value.public


async def test_the_form_is_percent_encoded(client: Client, server: Server) -> None:
    form = {"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "description": "ä & b=c+d\n", "onboot": True}
    form |= {"delete": ["ide0", "net1"], "gone": None}
    await client.write("PUT", "/nodes/a/qemu/1/config", form, node="a", permit=Permit())
    body = server.seen[0].body.decode()
    assert body.count("=") == 4
    assert " " not in body
    assert "+" not in body
    assert dict(parse_qsl(body)) == {
        "net0": form["net0"],
        "description": form["description"],
        "onboot": "1",
        "delete": "ide0,net1",
    }
    assert server.seen[0].headers["content-type"] == "application/x-www-form-urlencoded"


async def test_a_delete_has_its_parameters_in_the_query(client: Client, server: Server) -> None:
    form = {"purge": True, "destroy-unreferenced-disks": False}
    await client.write("DELETE", "/nodes/a/qemu/1", form, node="a", permit=Permit())
    assert server.seen[0].target == "/api2/json/nodes/a/qemu/1?purge=1&destroy-unreferenced-disks=0"
    assert server.seen[0].body == b""


async def test_one_node_takes_so_many_requests_at_a_time(server: Server, certificate: Certificate) -> None:
    async def pause() -> None:
        await asyncio.sleep(0.02)

    server.answer = lambda _: Answer(before=pause)
    endpoint = Endpoint((server.url,), TOKEN, fingerprint=certificate.fingerprint)
    async with Client(endpoint, slots=3) as client:
        await asyncio.gather(*(client.get("/nodes/pve1/qemu") for _ in range(12)))
        assert server.most == 3
        server.most = 0
        await asyncio.gather(*(client.get(f"/nodes/pve{n % 2}/qemu") for n in range(12)))
        assert server.most == 6


async def test_a_closed_port_is_not_connected(certificate: Certificate) -> None:
    async with serve(certificate) as server:
        url = server.url
    async with Client(Endpoint((url,), TOKEN, fingerprint=certificate.fingerprint)) as client:
        with pytest.raises(NotConnected) as caught:
            await client.write("POST", "/nodes/a/qemu/1/status/start", {}, node="a", permit=Permit())
    assert isinstance(caught.value, Unreachable)


async def test_reads_can_be_recorded_without_touching_other_users(client: Client) -> None:
    reads: list[tuple[str, str]] = []
    recording = client.recording(lambda method, path: reads.append((method, path)))
    await recording.get("/version")
    await client.get("/cluster/status")
    await recording.get("/nodes/a/qemu/1/config", current=True)
    assert reads == [("GET", "/version"), ("GET", "/nodes/a/qemu/1/config")]


async def test_the_skew_of_clocks_is_kept(server: Server, certificate: Certificate) -> None:
    server.answer = lambda _: Answer({}, headers={"Date": "Thu, 01 Jan 2026 00:01:40 GMT"})
    endpoint = Endpoint((server.url,), TOKEN, fingerprint=certificate.fingerprint)
    async with Client(endpoint, wall=lambda: 1767225600.0) as client:
        assert client.last_date_skew is None
        await client.get("/version")
        assert client.last_date_skew == 100.0
        server.answer = lambda _: Answer({}, headers={"Date": "yesterday"})
        await client.get("/version")
        assert client.last_date_skew is None


def test_paths_cannot_leave_their_place() -> None:
    assert (
        url_path("nodes", "pve1", "tasks", "UPID:a:z9@pve!ctl:")
        == "/nodes/pve1/tasks/UPID%3Aa%3Az9%40pve%21ctl%3A"
    )
    assert url_path("nodes", "a/../b") == "/nodes/a%2F..%2Fb"
    for bad in ("", ".", ".."):
        with pytest.raises(ValueError, match="not a path"):
            url_path("nodes", bad)


async def test_a_parameter_may_be_called_path(client: Client, server: Server) -> None:
    await client.get("/access/permissions", path="/vms")
    assert server.seen[0].target == "/api2/json/access/permissions?path=%2Fvms"


async def test_any_of_several_pins_will_do(server: Server, certificate: Certificate) -> None:
    pins = f"{'ab' * 32}, {certificate.fingerprint}"
    async with Client(Endpoint((server.url,), TOKEN, fingerprint=pins)) as client:
        assert await client.get("/version") == {}


async def test_an_encoded_path_arrives_encoded(client: Client, server: Server) -> None:
    await client.get(url_path("nodes", "a", "tasks", "UPID:x@y!z:", "status"))
    assert server.seen[0].target == "/api2/json/nodes/a/tasks/UPID%3Ax%40y%21z%3A/status"


def test_a_form_in_text() -> None:
    assert encode({"a": 1.5, "b": False, "c": ()}) == "a=1.5&b=0&c="


async def test_a_get_is_no_write(client: Client) -> None:
    with pytest.raises(ValueError, match="not a write"):
        await client.write("GET", "/version", {}, node="a", permit=Permit())


async def test_an_answer_that_cannot_be_decoded_leaves_a_write_unknown(
    client: Client, server: Server
) -> None:
    server.answer = lambda _: Answer(raw=b"{}", headers={"Content-Encoding": "gzip"})
    with pytest.raises(UnknownOutcome):
        await client.write("PUT", "/nodes/a/qemu/1/config", {"a": 1}, node="a", permit=Permit())
