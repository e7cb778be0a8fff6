"""The parts of the tiny guest that are decided without starting it."""

import asyncio
import lzma
import subprocess
from pathlib import Path

import pytest
from guest_kit import spec_of

from zone9.sandbox.guests import accelerator, command, debian_kernel, missing, tiny
from zone9.sandbox.guests.cpio import Cpio
from zone9.sandbox.guests.rows import RowGuests
from zone9.sandbox.guests.rundir import RunDirectory
from zone9.sandbox.guests.seam import Disk, Nic, Smbios, StartFailed

IMAGE = tiny.Tiny(Path("/k"), Path("/i"))
CAPS = command.Caps(memory=128, cores=2)


def argv_of(spec: object, **more: object) -> list[str]:
    given = {"switches": {0: "s,1"}, "drive": None, "monitor": 5, "caps": CAPS, **more}
    return command.argv(spec, IMAGE, **given)  # type: ignore[arg-type]


def after(argv: list[str], option: str) -> list[str]:
    return [argv[n + 1] for n, word in enumerate(argv) if word == option]


def module(directory: Path, name: str, depends: str = "") -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(b"\x7fELF\0depends=" + depends.encode() + b"\0name=x\0")


def test_an_archive_is_read_by_cpio(tmp_path: Path) -> None:
    archive = Cpio()
    archive.directory("bin")
    archive.file("bin/odd", b"12345", executable=True)
    archive.link("bin/sh", "odd")
    done = subprocess.run(["cpio", "-i", "--quiet"], cwd=tmp_path, input=archive.finished(), check=True)
    assert done.returncode == 0
    assert (tmp_path / "bin" / "odd").read_bytes() == b"12345"
    assert (tmp_path / "bin" / "sh").readlink() == Path("odd")


def test_modules_come_after_what_they_need_and_built_in_ones_are_left_out(tmp_path: Path) -> None:
    module(tmp_path / "a", "virtio-net.ko", "virtio,net_failover")
    module(tmp_path / "a", "net_failover.ko", "failover")
    module(tmp_path / "b", "failover.ko")
    packed = tmp_path / "b" / "button.ko.xz"
    packed.write_bytes(lzma.compress(b"\0depends=\0"))
    (tmp_path / "modules.builtin").write_text("kernel/drivers/virtio/virtio.ko\n")
    found = tiny.with_dependencies(tmp_path, ("virtio_net", "button"))
    assert list(found) == ["failover", "net_failover", "virtio_net", "button"]
    assert found["button"] == b"\0depends=\0"
    with pytest.raises(missing.Missing, match="linux-image-cloud-amd64"):
        tiny.with_dependencies(tmp_path, ("isofs",))


def test_a_kernel_without_its_modules_is_refused(tmp_path: Path) -> None:
    (tmp_path / "boot").mkdir()
    image = tmp_path / "boot" / "vmlinuz-6.1-cloud-amd64"
    image.write_bytes(b"")
    with pytest.raises(missing.Missing, match="no kernel with its modules"):
        debian_kernel.find(tmp_path, image)
    (tmp_path / "lib" / "modules" / "6.1-cloud-amd64").mkdir(parents=True)
    assert debian_kernel.find(tmp_path, image).version == "6.1-cloud-amd64"


def test_missing_programs_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        missing.Missing, match=r"Debian packages: qemu-system-x86, busybox-static, util-linux"
    ):
        missing.check()
    with pytest.raises(missing.Missing, match="busybox-static"):
        missing.busybox()


def test_the_cache_is_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZONE9_CACHE", "/somewhere")
    assert tiny.cache_directory() == Path("/somewhere")
    monkeypatch.delenv("ZONE9_CACHE")
    assert tiny.cache_directory().name == "zone9"


def test_memory_and_cores_are_capped_and_never_too_small() -> None:
    argv = argv_of(spec_of(1, memory=65536, cores=32))
    assert after(argv, "-m") == ["128"]
    assert after(argv, "-smp") == ["2"]
    assert after(argv_of(spec_of(1, memory=16, cores=0)), "-m") == ["96"]


def test_values_from_outside_cannot_become_options() -> None:
    smbios = Smbios("5e1f0000-2222-4333-8444-000000000001", serial="a,file=/etc/passwd", sku="u=1")
    spec = spec_of(
        1,
        smbios=smbios,
        nics=(Nic(0, "BC:24:11:00:00:01,x=y", "vmbr0"),),
        disks=(Disk("scsi0", 5, Path("/d,readonly=on.qcow2")), Disk("virtio1", 1024)),
    )
    argv = argv_of(spec, drive=Path("/c,d.iso"))
    assert after(argv, "-smbios") == [
        "type=1,serial=a,,file=/etc/passwd,sku=u=1,uuid=5e1f0000-2222-4333-8444-000000000001"
    ]
    assert all(word.startswith("{") for word in after(argv, "-blockdev") + after(argv, "-device"))
    assert '"driver": "qcow2"' in after(argv, "-blockdev")[1]
    assert '"null-co"' in after(argv, "-blockdev")[2]
    assert argv_of(spec_of(1, smbios=Smbios(""))).count("-smbios") == 0


def test_kvm_is_not_tried_without_the_flag_or_the_device(tmp_path: Path) -> None:
    flagged, plain, device = tmp_path / "flagged", tmp_path / "plain", tmp_path / "kvm"
    flagged.write_text("processor\t: 0\nflags\t\t: fpu vmx sse\n")
    plain.write_text("flags\t\t: fpu sse\nmodel name\t: vmx\n")
    assert not accelerator.kvm_plausible(flagged, device)
    device.write_bytes(b"")
    assert accelerator.kvm_plausible(flagged, device)
    assert not accelerator.kvm_plausible(plain, device)


def test_a_run_directory_is_swept_only_when_nobody_holds_it(tmp_path: Path) -> None:
    held = RunDirectory(tmp_path)
    dead = tmp_path / "zone9-guests-dead"
    dead.mkdir()
    (dead / "lock").touch()
    other = RunDirectory(tmp_path)
    assert not dead.exists()
    assert held.path.is_dir()
    assert other.path.stat().st_mode & 0o777 == 0o700
    held.close()
    other.close()
    assert list(tmp_path.iterdir()) == []


async def test_rows_start_stop_and_die_without_a_process() -> None:
    ended: list[int] = []
    rows = RowGuests(ended.append)
    await rows.start(spec_of(1))
    await rows.start(spec_of(2, ignores_acpi=True))
    with pytest.raises(StartFailed, match="VM 1 already running"):
        await rows.start(spec_of(1))
    assert rows.running(1)
    assert rows.pid(1) is None
    assert rows.page_url(1) is None
    assert await rows.shutdown(1, 1)
    async with asyncio.timeout(5):
        assert not await rows.shutdown(2, 0.01)
    rows.die(2)
    assert ended == [2]
    await rows.close()
