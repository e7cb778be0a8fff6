"""The bytes of what was sent: whose they are, how many there may be, and that none are left."""

import asyncio
import random
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from sandbox_api import Api
from upload_api import send, sent, sizes, volume
from upload_forms import BOUNDARY, ISO, form

from zone9.sandbox import Sandbox, qcow2
from zone9.sandbox.stored import Files
from zone9.sandbox.vm.guest import spec_of


async def test_each_machine_has_the_bytes_to_itself(sandbox: Sandbox, keeper: Api) -> None:
    assert await sent(keeper, "import", "a.raw", ISO) == "OK"
    for vmid in (101, 102):
        line = "vmstore:0,import-from=vmstore:import/a.raw"
        assert await keeper.task("POST", "/nodes/pve1/qemu", vmid=vmid, scsi0=line) == "OK"
    paths = [spec_of(sandbox.world, sandbox.vms[vmid]).disks[0].path for vmid in (101, 102)]
    assert [path and path.read_bytes() for path in paths] == [ISO, ISO]
    assert paths[0] != paths[1]
    await volume(keeper, "DELETE", "vmstore:101/vm-101-disk-0.raw")
    assert [path and path.exists() for path in paths] == [False, True]
    directory = (paths[1] or Path()).parent
    await sandbox.stop()
    assert not directory.exists()


def test_a_file_stays_as_long_as_a_layer_lies_over_it() -> None:
    files = Files(random.Random(1))
    base = files.blank(3 * 2**40)
    assert base is not None
    first = files.layer(base, 5 * 2**40)
    second, third = files.copy(first), files.layer(first, 5 * 2**40)
    assert qcow2.read(first) == qcow2.Qcow2(5 * 2**40, backed=True)
    for path in (base, first, second):
        files.remove(path)
    assert (base.exists(), first.exists(), second.exists()) == (True, True, False)
    files.remove(third)
    assert (base.exists(), first.exists(), len(files)) == (False, False, 0)
    files.close()


async def test_a_file_for_another_node_is_copied_there(tenant: Api) -> None:
    answer = await send(tenant, ("content", "iso"), ("filename", "a.iso", ISO), node="pve2")
    log = await tenant.log(answer.data)
    assert log[1] == "target node: pve2"
    assert log[4].startswith("command: /usr/bin/scp ")
    assert await sizes(tenant, "iso") == {}
    assert [
        row["volid"] for row in await tenant.ok("GET", "/nodes/pve2/storage/vmstore/content", content="iso")
    ] == ["vmstore:iso/a.iso"]


async def test_there_is_a_bound(sandbox: Sandbox, tenant: Api) -> None:
    sandbox.world.files.limit = 1000
    answer = await send(tenant, ("content", "iso"), ("filename", "a.iso", ISO))
    assert (answer.status, answer.reason) == (
        500,
        "write to temporary file failed - No space left on device",
    )


async def test_a_client_that_goes_away_leaves_nothing(sandbox: Sandbox, tenant: Api) -> None:
    context = ssl.create_default_context(cadata=sandbox.certificate_pem)
    address = urlsplit(sandbox.url)
    _, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context)
    text = form(("content", "iso"), ("filename", "a.iso", ISO))
    head = (
        "POST /api2/json/nodes/pve1/storage/vmstore/upload HTTP/1.1\r\nHost: pve1\r\n"
        f"Authorization: {tenant.headers['Authorization']}\r\nContent-Length: {len(text)}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n"
    )
    writer.write(head.encode() + text[:5000])
    await writer.drain()
    while not sandbox.world.files.uploads:  # noqa: ASYNC110 - there is nothing to wait on
        await asyncio.sleep(0.01)
    writer.transport.abort()
    while sandbox.world.files.uploads:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert (len(sandbox.world.files), sandbox.violations) == (0, [])
    assert await sent(tenant, "iso", "a.iso", ISO) == "OK"


async def test_a_lost_answer_leaves_the_file_stored(sandbox: Sandbox, tenant: Api) -> None:
    sandbox.faults.add("lose_answer", method="POST", path="*/upload", times=1)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await send(tenant, ("content", "iso"), ("filename", "a.iso", ISO))
    assert await sizes(tenant, "iso") == {"vmstore:iso/a.iso": len(ISO)}
