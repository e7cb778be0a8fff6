"""Every write against Proxmox's own API schema: no parameter that it does not know, none left to chance."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pve_script import Allowed, Script

from zone9.pve import writes
from zone9.pve.client import Client

UPID = "UPID:pve1:000000AE:000731DE:6B0E4C22:qmstart:101:z9@pve!ctl:"
VM = "/nodes/pve1/qemu/101"
DIGEST = "a6e1f42b59465533575f9077d102c293cc78a11b"
Call = Callable[[Client, Allowed], Awaitable[Any]]

WRITES: list[tuple[str, Call, str, dict[str, str]]] = [
    (
        "linked clone",
        lambda c, p: writes.clone(
            c, p, node="pve1", template=101, newid=5000, name="web1", description="zone9:srv_a:n"
        ),
        f"POST {VM}/clone",
        {"newid": "5000", "name": "web1", "description": "zone9:srv_a:n", "full": "0"},
    ),
    (
        "full clone",
        lambda c, p: writes.clone(
            c,
            p,
            node="pve1",
            template=101,
            newid=5000,
            name="web1",
            description="zone9:srv_a:n",
            target="pve2",
            storage="fast",
            full=True,
        ),
        f"POST {VM}/clone",
        {
            "newid": "5000",
            "name": "web1",
            "description": "zone9:srv_a:n",
            "target": "pve2",
            "storage": "fast",
            "full": "1",
        },
    ),
    (
        "set config",
        lambda c, p: writes.set_config(
            c,
            p,
            node="pve1",
            vmid=101,
            digest=DIGEST,
            settings={
                "cores": 2,
                "memory": "2048",
                "onboot": True,
                "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
            },
            delete=["net1", "ipconfig1"],
        ),
        f"PUT {VM}/config",
        {
            "cores": "2",
            "memory": "2048",
            "onboot": "1",
            "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0",
            "delete": "net1,ipconfig1",
            "digest": DIGEST,
        },
    ),
    (
        "post config",
        lambda c, p: writes.post_config(
            c, p, node="pve1", vmid=101, digest=DIGEST, settings={"scsi1": "fast:8,discard=on"}
        ),
        f"POST {VM}/config",
        {"scsi1": "fast:8,discard=on", "digest": DIGEST},
    ),
    (
        "resize",
        lambda c, p: writes.resize(c, p, node="pve1", vmid=101, disk="scsi0", size="20G", digest=DIGEST),
        f"PUT {VM}/resize",
        {"disk": "scsi0", "size": "20G", "digest": DIGEST},
    ),
    ("start", lambda c, p: writes.start(c, p, node="pve1", vmid=101), f"POST {VM}/status/start", {}),
    ("stop", lambda c, p: writes.stop(c, p, node="pve1", vmid=101), f"POST {VM}/status/stop", {}),
    (
        "shutdown",
        lambda c, p: writes.shutdown(c, p, node="pve1", vmid=101, timeout=60),
        f"POST {VM}/status/shutdown",
        {"timeout": "60", "forceStop": "0"},
    ),
    (
        "reboot",
        lambda c, p: writes.reboot(c, p, node="pve1", vmid=101, timeout=60),
        f"POST {VM}/status/reboot",
        {"timeout": "60"},
    ),
    (
        "delete",
        lambda c, p: writes.delete(c, p, node="pve1", vmid=101),
        f"DELETE {VM}",
        {"purge": "1", "destroy-unreferenced-disks": "0"},
    ),
    (
        "cloud-init",
        lambda c, p: writes.regenerate_cloudinit(c, p, node="pve1", vmid=101),
        f"PUT {VM}/cloudinit",
        {},
    ),
]


@pytest.mark.parametrize(("name", "call", "request_line", "form"), WRITES, ids=[row[0] for row in WRITES])
@pytest.mark.parametrize("receipt", [UPID, None])
async def test_a_write_sends_exactly_this(
    name: str, call: Call, request_line: str, form: dict[str, str], receipt: str | None
) -> None:
    script = Script({request_line: receipt})
    async with script.client() as client:
        result = await call(client, Allowed())
    method, path = request_line.split(" ")
    assert script.requests == [(method, path, form)]
    if name not in {"set config", "cloud-init"}:
        assert (result.text if result else None) == receipt


async def test_what_is_never_sent() -> None:
    async with Script().client() as client:
        common = {"node": "pve1", "vmid": 101, "digest": DIGEST}
        with pytest.raises(ValueError, match="absolute"):
            await writes.resize(client, Allowed(), disk="scsi0", size="+1G", **common)
        with pytest.raises(ValueError, match="without options"):
            await writes.set_config(client, Allowed(), settings={}, **common)
