"""What goes wrong around a clone: no room left, its node gone while it copies, its guest dead."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from sandbox_api import Api

from zone9.pve import inventory, tasks, vm
from zone9.pve.client import Client, Endpoint
from zone9.pve.errors import NodeDown, TaskFailed, UnknownOutcome
from zone9.sandbox import Sandbox

MIB = 2**20
MARKER = "zone9:srv_half:nonce1"


@pytest.fixture
async def pve(slow: Sandbox) -> AsyncIterator[Client]:
    async with Client(Endpoint((slow.url,), slow.token, slow.fingerprint)) as made:
        yield made


async def half_way(slow: Sandbox, slow_api: Api) -> str:
    """Starts a full clone of 300 MiB at 30 MiB a second and stops the clock in the middle of it."""
    slow.add_template(201, disk="300M", used=300 * MIB)
    upid = await slow_api.ok(
        "POST",
        "/nodes/pve1/qemu/201/clone",
        newid=300,
        full=1,
        bwlimit=30 * 1024,
        name="half",
        description=MARKER,
    )
    for _ in range(20):
        await slow.clock.advance(0.25)
    assert (await slow_api.status(upid))["status"] == "running"
    return str(upid)


async def test_a_full_storage_fails_the_task_and_leaves_nothing(slow: Sandbox, slow_api: Api) -> None:
    slow.add_template(201, disk="300M", used=300 * MIB)
    slow.operator.fill_storage("vmstore", free=100 * MIB)
    (row,) = await slow_api.ok("GET", "/nodes/pve1/storage", storage="vmstore")
    assert row["avail"] == 100 * MIB
    upid = await slow_api.ok("POST", "/nodes/pve1/qemu/201/clone", newid=300, full=1)
    for _ in range(20):
        await slow.clock.advance(0.25)
    status = await slow_api.status(upid)
    assert status["exitstatus"].startswith(
        "clone failed: copy failed: command '/usr/bin/qemu-img convert -p -n"
    )
    assert status["exitstatus"].endswith("failed: exit code 1")
    log = await slow_api.log(upid)
    assert any(line.endswith("No space left on device") for line in log)
    assert log[-1] == f"TASK ERROR: {status['exitstatus']}"
    absent = await slow_api.ask("GET", "/nodes/pve1/qemu/300/config")
    assert absent.reason == "Configuration file 'nodes/pve1/qemu-server/300.conf' does not exist"
    assert await slow_api.ok("GET", "/nodes/pve1/storage/vmstore/content", vmid=300) == []
    linked = await slow_api.ok("POST", "/nodes/pve1/qemu/201/clone", newid=301)
    await slow.clock.advance(5)
    assert (await slow_api.status(linked))["exitstatus"] == "OK"  # it copies nothing
    async with Client(Endpoint((slow.url,), slow.token, slow.fingerprint)) as client:
        assert isinstance((await tasks.task_status(client, upid)).error, TaskFailed)


async def test_while_a_node_is_gone_it_answers_595_and_the_others_say_so(
    slow: Sandbox, slow_api: Api, pve: Client
) -> None:
    upid = await half_way(slow, slow_api)
    slow.add_vm(101, "pve1", name="web", running=True)
    await slow.crash_node("pve1")
    for path in (
        "/nodes/pve1/qemu",
        "/nodes/pve1/qemu/300/config",
        "/nodes/pve1/tasks",
        "/nodes/pve1/status",
    ):
        answer = await slow_api.ask("GET", path)
        assert (answer.status, answer.reason) == (595, "No route to host")
    for ask in (vm.read_vm(pve, "pve1", 300), tasks.task_status(pve, upid), tasks.find(pve, "pve1", since=0)):
        with pytest.raises(NodeDown):
            await ask
    seen = await inventory.read(pve)
    assert seen.gaps == ("Node pve1 is offline.",)
    assert seen.nodes["pve1"].status == "offline"
    for vmid in (101, 300, 9000):  # they stay in the list, and nobody knows more of them
        row = seen.guests[vmid]
        assert (row.node, row.status, row.name, row.uptime) == ("pve1", "unknown", None, 0)
    assert await vm.locate(pve, 300) == "pve1"
    assert (await slow_api.ask("GET", "/nodes/pve2/qemu")).status == 200


async def test_a_clone_whose_node_went_is_left_as_it_lay(slow: Sandbox, slow_api: Api, pve: Client) -> None:
    upid = await half_way(slow, slow_api)
    slow.add_vm(101, "pve1", name="web", running=True)
    await slow.crash_node("pve1")
    await slow.clock.advance(600)
    slow.set_node_online("pve1", online=True)

    result = await tasks.task_status(pve, upid)
    assert (result.status, result.exitstatus) == ("stopped", "unexpected status")
    assert isinstance(result.error, UnknownOutcome)
    (row,) = await slow_api.ok("GET", "/nodes/pve1/tasks", statusfilter="unknown")
    assert row["upid"] == upid
    left = await vm.read_vm(pve, "pve1", 300)
    assert isinstance(left, vm.VmReading)
    assert (left.lock, left.description) == ("clone", MARKER)
    volumes = await slow_api.ok("GET", "/nodes/pve1/storage/vmstore/content", vmid=300)
    assert len(volumes) == 2
    deleted = await slow_api.ok("DELETE", "/nodes/pve1/qemu/300")
    await slow.clock.advance(1)
    assert (await slow_api.status(deleted))["exitstatus"] == "VM is locked (clone)"
    web = await vm.read_vm(pve, "pve1", 101)
    assert isinstance(web, vm.VmReading)
    assert (web.status, web.lock) == ("stopped", None)
    assert (await slow_api.ok("GET", "/nodes/pve1/status"))["uptime"] == 601


async def test_a_node_that_is_cut_off_works_on(slow: Sandbox, slow_api: Api, pve: Client) -> None:
    upid = await half_way(slow, slow_api)
    slow.set_node_online("pve1", online=False)
    with pytest.raises(NodeDown):
        await tasks.task_status(pve, upid)
    await slow.clock.advance(60)
    slow.set_node_online("pve1", online=True)
    assert (await tasks.task_status(pve, upid)).ok


async def test_another_process_can_do_it_too(sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession(sandbox.control_url) as http:
        async with http.post("/nodes/pve2", json={"crash": True}) as answer:
            assert (await answer.json())["online"] is False
        async with http.post("/nodes/pve2", json={"online": True}) as answer:
            assert (await answer.json())["online"] is True
        async with http.post("/storages/vmstore", json={"free": 5}) as answer:
            assert (await answer.json())["total"] == sandbox.cluster.storages["vmstore"].total
        async with http.post("/storages/nosuch", json={}) as answer:
            assert answer.status == 400
    assert sandbox.cluster.storages["vmstore"].total - sandbox.cluster.storages["vmstore"].used("pve1") == 5


async def test_a_dead_guest_leaves_no_task_and_keeps_what_was_pending(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101, name="web", memory=512)
    assert await api.task("POST", "/nodes/pve1/qemu/101/status/start") == "OK"
    await api.ok("PUT", "/nodes/pve1/qemu/101/config", memory=1024)
    before = await api.ok("GET", "/nodes/pve1/tasks")
    sandbox.kill_guest(101)
    assert (await api.ok("GET", "/nodes/pve1/qemu/101/status/current"))["status"] == "stopped"
    assert (await api.pending(101))["memory"]["pending"] == "1024"
    assert await api.ok("GET", "/nodes/pve1/tasks") == before
