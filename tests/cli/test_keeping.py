"""A sandbox that is kept comes back with its cluster, and with nothing running."""

import asyncio
from pathlib import Path

import pytest

from zone9.cli.client import CommandError
from zone9.cli.keeping import Kept
from zone9.sandbox import Sandbox


async def test_the_cluster_comes_back_without_power(tmp_path: Path) -> None:
    first = Kept(tmp_path / "sandbox.json")
    async with Sandbox(nodes=("pve1",)) as sandbox:
        sandbox.add_template(9000)
        sandbox.add_vm(200, name="theirs", running=True, disk="8G")
        sandbox.world.spawn(first.keep(sandbox))
        await asyncio.sleep(0)
        sandbox.add_vm(201, name="late")  # just before the end
    first.close()

    second = Kept(tmp_path / "sandbox.json")
    async with Sandbox(nodes=("pve1",)) as again:
        assert second.restore(again)
        assert sorted(again.vms) == [200, 201, 9000]
        assert again.vms[200].running is None
        assert again.vms[200].file.digest == sandbox.vms[200].file.digest
        assert again.cluster.storages["vmstore"].on("pve1") == sandbox.cluster.storages["vmstore"].on("pve1")
    second.close()
    assert (tmp_path / "sandbox.json").stat().st_mode & 0o777 == 0o600


async def test_uploaded_bytes_go_with_their_sandbox(tmp_path: Path) -> None:
    first = Kept(tmp_path / "sandbox.json")
    async with Sandbox(nodes=("pve1",)) as sandbox:
        sandbox.add_import("a.raw", 2**20, path=sandbox.world.files.new("raw"))
        keeping = sandbox.world.spawn(first.keep(sandbox))
        await asyncio.sleep(0)
        keeping.cancel()
    first.close()

    second = Kept(tmp_path / "sandbox.json")
    async with Sandbox(nodes=("pve1",)) as again:
        assert second.restore(again)
        volume = again.cluster.volume("pve1", "vmstore:import/a.raw")
        assert volume is not None
        assert (volume.size, volume.path) == (2**20, None)
    second.close()


async def test_a_file_has_one_sandbox(tmp_path: Path) -> None:
    first = Kept(tmp_path / "sandbox.json")

    with pytest.raises(CommandError, match="another sandbox"):
        Kept(tmp_path / "sandbox.json")
    first.close()


async def test_a_damaged_file_is_said_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sandbox.json"
    path.write_text('{"vms": 3}')
    kept = Kept(path)
    async with Sandbox(nodes=("pve1",)) as sandbox:
        with pytest.raises(CommandError, match="not a sandbox's state"):
            kept.restore(sandbox)
    kept.close()

    assert path.read_text() == '{"vms": 3}'
