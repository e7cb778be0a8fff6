"""What tests of guests share: specs, pages, and the end of processes."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from zone9.sandbox.guests.qemu import QemuGuests
from zone9.sandbox.guests.seam import CloudInit, GuestSpec, Nic, Smbios

BOOT_SECONDS = 60.0


def uuid_of(vmid: int) -> str:
    return f"5e1f0000-2222-4333-8444-{vmid:012d}"


def spec_of(
    vmid: int, ip: str = "", *, bridge: str = "vmbr0", tag: int | None = None, **more: object
) -> GuestSpec:
    """Makes a spec with one NIC on one network, or with none when no address is given."""
    mac = f"BC:24:11:00:{vmid // 256:02X}:{vmid % 256:02X}"
    given: dict[str, object] = {
        "vmid": vmid,
        "name": f"web{vmid}",
        "node": "pve1",
        "memory": 2048,
        "cores": 1,
        "smbios": Smbios(uuid_of(vmid)),
        "nics": (Nic(0, mac, bridge, tag),) if ip else (),
        "cloudinit": CloudInit(ipconfig=((0, f"ip={ip}/24,gw=10.0.0.1"),)) if ip else None,
    }
    return GuestSpec(**{**given, **more})  # type: ignore[arg-type]


def fetch(url: str, seconds: float = 5.0) -> str:
    with urllib.request.urlopen(url, timeout=seconds) as answer:
        return answer.read().decode()


async def page(guests: QemuGuests, vmid: int, path: str = "") -> str:
    """Answers a page of a guest once it serves one."""
    url = guests.page_url(vmid)
    assert url is not None
    async with asyncio.timeout(BOOT_SECONDS):
        while True:
            try:
                return await asyncio.to_thread(fetch, url + path, 5.0 if "fetch" in path else 1.0)
            except (OSError, urllib.error.URLError):
                await asyncio.sleep(0.2)


async def facts(guests: QemuGuests, vmid: int) -> dict[str, object]:
    return json.loads(await page(guests, vmid, "facts.json"))


def gone(pid: int) -> bool:
    """Tells whether a process has ended; one that only waits to be reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


async def eventually(check: Callable[[], bool], seconds: float = BOOT_SECONDS) -> None:
    """Returns once `check` holds; fails when it does not within `seconds`."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not check():
        assert asyncio.get_running_loop().time() < deadline, "it did not come to be in time"
        await asyncio.sleep(0.05)


async def all_gone(pids: list[int]) -> None:
    await eventually(lambda: all(map(gone, pids)), 5)
