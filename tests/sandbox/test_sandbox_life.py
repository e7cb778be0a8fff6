"""Creating, cloning, powering and deleting: what is refused at once and what fails in the task."""

import asyncio
from typing import Any

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox

VM = "/nodes/pve1/qemu/101"
CLONE = "/nodes/pve1/qemu/9000/clone"
LOCK = "can't lock file '/var/lock/qemu-server/lock-{}.conf' - got timeout"


@pytest.fixture
def vm(sandbox: Sandbox) -> None:
    sandbox.add_vm(101, name="web1", disk="64M")


@pytest.mark.parametrize(
    ("verb", "kind"), [("start", "qmstart"), ("stop", "qmstop"), ("shutdown", "qmshutdown")]
)
async def test_6_1_power_of_an_absent_vm_fails_in_the_task(api: Api, verb: str, kind: str) -> None:
    upid = await api.ok("POST", f"/nodes/pve1/qemu/999/status/{verb}")
    status = await api.status(upid)
    assert status["exitstatus"] == "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"
    assert (status["type"], status["user"], status["tokenid"]) == (kind, "zone9@pve", "ctl")
    assert upid.endswith(":zone9@pve!ctl:")


@pytest.mark.usefixtures("vm")
async def test_6_1_a_locked_vm(wide_api: Api, sandbox: Sandbox) -> None:
    api = wide_api
    sandbox.operator.set_lock(101, "backup")
    assert await api.task("POST", f"{VM}/status/start") == "VM is locked (backup)"
    assert await api.task("DELETE", VM) == "VM is locked (backup)"
    assert await api.task("PUT", f"{VM}/resize", disk="scsi0", size="+1G") == "VM is locked (backup)"
    assert await api.task("POST", f"{VM}/snapshot", snapname="s1") == "VM is locked (backup)"
    for method in ("PUT", "POST"):
        assert (await api.ask(method, f"{VM}/config", name="x")).reason == "VM is locked (backup)"
    assert (await api.ask("POST", f"{VM}/clone", newid=300)).reason == "VM is locked (backup)"


async def test_6_2_texts_of_what_is_absent(api: Api) -> None:
    absent = "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"
    for method, path in (("GET", "config"), ("GET", "pending"), ("GET", "status/current"), ("PUT", "config")):
        params = {"name": "x"} if method == "PUT" else {}
        answer = await api.ask(method, f"/nodes/pve1/qemu/999/{path}", **params)
        assert (answer.status, answer.reason, answer.message) == (500, absent, absent + "\n")
    clone = await api.ask("POST", "/nodes/pve1/qemu/999/clone", newid=998)
    assert clone.reason == "unable to find configuration file for VM 999 on node 'pve1'"
    pool = await api.ask("POST", CLONE, newid=998, pool="nosuch")
    assert (pool.status, pool.reason) == (403, "Permission check failed (pool 'nosuch' does not exist)")
    path = await api.ask("GET", "/nodes/pve1/qemu/999/nosuch")
    assert (path.status, path.reason) == (501, "Method 'GET /nodes/pve1/qemu/999/nosuch' not implemented")
    node = await api.ask("GET", "/nodes/nosuch/qemu")
    assert node.status == 500
    assert node.reason.startswith("hostname lookup 'nosuch' failed")


async def test_6_3_absent_and_malformed_tasks(api: Api) -> None:
    absent = "UPID:pve1:000000B8:0003A5AD:6B0E430D:qmstart:555:zone9@pve!ctl:"
    for name, why in ((absent, "no such task"), ("bogus", "unable to parse worker upid")):
        answer = await api.ask("GET", f"/nodes/pve1/tasks/{name}/status")
        assert (answer.status, answer.errors) == (400, {"upid": why})


async def test_6_9_what_a_clone_keeps_and_what_is_new(api: Api, sandbox: Sandbox) -> None:
    template = sandbox.vms[9000]
    for key, value in {
        "smbios1": "base64=1,uuid=00000000-0000-0000-0000-000000000009,serial=dG1wbA==",
        "net0": "virtio=BC:24:11:00:00:09,bridge=vmbr0,firewall=1",
        "description": "tmpl",
        "tags": "a;b",
        "ciuser": "z9",
    }.items():
        template.file.put(key, value)
    assert await api.task("POST", CLONE, newid=101, name="web1") == "OK"
    config = await api.config(101)
    assert config["smbios1"].startswith("base64=1,serial=dG1wbA==,uuid=")
    assert "000000000009" not in config["smbios1"]
    assert config["net0"].endswith(",bridge=vmbr0,firewall=1")
    assert "00:00:09" not in config["net0"]
    assert config["vmgenid"] != template.config["vmgenid"]
    assert config["meta"] == template.config["meta"]
    assert config["ide2"] == "vmstore:101/vm-101-cloudinit.qcow2,media=cdrom,size=4M"
    assert config["scsi0"].startswith("vmstore:9000/base-9000-disk-0.qcow2/101/vm-101-disk-0.qcow2,")
    assert (config["description"], config["tags"], config["ciuser"]) == ("tmpl", "a;b", "z9")
    assert "template" not in config


async def test_clone_refusals(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_vm(103, disk="64M")
    sandbox.add_vm(102)

    async def reason(path: str, **params: Any) -> str:
        return (await api.ask("POST", path, **params)).reason

    assert await reason(CLONE, newid=102) == "unable to create VM 102: config file already exists"
    assert await reason(CLONE, newid=104, full=0, storage="vmstore") == (
        "parameter 'storage' not allowed for linked clones"
    )
    assert await reason("/nodes/pve1/qemu/103/clone", newid=104, full=0) == (
        "Linked clone feature is not supported for 'vmstore:103/vm-103-disk-0.qcow2' (scsi0)"
    )
    assert await reason(CLONE, newid=104, target="nosuch") == "no such cluster node 'nosuch'"
    assert await reason(CLONE, newid=104, full=1, storage="nosuch") == "storage 'nosuch' does not exist"
    assert await reason(CLONE, newid=104, snapname="nosuch") == "snapshot 'nosuch' does not exist"
    assert sandbox.violations == []
    for unknown in ("tags", "smbios1"):
        assert (await api.ask("POST", CLONE, newid=104, **{unknown: "x"})).status == 400
    sandbox.violations.clear()


async def test_a_clone_to_another_node_needs_shared_storage(api: Api, sandbox: Sandbox) -> None:
    refused = await api.ask("POST", CLONE, newid=101, full=1, target="pve2")
    assert refused.reason == "can't clone VM to node 'pve2' (VM uses local storage)"
    sandbox.cluster.storages["vmstore"].shared = True
    sandbox.cluster.storages["vmstore"].volumes[""] = sandbox.cluster.storages["vmstore"].volumes.pop("pve1")
    assert await api.task("POST", CLONE, newid=101, full=1, target="pve2") == "OK"
    assert sandbox.vms[101].node == "pve2"


async def test_6_2_clone_progress_1_the_placeholder(slow: Sandbox, slow_api: Api) -> None:
    await slow_api.ok("POST", CLONE, newid=101, full=1, name="web1", description="zone9:srv:n")
    placeholder = await slow_api.config(101)
    digest = placeholder.pop("digest")
    assert placeholder == {"lock": "clone", "description": " qmclone temporary file"}
    assert digest == "eb54fb9d9f120ba0c3bdf694f73b10002c375c38"
    await slow.clock.advance(0.5)
    first_write = await slow_api.config(101)
    assert (first_write["description"], first_write["lock"]) == ("zone9:srv:n", "clone")
    assert "scsi0" not in first_write
    await slow.clock.advance(60)
    assert "lock" not in await slow_api.config(101)


async def test_6_2_clone_progress_1_one_disk_is_a_placeholder_all_along(slow: Sandbox, slow_api: Api) -> None:
    slow.add_template(9001, cloudinit=False)
    await slow_api.ok("POST", "/nodes/pve1/qemu/9001/clone", newid=101, full=1, description="zone9:srv:n")
    await slow.clock.advance(9)
    assert (await slow_api.config(101))["description"] == " qmclone temporary file"
    await slow.clock.advance(5)
    assert (await slow_api.config(101))["description"] == "zone9:srv:n"


async def test_6_2_clone_progress_5_a_queued_delete_takes_the_fresh_clone(
    slow: Sandbox, slow_api: Api
) -> None:
    clone = await slow_api.ok("POST", CLONE, newid=101, full=1)
    await slow.clock.advance(5)
    delete = await slow_api.ok("DELETE", VM)
    start = await slow_api.ok("POST", f"{VM}/status/start")
    await slow.clock.advance(30)
    assert (await slow_api.status(clone))["exitstatus"] == "OK"
    assert (await slow_api.status(delete))["exitstatus"] == "OK"
    assert 101 not in slow.vms
    assert "does not exist" in (await slow_api.status(start))["exitstatus"]


async def test_6_2_clone_progress_5_who_waits_longer_than_ten_seconds_fails(
    slow: Sandbox, slow_api: Api
) -> None:
    await slow_api.ok("POST", CLONE, newid=101, full=1, bwlimit=51200)
    await slow.clock.advance(1)
    upid = await slow_api.ok("POST", f"{VM}/status/start")
    await slow.clock.advance(11)
    assert (await slow_api.status(upid))["exitstatus"] == LOCK.format(101)
    create = asyncio.create_task(slow_api.ask("POST", "/nodes/pve1/qemu", vmid=101))
    await asyncio.sleep(0.05)
    await slow.clock.advance(5.5)
    answer = await create
    assert (answer.status, answer.reason) == (500, f"unable to create VM 101 - {LOCK.format(101)}")


async def test_6_2_clone_progress_8_a_stopped_clone_leaves_nothing(slow: Sandbox, slow_api: Api) -> None:
    upid = await slow_api.ok("POST", CLONE, newid=101, full=1)
    await slow.clock.advance(2)
    stop = asyncio.create_task(slow_api.ask("DELETE", f"/nodes/pve1/tasks/{upid.replace(':', '%3A')}"))
    await asyncio.sleep(0.05)
    await slow.clock.advance(1.1)
    assert (await stop).status == 200
    exit_text = (await slow_api.status(upid))["exitstatus"]
    assert exit_text.startswith("clone failed: copy failed: command '/usr/bin/qemu-img convert")
    assert exit_text.endswith("failed: interrupted by signal")
    assert 101 not in slow.vms
    assert [v.volid for _, _, v in slow.cluster.volumes() if v.vmid == 101] == []


async def test_6_2_clone_progress_9_a_killed_worker_leaves_a_locked_half(
    slow: Sandbox, slow_api: Api
) -> None:
    upid = await slow_api.ok("POST", CLONE, newid=101, full=1, description="zone9:srv:n")
    await slow.clock.advance(2)
    await slow.tasks.kill(slow.tasks.by_upid[upid])
    assert (await slow_api.status(upid))["exitstatus"] == "unexpected status"
    config = await slow_api.config(101)
    assert (config["lock"], config["description"]) == ("clone", "zone9:srv:n")
    delete = await slow_api.ok("DELETE", VM)
    await slow.clock.advance(1)
    assert (await slow_api.status(delete))["exitstatus"] == "VM is locked (clone)"


async def test_6_18_put_template_is_not_post_template(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_vm(101, disk="64M")
    await api.ok("PUT", f"{VM}/config", template=1)
    assert "vm-101-disk-0" in (await api.config(101))["scsi0"]
    await api.ok("PUT", f"{VM}/config", delete="template")
    assert await api.task("POST", f"{VM}/template") == "OK"
    assert "base-101-disk-0" in (await api.config(101))["scsi0"]
    assert (await api.ask("POST", f"{VM}/template")).reason == "you can't convert a template to a template"
    assert await api.task("POST", f"{VM}/status/start") == "you can't start a vm if it's a template"


async def test_6_18_a_template_with_linked_clones_stays(api: Api) -> None:
    await api.task("POST", CLONE, newid=101)
    exit_text = await api.task("DELETE", "/nodes/pve1/qemu/9000")
    assert exit_text == "base volume 'vmstore:9000/base-9000-disk-0.qcow2' is still in use by linked cloned"
    assert (await api.config(9000))["template"] == 1
    assert await api.task("DELETE", VM) == "OK"
    assert await api.task("DELETE", "/nodes/pve1/qemu/9000") == "OK"


@pytest.mark.usefixtures("vm")
async def test_delete_is_refused_at_once_while_running_or_protected(api: Api, sandbox: Sandbox) -> None:
    await api.task("POST", f"{VM}/status/start")
    assert (await api.ask("DELETE", VM)).reason == "VM 101 is running - destroy failed"
    await api.task("POST", f"{VM}/status/stop")
    await api.ok("PUT", f"{VM}/config", protection=1)
    assert (await api.ask("DELETE", VM)).reason == "can't remove VM 101 - protection mode enabled"


async def test_unreferenced_disks_go_only_when_asked(api: Api, sandbox: Sandbox) -> None:
    for vmid, flag, left in ((101, 0, 1), (102, 1, 0)):
        sandbox.add_vm(vmid, disk="64M")
        await api.ok("PUT", f"/nodes/pve1/qemu/{vmid}/config", scsi1="vmstore:1")
        del sandbox.vms[vmid].config["scsi1"]
        assert await api.task("DELETE", f"/nodes/pve1/qemu/{vmid}", destroy_unreferenced_disks=flag) == "OK"
        assert len([v for _, _, v in sandbox.cluster.volumes() if v.vmid == vmid]) == left


@pytest.mark.usefixtures("vm")
async def test_6_25_power_that_is_already_there(api: Api) -> None:
    assert await api.task("POST", f"{VM}/status/stop") == "OK"
    assert await api.task("POST", f"{VM}/status/shutdown") == "OK"
    assert await api.task("POST", f"{VM}/status/start") == "OK"
    assert await api.task("POST", f"{VM}/status/start") == "VM 101 already running"


@pytest.mark.usefixtures("vm")
async def test_6_2_memory_cpu_4_a_reboot_is_two_tasks_the_second_by_root(
    slow: Sandbox, slow_api: Api
) -> None:
    slow.add_vm(101, disk="64M", running=True)
    await slow_api.ok("PUT", f"{VM}/config", cores=2)
    await slow_api.ok("POST", f"{VM}/status/reboot")
    await slow.clock.advance(3.2)
    assert (await slow_api.ok("GET", f"{VM}/status/current"))["status"] == "stopped"
    assert (await slow_api.pending(101))["cores"] == {"key": "cores", "value": 2}
    await slow.clock.advance(3)
    assert (await slow_api.ok("GET", f"{VM}/status/current"))["status"] == "running"
    rows = await slow_api.ok("GET", "/nodes/pve1/tasks", vmid=101, source="all")
    assert [(row["type"], row["user"]) for row in rows] == [
        ("qmstart", "root@pam"),
        ("qmreboot", "zone9@pve"),
    ]


@pytest.mark.usefixtures("vm")
async def test_reboot_and_reset_of_a_stopped_vm_are_500(api: Api) -> None:
    for verb in ("reboot", "reset"):
        assert (await api.ask("POST", f"{VM}/status/{verb}")).reason == "VM 101 not running"


@pytest.mark.usefixtures("vm")
async def test_a_guest_that_ignores_its_power_button(api: Api, sandbox: Sandbox) -> None:
    sandbox.vms[101].ignores_acpi = True
    await api.task("POST", f"{VM}/status/start")
    assert (
        await api.task("POST", f"{VM}/status/shutdown", timeout=3) == "VM quit/powerdown failed - got timeout"
    )
    assert (await api.ok("GET", f"{VM}/status/current"))["status"] == "running"
    assert await api.task("POST", f"{VM}/status/shutdown", timeout=3, forceStop=1) == "OK"
    assert (await api.ok("GET", f"{VM}/status/current"))["status"] == "stopped"


@pytest.mark.usefixtures("vm")
async def test_a_paused_vm_is_running_with_qmpstatus_paused(api: Api) -> None:
    await api.task("POST", f"{VM}/status/start")
    await api.task("POST", f"{VM}/status/suspend")
    current = await api.ok("GET", f"{VM}/status/current")
    assert (current["status"], current["qmpstatus"]) == ("running", "paused")
    await api.task("POST", f"{VM}/status/resume")
    assert (await api.ok("GET", f"{VM}/status/current"))["qmpstatus"] == "running"


async def test_6_21_qm_cleanup_holds_the_lock_of_a_vm_that_runs_again(slow: Sandbox, slow_api: Api) -> None:
    slow.add_vm(101, running=True)
    slow.kill_guest(101)
    await slow_api.ok("POST", f"{VM}/status/start")
    await slow.clock.advance(2)
    put = asyncio.create_task(slow_api.ask("PUT", f"{VM}/config", description="x"))
    await asyncio.sleep(0.05)
    await slow.clock.advance(10.1)
    assert (await put).reason == LOCK.format(101)
    await slow.clock.advance(25)
    assert (await slow_api.ask("PUT", f"{VM}/config", description="x")).status == 200


@pytest.mark.usefixtures("vm")
async def test_6_24_a_killed_guest_is_stopped_without_a_task_and_keeps_what_waits(
    api: Api, sandbox: Sandbox
) -> None:
    await api.task("POST", f"{VM}/status/start")
    await api.ok("PUT", f"{VM}/config", cores=2)
    before = await api.ok("GET", "/nodes/pve1/tasks", vmid=101)
    sandbox.kill_guest(101)
    assert (await api.ok("GET", f"{VM}/status/current"))["status"] == "stopped"
    assert await api.ok("GET", "/nodes/pve1/tasks", vmid=101) == before
    assert (await api.pending(101))["cores"]["pending"] == 2
    await api.task("POST", f"{VM}/status/start")
    assert (await api.pending(101))["cores"] == {"key": "cores", "value": 2}


@pytest.mark.usefixtures("vm")
async def test_6_23_the_agent(api: Api) -> None:
    await api.task("POST", f"{VM}/status/start")
    assert (await api.ask("POST", f"{VM}/agent/ping")).reason == "No QEMU guest agent configured"
    await api.ok("PUT", f"{VM}/config", agent=1)
    await api.task("POST", f"{VM}/status/stop")
    await api.task("POST", f"{VM}/status/start")
    assert (await api.ask("POST", f"{VM}/agent/ping")).reason == "QEMU guest agent is not running"


async def test_6_2_disks_2_a_put_past_thirty_seconds_is_596_and_goes_on(slow: Sandbox, slow_api: Api) -> None:
    slow.add_vm(101, disk="64M")
    put = asyncio.create_task(slow_api.ask("PUT", f"{VM}/config", scsi1="vmstore:100000,format=qcow2"))
    await asyncio.sleep(0.05)
    await slow.clock.advance(30.1)
    answer = await put
    assert (answer.status, answer.reason, answer.text) == (596, "Connection timed out", "")
    await slow.clock.advance(20)
    assert "scsi1" in await slow_api.config(101)


async def test_6_2_ha_3_a_managed_vm(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_vm(101)
    sandbox.cluster.ha["vm:101"] = {"state": "stopped"}
    upid = await api.ok("POST", f"{VM}/status/start")
    assert (await api.status(upid))["type"] == "hastart"
    assert (await api.ok("GET", f"{VM}/status/current"))["status"] == "stopped"
    refused = await api.ask("DELETE", VM)
    assert refused.reason == "unable to remove VM 101 - used in HA resources and purge parameter not set."
    assert await api.task("DELETE", VM, purge=1) == "OK"


async def test_6_2_disks_6_moving_a_disk(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_storage("other", content=("images",), path="/var/lib/other")
    sandbox.add_vm(101, disk="64M")
    assert await api.task("POST", f"{VM}/move_disk", disk="scsi0", storage="other") == "OK"
    config = await api.config(101)
    assert config["scsi0"].startswith("other:101/vm-101-disk-0.qcow2")
    assert config["unused0"] == "vmstore:101/vm-101-disk-0.qcow2"
    again = await api.ask("POST", f"{VM}/move_disk", disk="scsi0", storage="other")
    assert again.reason == "you can't move to the same storage with same format"


async def test_snapshots_and_their_clear_passwords_6_11(wide_api: Api, sandbox: Sandbox) -> None:
    api = wide_api
    sandbox.add_vm(101, disk="64M", cipassword="hush", name="before")
    assert await api.task("POST", f"{VM}/snapshot", snapname="s1", description="first") == "OK"
    assert await api.task("POST", f"{VM}/snapshot", snapname="s1") == "snapshot name 's1' already used"
    shown = await api.ok("GET", f"{VM}/snapshot/s1/config")
    assert shown["cipassword"] == "hush"
    await api.ok("PUT", f"{VM}/config", name="after")
    assert await api.task("POST", f"{VM}/snapshot/s1/rollback") == "OK"
    assert (await api.config(101))["name"] == "before"
    assert await api.task("DELETE", f"{VM}/snapshot/nope") == "snapshot 'nope' does not exist"
    assert await api.task("DELETE", f"{VM}/snapshot/s1") == "OK"
    assert "parent" not in await api.config(101)


async def test_migration_takes_the_vm_to_the_other_node(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_vm(101, disk="64M")
    refused = await api.ask("POST", f"{VM}/migrate", target="pve2")
    assert refused.reason == "Permission check failed (/vms/101, VM.Migrate)"
    await sandbox.operator.migrate(101, "pve2")
    assert (await api.ask("GET", f"{VM}/config")).reason.endswith("101.conf' does not exist")
    assert "scsi0" in await api.config(101, "pve2")
