"""Servers as their owner meets them, all through the sandbox's API: cloned, given an address, started, and real."""

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from guest_kit import all_gone, eventually, fetch, gone, page, uuid_of
from sandbox_api import Api

from zone9.sandbox import Sandbox, qcow2
from zone9.sandbox.guests.qemu import QemuGuests
from zone9.sandbox.guests.tiny import Tiny
from zone9.sandbox.vm.guest import spec_of

pytestmark = [pytest.mark.qemu, pytest.mark.slow]
# The fourth has an address of the others' network, and a tag of its own.
SERVERS = {5001: ("10.0.0.5", 12), 5002: ("10.0.0.6", 12), 5003: ("10.0.0.7", 12), 5004: ("10.0.0.8", 13)}
TOGETHER = [vmid for vmid, (_, tag) in SERVERS.items() if tag == 12]


@pytest.fixture
async def real(image: Tiny) -> AsyncIterator[Sandbox]:
    """Is a cluster whose running VMs are processes, at most four of them."""
    guests = QemuGuests(image, limit=4)
    async with Sandbox(("pve1", "pve2"), seed=3, guests=guests) as sandbox:
        sandbox.add_template(9000)
        yield sandbox
        pids = list(guests.processes().values())
        assert sandbox.violations == []
    await all_gone(pids)


@pytest.fixture
async def owner(real: Sandbox) -> AsyncIterator[Api]:
    api = Api(real)
    yield api
    await api.close()


async def make(owner: Api, vmid: int, ip: str, tag: int) -> None:
    """Makes a server the way zone9 does: clone, identity and address in one write, start."""
    assert await owner.task("POST", "/nodes/pve1/qemu/9000/clone", newid=vmid, name=f"web{vmid}") == "OK"
    born = await owner.config(vmid)
    await owner.ok(
        "PUT",
        f"/nodes/pve1/qemu/{vmid}/config",
        digest=born["digest"],
        net0=f"{born['net0']},tag={tag}",
        ipconfig0=f"ip={ip}/24,gw=10.0.0.1",
        smbios1=f"uuid={uuid_of(vmid)}",
    )
    assert await owner.task("POST", f"/nodes/pve1/qemu/{vmid}/status/start") == "OK"


async def seen_from(real: Sandbox, vmid: int, ip: str) -> str:
    return (await page(real.guests, vmid, f"cgi-bin/fetch?ip={ip}")).strip()


async def reached_from(real: Sandbox, vmid: int, ip: str) -> str:
    """Returns the uuid that a guest reads from a neighbour; on a busy host the neighbour may need a moment more."""
    for _ in range(10):
        if (text := await seen_from(real, vmid, ip)) != "unreachable":
            return str(json.loads(text)["uuid"])
        await asyncio.sleep(1)
    raise AssertionError(f"{ip} is not reached from VM {vmid}")


async def test_three_see_one_another_and_a_fourth_sees_nobody(real: Sandbox, owner: Api) -> None:
    began = time.monotonic()
    await asyncio.gather(*(make(owner, vmid, ip, tag) for vmid, (ip, tag) in SERVERS.items()))
    for vmid in SERVERS:
        facts = json.loads(await page(real.guests, vmid, "facts.json"))
        assert (facts["name"], facts["uuid"], facts["address"]) == (
            f"web{vmid}",
            uuid_of(vmid),
            SERVERS[vmid][0],
        )
    # The host reads a page for people, at the address that the control port names.
    told = json.loads(await asyncio.to_thread(fetch, f"{real.control_url}/vms/5001"))
    html = await asyncio.to_thread(fetch, told["page_url"])
    assert "web5001" in html
    assert uuid_of(5001) in html

    looks = {
        (viewer, viewed): seen_from(real, viewer, SERVERS[viewed][0])
        for viewer, viewed in itertools.permutations(SERVERS, 2)
    }
    found = dict(zip(looks, await asyncio.gather(*looks.values()), strict=True))
    for (viewer, viewed), said in found.items():
        if viewer in TOGETHER and viewed in TOGETHER:
            assert json.loads(said)["uuid"] == uuid_of(viewed)
        else:
            assert said == "unreachable"
    assert await seen_from(real, 5001, "10.0.0.99") == "unreachable"
    assert time.monotonic() - began < 60

    # One more than the sandbox may run fails as a start does, in its task.
    assert await owner.task("POST", "/nodes/pve1/qemu/9000/clone", newid=5005) == "OK"
    said = await owner.task("POST", "/nodes/pve1/qemu/5005/status/start")
    assert said == "start failed: this sandbox runs at most 4 guests at once"


async def test_a_killed_guest_and_its_return(real: Sandbox, owner: Api) -> None:
    for vmid in (5001, 5002):
        await make(owner, vmid, *SERVERS[vmid])
    assert await reached_from(real, 5002, "10.0.0.5") == uuid_of(5001)
    await owner.ok("PUT", "/nodes/pve1/qemu/5001/config", memory=1024)
    tasks = await owner.ok("GET", "/nodes/pve1/tasks")
    pid = real.guests.pid(5001)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: gone(pid) and real.vms[5001].running is None, 5)

    current = await owner.ok("GET", "/nodes/pve1/qemu/5001/status/current")
    assert (current["status"], current["qmpstatus"], current["uptime"]) == ("stopped", "stopped", 0)
    (row,) = [one for one in await owner.ok("GET", "/cluster/resources", type="vm") if one["vmid"] == 5001]
    assert row["status"] == "stopped"
    assert await owner.ok("GET", "/nodes/pve1/tasks") == tasks  # nobody asked for it, so there is no task
    assert (await owner.pending(5001))["memory"]["pending"] == "1024"
    assert real.guests.page_url(5001) is None
    assert await seen_from(real, 5002, "10.0.0.5") == "unreachable"

    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/start") == "OK"
    assert "pending" not in (await owner.pending(5001))["memory"]
    assert json.loads(await page(real.guests, 5001, "facts.json"))["uuid"] == uuid_of(5001)
    assert await reached_from(real, 5002, "10.0.0.5") == uuid_of(5001)


async def test_a_node_takes_its_guests_with_it(real: Sandbox, owner: Api) -> None:
    await make(owner, 5001, *SERVERS[5001])
    await page(real.guests, 5001)
    pid = real.guests.pid(5001)
    assert pid is not None
    await real.crash_node("pve1")
    await all_gone([pid])
    refused = await owner.ask("GET", "/nodes/pve1/qemu/5001/status/current")
    assert (refused.status, refused.reason) == (595, "No route to host")
    real.set_node_online("pve1", online=True)
    assert (await owner.ok("GET", "/nodes/pve1/qemu/5001/status/current"))["status"] == "stopped"
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/shutdown") == "OK"
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/start") == "OK"
    assert "web5001" in await page(real.guests, 5001)


async def disks_of(real: Sandbox, vmid: int) -> dict[str, int]:
    found: dict[str, int] = json.loads(await page(real.guests, vmid, "cgi-bin/disks"))
    return found


async def test_a_disk_grows_under_a_running_guest_and_stays_so(real: Sandbox, owner: Api) -> None:
    await make(owner, 5001, *SERVERS[5001])
    before = (await disks_of(real, 5001))["scsi0"]
    assert await owner.task("PUT", "/nodes/pve1/qemu/5001/resize", disk="scsi0", size="+1G") == "OK"
    assert (await disks_of(real, 5001))["scsi0"] == before + 2**30
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/stop") == "OK"
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/start") == "OK"
    assert (await disks_of(real, 5001))["scsi0"] == before + 2**30


async def note(real: Sandbox, vmid: int, write: str = "") -> str:
    asked = f"cgi-bin/note?slot=scsi0{'&write=' if write else ''}{write}"
    return (await page(real.guests, vmid, asked)).strip()


async def test_a_disk_keeps_what_its_guest_wrote_and_no_other_guest_sees_it(
    real: Sandbox, owner: Api
) -> None:
    await make(owner, 5001, *SERVERS[5001])
    assert await note(real, 5001) == ""
    assert await note(real, 5001, "written") == "written"
    await make(owner, 5002, *SERVERS[5002])
    assert await note(real, 5002) == ""
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/stop") == "OK"
    assert await owner.task("PUT", "/nodes/pve1/qemu/5001/resize", disk="scsi0", size="+1G") == "OK"
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/start") == "OK"
    assert await note(real, 5001) == "written"
    config = await owner.config(5001)
    size = int(config["scsi0"].split("size=")[1].split("G")[0].split(",")[0])
    assert (await disks_of(real, 5001))["scsi0"] == size * 2**30


async def test_a_clone_is_a_layer_over_its_template(real: Sandbox, owner: Api) -> None:
    """Takes the way of a cloud image: one is prepared, becomes the template, and is cloned both ways."""
    await make(owner, 5001, *SERVERS[5001])
    assert await note(real, 5001, "image") == "image"
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/status/stop") == "OK"
    assert await owner.task("POST", "/nodes/pve1/qemu/5001/template") == "OK"
    for vmid, full in ((5002, 0), (5003, 1)):
        clone = {"newid": vmid, "name": f"web{vmid}", "full": full}
        assert await owner.task("POST", "/nodes/pve1/qemu/5001/clone", **clone) == "OK"
        await owner.ok("PUT", f"/nodes/pve1/qemu/{vmid}/config", ipconfig0=f"ip=10.0.0.{vmid - 4990}/24")
        assert await owner.task("POST", f"/nodes/pve1/qemu/{vmid}/status/start") == "OK"
        disk = spec_of(real.world, real.vms[vmid]).disks[0]
        assert qcow2.read(disk.path or Path()) == qcow2.Qcow2(disk.size, backed=True)
    assert [await note(real, vmid) for vmid in (5002, 5003)] == ["image", "image"]
    assert await note(real, 5002, "mine") == "mine"
    assert await note(real, 5003) == "image"

    assert await owner.task("POST", "/nodes/pve1/qemu/5002/status/stop") == "OK"
    assert await owner.task("DELETE", "/nodes/pve1/qemu/5002") == "OK"
    assert await owner.task("DELETE", "/nodes/pve1/qemu/5001") == "OK"
    assert await owner.task("POST", "/nodes/pve1/qemu/5003/status/stop") == "OK"
    assert await owner.task("POST", "/nodes/pve1/qemu/5003/status/start") == "OK"
    assert await note(real, 5003) == "image"
    assert await owner.task("POST", "/nodes/pve1/qemu/5003/status/stop") == "OK"
    assert await owner.task("DELETE", "/nodes/pve1/qemu/5003") == "OK"
    assert await owner.task("DELETE", "/nodes/pve1/qemu/9000") == "OK"
    assert len(real.world.files) == 0
