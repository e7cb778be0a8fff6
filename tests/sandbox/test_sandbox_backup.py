"""Backups: jobs that are only kept, runs that fail in their task, archives, and VMs made from them."""

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox


@pytest.fixture
async def root(sandbox: Sandbox) -> AsyncIterator[Api]:
    api = Api(sandbox, sandbox.accounts.add_token("root@pam!all", privsep=False))
    yield api
    await api.close()


async def archive_of(api: Api, vmid: int) -> str:
    rows = await api.ok("GET", "/nodes/pve1/storage/vmstore/content", content="backup")
    return str(next(row["volid"] for row in rows if row["vmid"] == vmid))


async def test_6_2_backup_4_a_job_takes_what_is_absent_and_its_number_once(root: Api, api: Api) -> None:
    job = {"vmid": "999", "storage": "nosuch", "schedule": "02:00"}
    assert (await api.ask("POST", "/cluster/backup", **job)).status == 403
    await root.ok("POST", "/cluster/backup", id="nightly", **job)
    assert (
        await root.ask("POST", "/cluster/backup", id="nightly", **job)
    ).reason == "Job 'nightly' already exists"
    answer = await root.ask("POST", "/cluster/backup", vmid="100", storage="vmstore")
    assert answer.errors == {"schedule": "neither 'starttime' nor 'schedule' were set"}
    await root.ok("PUT", "/cluster/backup/nightly", enabled=0, prune_backups="keep-last=2")
    shown = await api.ok("GET", "/cluster/backup/nightly")
    assert (shown["enabled"], shown["prune-backups"]) == (0, {"keep-last": "2"})
    await root.ok("DELETE", "/cluster/backup/nightly")
    answer = await root.ask("DELETE", "/cluster/backup/nightly")
    assert answer.message == "400 Parameter verification failed.\nid: No such job 'nightly'\n"


async def test_6_2_backup_4_what_a_run_lacks_is_found_out_in_its_task(
    sandbox: Sandbox, api: Api, root: Api
) -> None:
    sandbox.add_vm(101, name="web1", disk="64M")
    sandbox.add_storage("fast", content=("images",), path="/fast")
    path = "/nodes/pve1/vzdump"
    assert await api.task("POST", path, vmid=101, storage="vmstore") == (
        "403 Permission check failed (/vms/101, VM.Backup)"
    )
    assert "wrong content type" in await root.task("POST", path, vmid=101, storage="fast")
    assert "storage 'nosuch' does not exist" in await root.task("POST", path, vmid=101, storage="nosuch")
    upid = await root.ok("POST", path, vmid=999, storage="vmstore")
    assert (await root.status(upid))["exitstatus"] == "job errors"
    assert "ERROR: Backup of VM 999 failed - unable to find VM '999'" in await root.log(upid)
    assert (await root.ask("POST", path, storage="vmstore")).errors == {"vmid": "property is missing"}


async def test_a_vm_is_locked_while_it_is_backed_up(slow: Sandbox, slow_api: Api) -> None:
    slow.add_vm(101, name="web1", disk="2G")
    root = Api(slow, slow.accounts.add_token("root@pam!all", privsep=False))
    upid = await root.ok("POST", "/nodes/pve1/vzdump", vmid=101, storage="vmstore")
    await slow.clock.advance(2)
    assert (await slow_api.config(101))["lock"] == "backup"
    answer = await slow_api.ask("PUT", "/nodes/pve1/qemu/101/config", name="other")
    assert answer.reason == "VM is locked (backup)"
    await slow.clock.advance(60)
    assert (await root.status(upid))["exitstatus"] == "OK"
    assert "lock" not in await slow_api.config(101)
    await root.close()


async def test_a_full_storage_fails_the_job_and_leaves_no_lock(sandbox: Sandbox, root: Api) -> None:
    sandbox.add_vm(101, name="web1", disk="64M")
    sandbox.operator.fill_storage("vmstore")
    upid = await root.ok("POST", "/nodes/pve1/vzdump", vmid=101, storage="vmstore")
    assert (await root.status(upid))["exitstatus"] == "job errors"
    assert "lock" not in await root.config(101)
    assert await root.ok("GET", "/nodes/pve1/storage/vmstore/content", content="backup") == []


async def test_a_restored_vm_is_the_same_machine_unless_it_is_to_be_unique(
    sandbox: Sandbox, root: Api
) -> None:
    await root.task("POST", "/nodes/pve1/qemu/9000/clone", newid=101, name="web1")
    await root.ok("PUT", "/nodes/pve1/qemu/101/config", net0="virtio,bridge=vmbr0", description="kept")
    assert (
        await root.task(
            "POST", "/nodes/pve1/vzdump", vmid=101, storage="vmstore", notes_template="of {{guestname}}"
        )
        == "OK"
    )
    archive, before = await archive_of(root, 101), await root.config(101)

    again = await root.ask("POST", "/nodes/pve1/qemu", vmid=101, archive=archive)
    assert again.reason == "unable to restore VM 101 - VM 101 already exists on node 'pve1'"
    assert await root.task("POST", "/nodes/pve1/qemu", vmid=102, archive=archive) == "OK"
    assert await root.task("POST", "/nodes/pve1/qemu", vmid=103, archive=archive, unique=1) == "OK"
    same, other = await root.config(102), await root.config(103)
    assert (same["net0"], same["smbios1"], same["description"]) == (before["net0"], before["smbios1"], "kept")
    assert same["vmgenid"] != before["vmgenid"]
    assert other["net0"] != before["net0"]
    assert other["smbios1"] != before["smbios1"]
    assert "vm-102-disk-0" in same["scsi0"]
    assert "vm-103-cloudinit" in other["ide2"]
    rows = await root.ok("GET", "/nodes/pve1/storage/vmstore/content", content="backup")
    assert (rows[0]["notes"], rows[0]["subtype"]) == ("of web1", "qemu")


async def test_6_2_backup_4_an_absent_archive(api: Api, root: Api) -> None:
    archive = "vmstore:backup/vzdump-qemu-308-2026_01_01-00_00_00.vma"
    answer = await api.ask("POST", "/nodes/pve1/qemu", vmid=102, archive=archive)
    assert answer.reason == "Permission check failed (/vms/308, VM.Backup)"
    answer = await root.ask("POST", "/nodes/pve1/qemu", vmid=102, archive=archive)
    assert answer.reason == f"volume '{archive}' does not exist"
    assert (await root.ask("GET", "/nodes/pve1/qemu/102/config")).status == 500


async def test_an_archive_shows_its_config_and_what_would_be_pruned(sandbox: Sandbox, root: Api) -> None:
    sandbox.add_vm(101, name="web1", disk="64M")
    await root.task("POST", "/nodes/pve1/vzdump", vmid=101, storage="vmstore")
    text = await root.ok("GET", "/nodes/pve1/vzdump/extractconfig", volume=await archive_of(root, 101))
    assert "name: web1\n" in text
    volume = f"/nodes/pve1/storage/vmstore/content/{quote(await archive_of(root, 101), safe='')}"
    await root.ok("PUT", volume, protected=1, notes="keep it")
    assert "cannot remove protected volume" in (await root.ask("DELETE", volume)).reason
    shown = (await root.ok("GET", "/nodes/pve1/storage/vmstore/content", content="backup"))[0]
    assert (shown["notes"], shown["protected"]) == ("keep it", 1)
    await root.ok("PUT", volume, protected=0)
    path = "/nodes/pve1/storage/vmstore/prunebackups"
    marks = [row["mark"] for row in await root.ok("GET", path, prune_backups="keep-last=1")]
    assert marks == ["keep"]
