"""A guest has the disk that somebody sent, and whatever format it was sent in."""

import json
from collections.abc import AsyncIterator

import pytest
from guest_kit import all_gone, page
from sandbox_api import Api
from upload_forms import BOUNDARY, form, qcow2

from zone9.sandbox import Sandbox
from zone9.sandbox.guests.qemu import QemuGuests
from zone9.sandbox.guests.tiny import Tiny

pytestmark = [pytest.mark.qemu, pytest.mark.slow]
RAW = bytes(range(256)) * 2048


@pytest.fixture
async def real(image: Tiny) -> AsyncIterator[Sandbox]:
    guests = QemuGuests(image, limit=1)
    async with Sandbox(("pve1",), seed=3, guests=guests) as sandbox:
        yield sandbox
        pids = list(guests.processes().values())
    await all_gone(pids)


async def test_a_guest_has_the_disks_that_were_sent(real: Sandbox) -> None:
    token = real.accounts.add_token("admin@pve!wide")
    for who in ("admin@pve", "admin@pve!wide"):
        real.accounts.grant("/", who, "PVEAdmin")
    api = Api(real, token)
    for name, data in (("a.raw", RAW), ("b.qcow2", qcow2(32 * 2**20))):
        text = form(("content", "import"), ("filename", name, data))
        kind = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
        answer = await api.ask("POST", "/nodes/pve1/storage/vmstore/upload", raw=text, headers=kind)
        assert (await api.status(answer.data))["exitstatus"] == "OK"
    made = await api.task(
        "POST",
        "/nodes/pve1/qemu",
        vmid=5001,
        name="web5001",
        scsi0="vmstore:0,import-from=vmstore:import/a.raw",
        scsi1="vmstore:0,import-from=vmstore:import/b.qcow2",
        ide2="vmstore:cloudinit",
        net0="virtio,bridge=vmbr0",
        ipconfig0="ip=10.0.0.5/24",
    )
    assert made == "OK"
    assert await api.task("POST", "/nodes/pve1/qemu/5001/status/start") == "OK"
    facts = json.loads(await page(real.guests, 5001, "facts.json"))
    assert facts["disks"]["scsi0"] == len(RAW)
    assert facts["disks"]["scsi1"] == 32 * 2**20
    await api.close()
