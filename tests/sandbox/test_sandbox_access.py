"""Who may do what, and how it is said when they may not (pve-facts 6.4 to 6.6, 6.2 self-test)."""

import asyncio
import ssl
import time
from email.utils import parsedate_to_datetime

import aiohttp
import pytest
from sandbox_api import Api

from zone9.pve.selftest import PRIVILEGES
from zone9.sandbox import Sandbox
from zone9.sandbox.accounts import ZONE9_ROLE


async def other(
    sandbox: Sandbox, name: str, *grants: tuple[str, str | frozenset[str]], user_too: bool = True
) -> Api:
    token = sandbox.accounts.add_token(f"{name}@pve!ctl")
    for path, role in grants:
        sandbox.accounts.grant(path, f"{name}@pve!ctl", role)
        if user_too:
            sandbox.accounts.grant(path, f"{name}@pve", role)
    return Api(sandbox, token)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({}, "No ticket"),
        ({"Authorization": "PVEAPIToken=zone9@pve!ctl=wrong"}, "Authentication failed!"),
        ({"Authorization": "PVEAPIToken=no@pve!ctl=x"}, "Authentication failed!"),
        ({"Authorization": "PVEAPIToken=rubbish"}, "Authentication failed!"),
    ],
)
async def test_6_4_unauthenticated_is_an_empty_401(
    sandbox: Sandbox, header: dict[str, str], reason: str
) -> None:
    api = Api(sandbox)
    api.headers = header
    answer = await api.ask("GET", "/version")
    assert (answer.status, answer.reason, answer.text) == (401, reason, "")
    await api.close()


async def test_6_4_a_401_takes_three_seconds(slow: Sandbox) -> None:
    api = Api(slow, "zone9@pve!ctl=wrong")
    asked = asyncio.create_task(api.ask("GET", "/version"))
    await asyncio.sleep(0.05)
    await slow.clock.advance(2.9)
    assert not asked.done()
    await slow.clock.advance(0.2)
    assert (await asked).status == 401
    await api.close()


async def test_6_4_tickets(sandbox: Sandbox) -> None:
    sandbox.accounts.add_user("z9@pve", "secret")
    sandbox.accounts.grant("/", "z9@pve", "PVEAuditor")
    api = Api(sandbox)
    api.headers = {}
    wrong = await api.ask("POST", "/access/ticket", username="z9@pve", password="wrong")
    assert (wrong.status, wrong.reason, wrong.message) == (
        401,
        "authentication failure",
        "authentication failure\n",
    )
    login = await api.ok("POST", "/access/ticket", username="z9@pve", password="secret")
    api.headers = {"Cookie": f"PVEAuthCookie={login['ticket']}"}
    assert (await api.ask("GET", "/version")).status == 200
    write = await api.ask("POST", "/nodes/pve1/qemu", vmid=150)
    assert (write.status, write.reason, write.text) == (401, "Permission denied - invalid csrf token", "")
    renewed = await api.ok("POST", "/access/ticket", username="z9@pve", password=login["ticket"])
    assert renewed["username"] == "z9@pve"
    await api.close()


async def test_6_5_no_permission_comes_before_existence(sandbox: Sandbox) -> None:
    api = await other(sandbox, "none")
    answer = await api.ask("GET", "/nodes/pve1/qemu/999/config")
    assert (answer.status, answer.reason) == (403, "Permission check failed (/vms/999, VM.Audit)")
    create = await api.ask("POST", "/nodes/pve1/qemu", vmid=150)
    assert (create.status, create.reason) == (403, "Permission check failed")
    await api.close()


async def test_6_5_a_token_alone_has_nothing_when_its_user_has_not(sandbox: Sandbox) -> None:
    api = await other(sandbox, "z9", ("/", ZONE9_ROLE), user_too=False)
    assert (await api.ask("GET", "/nodes/pve1/qemu/9000/config")).status == 403
    assert await api.ok("GET", "/access/permissions") == {}
    sandbox.accounts.grant("/", "z9@pve", ZONE9_ROLE)
    assert (await api.ask("GET", "/nodes/pve1/qemu/9000/config")).status == 200
    await api.close()


async def test_6_5_lists_are_filtered_without_a_word(sandbox: Sandbox) -> None:
    api = await other(sandbox, "none")
    assert await api.ok("GET", "/nodes/pve1/qemu") == []
    assert await api.ok("GET", "/nodes/pve1/network") == []
    rows = await api.ok("GET", "/cluster/resources")
    assert {row["type"] for row in rows} == {"node"}
    assert all("maxmem" not in row for row in rows)
    assert await api.ok("GET", "/cluster/log") == []
    await api.close()


async def test_6_2_self_test_1_zero_is_a_right_without_propagation(sandbox: Sandbox, wide_api: Api) -> None:
    await wide_api.ok("POST", "/pools", poolid="tenant1")
    sandbox.add_vm(101)
    sandbox.cluster.pools["tenant1"].vms.add(101)
    sandbox.cluster.version += 1
    pool = await other(sandbox, "pool", ("/pool/tenant1", ZONE9_ROLE))
    rights = await pool.ok("GET", "/access/permissions")
    assert rights["/pool/tenant1"]["VM.Audit"] == 1
    assert rights["/vms/101"]["VM.Audit"] == 0
    assert (await pool.ask("GET", "/nodes/pve1/qemu/101/config")).status == 200
    assert (await pool.ask("GET", "/nodes/pve1/qemu/9000/config")).status == 403
    await pool.close()


async def test_6_2_self_test_2_one_path(api: Api) -> None:
    for path, empty in (("/vms/999999", False), ("/nosuch", False), ("vms//200/", True)):
        rights = await api.ok("GET", "/access/permissions", path=path)
        assert list(rights) == [path]
        assert (rights[path] == {}) == empty


async def test_6_2_self_test_4_a_deeper_acl_replaces_the_role(sandbox: Sandbox, api: Api) -> None:
    for who in ("zone9@pve", "zone9@pve!ctl"):
        sandbox.accounts.grant("/storage/vmstore", who, "PVEDatastoreUser")
    rights = await api.ok("GET", "/access/permissions", path="/storage/vmstore")
    assert set(rights["/storage/vmstore"]) == {"Datastore.AllocateSpace", "Datastore.Audit"}


async def test_6_2_self_test_8_a_token_may_write_what_it_cannot_read(sandbox: Sandbox) -> None:
    blind = await other(sandbox, "blind", ("/", ZONE9_ROLE - {"VM.Audit"}))
    assert (await blind.ask("GET", "/nodes/pve1/qemu/9000/config")).status == 403
    assert await blind.task("POST", "/nodes/pve1/qemu/9000/clone", newid=101) == "OK"
    assert (await blind.ask("PUT", "/nodes/pve1/qemu/101/config", name="x")).status == 200
    assert await blind.task("DELETE", "/nodes/pve1/qemu/101") == "OK"
    await blind.close()


async def test_6_2_self_test_9_a_pool_only_token(sandbox: Sandbox, wide_api: Api) -> None:
    await wide_api.ok("POST", "/pools", poolid="tenant1")
    pool = await other(sandbox, "pool", ("/pool/tenant1", ZONE9_ROLE))
    create = "/nodes/pve1/qemu"
    assert await pool.task("POST", create, vmid=150, pool="tenant1") == "OK"
    disk = await pool.ask("POST", create, vmid=151, pool="tenant1", scsi0="vmstore:1")
    assert disk.reason == "Permission check failed (/storage/vmstore, Datastore.AllocateSpace)"
    nic = await pool.ask("POST", create, vmid=151, pool="tenant1", net0="virtio,bridge=vmbr0")
    assert nic.reason == "Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)"
    clone = await pool.ask("POST", "/nodes/pve1/qemu/9000/clone", newid=151, pool="tenant1")
    assert clone.reason == "Permission check failed (/vms/9000, VM.Clone)"
    assert (await pool.ask("POST", create, vmid=151)).reason == "Permission check failed"
    await pool.close()


async def test_tasks_of_others_need_a_right(sandbox: Sandbox, api: Api) -> None:
    upid = await api.ok("POST", "/nodes/pve1/qemu/9000/clone", newid=101)
    stranger = await other(sandbox, "none")
    answer = await stranger.ask("GET", f"/nodes/pve1/tasks/{upid.replace(':', '%3A')}/status")
    assert answer.reason == "Permission check failed (/nodes/pve1, Sys.Audit)"
    assert await stranger.ok("GET", "/nodes/pve1/tasks") == []
    await stranger.close()


async def test_the_certificate_is_the_one_whose_fingerprint_is_told(sandbox: Sandbox) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    pin = aiohttp.Fingerprint(bytes.fromhex(sandbox.fingerprint.replace(":", "")))
    async with aiohttp.ClientSession() as session:
        headers = {"Authorization": f"PVEAPIToken={sandbox.token}"}
        async with session.get(f"{sandbox.url}/api2/json/version", ssl=pin, headers=headers) as response:
            assert response.status == 200


async def test_the_date_is_the_serving_nodes_own(sandbox: Sandbox, api: Api) -> None:
    sandbox.cluster.nodes["pve2"].skew = 3600.0
    times = {}
    for node in ("pve1", "pve2"):
        answer = await api.ask("GET", f"/nodes/{node}/time")
        times[node] = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        assert abs(times[node] - answer.data["time"]) < 2
    assert 3590 < times["pve2"] - times["pve1"] < 3610
    assert abs(times["pve1"] - time.time()) < 60


async def test_the_ready_token_has_what_the_self_test_asks_for_and_no_more(api: Api) -> None:
    rights = await api.ok("GET", "/access/permissions", path="/")
    assert rights == {"/": dict.fromkeys(PRIVILEGES, 1)}
