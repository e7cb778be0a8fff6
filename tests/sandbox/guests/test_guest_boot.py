"""What a guest is, measured from outside on real QEMU processes."""

import asyncio
import hashlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from guest_kit import BOOT_SECONDS, all_gone, eventually, facts, fetch, gone, page, spec_of, uuid_of

from zone9.sandbox.guests import accelerator, command
from zone9.sandbox.guests.qemu import QemuGuests
from zone9.sandbox.guests.seam import CloudInit, Disk, Nic, Smbios, StartFailed
from zone9.sandbox.guests.tiny import Tiny

pytestmark = [pytest.mark.qemu, pytest.mark.slow]


def left_in(directory: Path) -> list[Path]:
    return list(directory.glob("zone9-guests-*"))


async def answers(url: str) -> bool:
    try:
        await asyncio.to_thread(fetch, url, 2.0)
    except OSError:
        return False
    return True


async def test_a_guest_shows_what_it_was_started_with(guests: QemuGuests, tmp_path: Path) -> None:
    real = tmp_path / "disk, of one.raw"
    real.write_bytes(bytes(3 * 2**20))
    ended: list[int] = []
    guests.on_exit = ended.append
    spec = spec_of(
        101,
        "10.0.0.5",
        smbios=Smbios(uuid_of(101), serial="z9:A,B=C"),
        disks=(Disk("scsi0", 10 * 2**30), Disk("scsi1", 3 * 2**20, real)),
        cloudinit=CloudInit(
            sshkeys="ssh-ed25519%20AAA%20a%0A", ipconfig=((0, "ip=10.0.0.5/24,gw=10.0.0.1"),)
        ),
    )
    await guests.start(spec)
    html = await page(guests, 101)
    assert "web101" in html
    assert uuid_of(101) in html
    assert "10.0.0.5" in html
    found = await facts(guests, 101)
    assert found["name"] == "web101"
    assert found["uuid"] == uuid_of(101)
    assert found["gateway"] == "10.0.0.1"
    assert found["serial_sha256"] == hashlib.sha256(b"z9:A,B=C").hexdigest()
    assert found["disks"] == {"scsi0": 10 * 2**30, "scsi1": 3 * 2**20}
    assert found["ssh_keys"] == 1
    assert isinstance(found["memory_mib"], int)
    assert found["memory_mib"] <= 128
    # The page is there a moment before the console's line.
    await eventually(lambda: f"uuid={uuid_of(101)}".encode() in guests.console(101))
    assert b"login:" not in guests.console(101)

    url = guests.page_url(101)
    assert url is not None
    await guests.pause(101)
    assert guests.running(101)
    assert not await answers(url)
    await guests.resume(101)
    assert "web101" in await page(guests, 101)

    await guests.reset(101)
    await eventually(lambda: guests.console(101).count(b": up ") == 2)
    assert "web101" in await page(guests, 101)

    assert await guests.shutdown(101, 30)
    assert not guests.running(101)
    assert guests.page_url(101) is None
    assert not await answers(url)
    assert b"power button pressed" in guests.console(101)
    assert ended == []
    assert guests.processes() == {}


async def test_a_killed_guest_is_reported_and_its_page_is_gone(guests: QemuGuests) -> None:
    ended: asyncio.Queue[int] = asyncio.Queue()
    guests.on_exit = ended.put_nowait
    await guests.start(spec_of(111, "10.0.0.5"))
    await page(guests, 111)
    pid, url = guests.pid(111), guests.page_url(111)
    assert pid is not None
    assert url is not None
    os.kill(pid, signal.SIGKILL)
    assert await asyncio.wait_for(ended.get(), 10) == 111
    assert not guests.running(111)
    assert guests.pid(111) is None
    assert not await answers(url)
    await guests.stop(111)
    assert await guests.shutdown(111, 1)


async def test_guests_meet_on_their_own_network_only(guests: QemuGuests) -> None:
    await guests.start(spec_of(121, "10.0.0.5", tag=10))
    await guests.start(spec_of(122, "10.0.0.6", tag=10))
    await guests.start(spec_of(123, "10.0.0.7", tag=20))
    assert (await facts(guests, 121))["name"] == "web121"
    assert (await facts(guests, 123))["name"] == "web123"
    seen = json.loads(await page(guests, 122, "cgi-bin/fetch?ip=10.0.0.5"))
    assert seen["uuid"] == uuid_of(121)
    assert (await page(guests, 122, "cgi-bin/fetch?ip=10.0.0.7")).strip() == "unreachable"
    assert (await page(guests, 123, "cgi-bin/fetch?ip=10.0.0.5")).strip() == "unreachable"
    with pytest.raises(StartFailed, match="at most 3 guests"):
        await guests.start(spec_of(124, "10.0.0.8"))
    # An address that changed hands is found at its new owner, by the host and by its neighbours.
    await guests.stop(121)
    await guests.start(spec_of(124, "10.0.0.5", tag=10))
    assert (await facts(guests, 124))["name"] == "web124"
    seen = json.loads(await page(guests, 122, "cgi-bin/fetch?ip=10.0.0.5"))
    assert seen["uuid"] == uuid_of(124)
    pids = list(guests.processes().values())
    assert len(pids) == 3 + 2 * 2
    await guests.close()
    await all_gone(pids)


async def test_a_guest_cannot_dial_out_through_the_host_port(guests: QemuGuests) -> None:
    dialled: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.append("a guest")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n{}\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        await guests.start(spec_of(171, "10.0.0.5"))
        for ip in ("169.254.9.9", "169.254.9.10", "127.0.0.1", "10.0.0.1", "192.0.2.1"):
            assert (await page(guests, 171, f"cgi-bin/fetch?ip={ip}&port={port}")).strip() == "unreachable"
    assert dialled == []


async def test_a_guest_with_two_networks_has_one_default_route(guests: QemuGuests) -> None:
    addresses = ((0, "ip=10.0.0.5/24,gw=10.0.0.1"), (1, "ip=192.168.7.5/24,gw=192.168.7.1"), (2, "ip=dhcp"))
    spec = spec_of(
        131,
        nics=(
            Nic(0, "BC:24:11:00:00:01", "vmbr0"),
            Nic(1, "BC:24:11:00:00:02", "vmbr1", 7),
            Nic(2, "BC:24:11:00:00:03", "vmbr0"),
        ),
        cloudinit=CloudInit(ipconfig=addresses),
    )
    await guests.start(spec)
    found = await facts(guests, 131)
    assert found["default_routes"] == 1
    assert found["gateway"] == "10.0.0.1"
    assert found["address"] == "10.0.0.5"
    assert b"no answer to DHCP" not in guests.console(131)


async def test_a_deaf_guest_outlives_the_power_button(guests: QemuGuests) -> None:
    ended: list[int] = []
    guests.on_exit = ended.append
    spec = spec_of(141, ignores_acpi=True)
    await guests.start(spec)
    assert guests.page_url(141) is None
    with pytest.raises(StartFailed, match="already running"):
        await guests.start(spec)
    await eventually(lambda: b": up " in guests.console(141))
    assert not await guests.shutdown(141, 3)
    assert guests.running(141)
    await guests.stop(141)
    assert not guests.running(141)
    assert ended == []


async def test_a_start_that_fails_says_why_and_leaves_nothing(guests: QemuGuests, tmp_path: Path) -> None:
    absent = Disk("scsi0", 1, tmp_path / "absent.qcow2")
    with pytest.raises(StartFailed, match=r"absent\.qcow2.*No such file"):
        await guests.start(spec_of(151, "10.0.0.5", disks=(absent,)))
    with pytest.raises(StartFailed, match="start failed"):
        await guests.start(spec_of(152, "10.0.0.999"))
    assert guests.processes() == {}
    assert not guests.running(151)


async def test_the_probe_tells_a_guest_that_boots(image: Tiny, tmp_path: Path) -> None:
    assert await accelerator.boots(image, tmp_path, command.TCG, seconds=BOOT_SECONDS)
    assert not await accelerator.boots(image, tmp_path, command.TCG, seconds=0.2)


SANDBOX = """
import asyncio, json, pathlib, sys
from guest_kit import spec_of
from zone9.sandbox.guests.qemu import QemuGuests
from zone9.sandbox.guests.tiny import Tiny

async def main():
    image = Tiny(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
    guests = QemuGuests(image, directory=pathlib.Path(sys.argv[3]))
    await guests.start(spec_of(161, "10.0.0.5"))
    print(json.dumps(guests.processes()), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_nothing_outlives_a_sandbox_that_was_killed(image: Tiny, tmp_path: Path) -> None:
    sandbox = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SANDBOX, str(image.kernel), str(image.initrd), str(tmp_path)),
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert sandbox.stdout is not None
    try:
        line = await asyncio.wait_for(sandbox.stdout.readline(), BOOT_SECONDS)
        pids: list[int] = list(json.loads(line).values())
        assert len(pids) == 3
        assert not any(map(gone, pids))
    finally:
        sandbox.kill()
        await sandbox.wait()
    await all_gone(pids)
    assert left_in(tmp_path)
    following = QemuGuests(image, directory=tmp_path)
    assert len(left_in(tmp_path)) == 1
    await following.close()
    assert left_in(tmp_path) == []
