"""Lines of the measured facts about a clone that is at work (6.2, clone-progress), and 6.22."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from sandbox_api import Api

from zone9.sandbox import Durations, Sandbox


async def moving(sandbox: Sandbox, asked: Coroutine[Any, Any, Any]) -> Any:
    """Lets time pass, a little at a time, until an answer is there."""
    answer = asyncio.ensure_future(asked)
    while not answer.done():
        await sandbox.clock.advance(0.05)
        await asyncio.sleep(0.002)
    return await answer


CLONE = "/nodes/pve1/qemu/9000/clone"
VM = "/nodes/pve1/qemu/101"


async def test_6_22_waits_for_a_lock_that_another_holds(slow: Sandbox, slow_api: Api) -> None:
    slow.add_vm(101, name="web1", disk="64M")

    async def hold(vmid: int) -> None:
        async with slow.world.locks.hold(vmid):
            await slow.clock.sleep(100)

    holders = [asyncio.ensure_future(hold(vmid)) for vmid in (101, 9000)]
    await asyncio.sleep(0.01)
    began = slow.clock.now()
    put = asyncio.ensure_future(slow_api.ask("PUT", f"{VM}/config", name="x"))
    start = await slow_api.ok("POST", f"{VM}/status/start")
    clone = await slow_api.ok("POST", CLONE, newid=102)
    ended: dict[str, float] = {}
    while len(ended) < 3:
        await slow.clock.advance(0.1)
        await asyncio.sleep(0.002)
        if put.done():
            ended.setdefault("put", slow.clock.now() - began)
        for name, upid in (("start", start), ("clone", clone)):
            if not slow.tasks.by_upid[upid].running:
                ended.setdefault(name, slow.clock.now() - began)
    text = "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"
    assert (await put).reason == text
    assert (await slow_api.status(start))["exitstatus"] == text
    assert "lock-9000.conf' - got timeout" in (await slow_api.status(clone))["exitstatus"]
    assert abs(ended["put"] - 10) < 1
    assert abs(ended["start"] - 10) < 1
    assert ended["clone"] < 2
    for holder in holders:
        holder.cancel()
    await asyncio.gather(*holders, return_exceptions=True)


async def test_6_22_six_clones_at_once_and_two_to_one_number(sandbox: Sandbox, api: Api) -> None:
    upids = await asyncio.gather(*(api.ok("POST", CLONE, newid=100 + number) for number in range(1, 7)))
    assert {(await api.status(upid))["exitstatus"] for upid in upids} == {"OK"}
    answer = await api.ask("POST", CLONE, newid=101)
    assert (answer.status, answer.reason) == (500, "unable to create VM 101: config file already exists")


async def test_6_2_clone_progress_2_after_the_first_write(slow: Sandbox, slow_api: Api) -> None:
    slow.vms[9000].file.put("tags", "tmpl")
    slow.vms[9000].file.put("net0", "virtio=BC:24:11:00:00:01,bridge=vmbr0")
    await slow_api.ok("POST", CLONE, newid=101, full=1, name="web1", description="d")
    await slow.clock.advance(0.5)
    seen, template = await slow_api.config(101), await slow_api.config(9000)
    assert (seen["description"], seen["name"], seen["tags"], seen["lock"]) == ("d", "web1", "tmpl", "clone")
    assert seen["net0"] != template["net0"]
    assert seen["smbios1"] != template["smbios1"]
    assert "ide2" in seen
    assert "scsi0" not in seen
    assert (await slow_api.pending(101))["lock"]["value"] == "clone"


async def test_6_2_clone_progress_3_how_lists_show_it() -> None:
    async with Sandbox(("pve1",), manual_clock=True, durations=Durations(list_lag=10.0), seed=7) as sandbox:
        sandbox.add_template(9000, cloudinit=False)
        api = Api(sandbox)
        await api.ok("POST", CLONE, newid=101, full=1, name="web1")
        await sandbox.clock.advance(1)
        status = await api.ok("GET", f"{VM}/status/current")
        assert (status["status"], status["lock"], status["name"], status["maxmem"]) == (
            "stopped", "clone", "VM 101", 512 * 2**20
        )  # fmt: skip
        rows = await api.ok("GET", "/cluster/resources", type="vm")
        assert next(row for row in rows if row["vmid"] == 101) == {
            "id": "qemu/101", "node": "pve1", "vmid": 101, "type": "qemu", "lock": "clone", "status": "unknown"
        }  # fmt: skip
        assert (
            next(row for row in await api.ok("GET", "/nodes/pve1/qemu") if row["vmid"] == 101)["lock"]
            == "clone"
        )
        answer = await api.ask("GET", "/cluster/nextid", vmid=101)
        assert (answer.status, answer.errors) == (400, {"vmid": "VM 101 already exists"})
        await api.close()


async def test_6_2_clone_progress_4_what_may_be_written_to_it(slow: Sandbox, slow_api: Api) -> None:
    root = Api(slow, slow.accounts.add_token("root@pam!all", privsep=False))
    await slow_api.ok("POST", CLONE, newid=101, full=1)
    for verb in ("PUT", "POST"):
        answer = await moving(slow, slow_api.ask(verb, f"{VM}/config", name="x"))
        assert answer.reason == "VM is locked (clone)"
    answer = await moving(slow, slow_api.ask("PUT", f"{VM}/config", delete="lock"))
    assert answer.reason == "only root can set 'lock' config"
    for one in (slow_api, root):
        answer = await moving(slow, one.ask("PUT", f"{VM}/config", name="x", skiplock=1))
        assert (answer.status, answer.errors) == (400, {"skiplock": "Only root may use this option."})
    await moving(slow, slow_api.ok("PUT", f"{VM}/firewall/options", enable=1))
    await slow.clock.advance(5)
    upid = await slow_api.ok("POST", f"{VM}/status/shutdown")
    await slow.clock.advance(60)  # it waits for the clone's lock, not in vain
    assert (await slow_api.status(upid))["exitstatus"] == "OK"
    await root.close()


async def test_6_2_clone_progress_6_the_template_is_free_meanwhile(slow: Sandbox, slow_api: Api) -> None:
    await slow_api.ok("POST", CLONE, newid=101, full=1)
    assert (
        await slow_api.ask("POST", CLONE, newid=101)
    ).reason == "unable to create VM 101: config file already exists"
    linked = await slow_api.ok("POST", CLONE, newid=102)
    assert "lock" not in await slow_api.config(9000)
    await slow.clock.advance(3)
    assert (await slow_api.status(linked))["exitstatus"] == "OK"
    # A write to it waits for the clones' shared lock, as the recorded DELETE did; the recorded PUT came after that.
    await slow.clock.advance(60)
    await moving(slow, slow_api.ok("PUT", "/nodes/pve1/qemu/9000/config", tags="free"))


async def test_6_2_clone_progress_8_another_user_may_neither_see_nor_stop_it(
    slow: Sandbox, slow_api: Api
) -> None:
    upid = await slow_api.ok("POST", CLONE, newid=101, full=1)
    other = Api(slow, slow.accounts.add_token("other@pve!x"))
    path = f"/nodes/pve1/tasks/{upid.replace(':', '%3A').replace('@', '%40').replace('!', '%21')}"
    assert (await other.ask("DELETE", path)).reason == "Permission check failed (/nodes/pve1, Sys.Modify)"
    assert (
        await other.ask("GET", f"{path}/status")
    ).reason == "Permission check failed (/nodes/pve1, Sys.Audit)"
    await other.close()


async def test_6_2_clone_progress_10_no_space_leaves_nothing(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_storage("tiny", content=("images",), path="/tiny", total=2**20)
    sandbox.add_template(9001, used=2**22)
    upid = await api.ok("POST", "/nodes/pve1/qemu/9001/clone", newid=101, full=1, storage="tiny")
    exitstatus = (await api.status(upid))["exitstatus"]
    assert exitstatus.startswith("clone failed: copy failed: command ")
    assert exitstatus.endswith("failed: exit code 1")
    assert any("No space left on device" in line for line in await api.log(upid))
    assert 101 not in sandbox.vms
    assert not sandbox.cluster.storages["tiny"].on("pve1")


async def test_6_2_clone_progress_11_names_and_what_is_no_parameter(api: Api) -> None:
    await api.task("POST", CLONE, newid=101)
    template = await api.config(9000)
    assert (await api.config(101))["name"] == f"Copy-of-VM-{template['name']}"
    assert (await api.ask("POST", CLONE, newid=102, tags="a")).status == 400
    await api.task("POST", CLONE, newid=102, description="x" * 8193)
    assert len((await api.config(102))["description"]) == 8193
    assert (await api.ask("PUT", "/nodes/pve1/qemu/102/config", description="x" * 8193)).status == 400


async def test_6_2_clone_progress_12_a_pool(sandbox: Sandbox, wide_api: Api) -> None:
    await wide_api.ok("POST", "/pools", poolid="tenant")
    token = sandbox.accounts.add_token("pooled@pve!x")
    for who in ("pooled@pve", "pooled@pve!x"):
        sandbox.accounts.grant("/pool/tenant", who, "PVEVMAdmin")
    await wide_api.task("POST", CLONE, newid=101, pool="tenant")
    pooled = Api(sandbox, token)
    rows = await pooled.ok("GET", "/cluster/resources", type="vm")
    assert [(row["vmid"], row["pool"]) for row in rows] == [(101, "tenant")]
    assert (await pooled.ask("GET", f"{VM}/config")).status == 200
    await pooled.close()


async def test_6_2_clone_progress_13_a_limit_does_not_slow_an_import(slow: Sandbox, slow_api: Api) -> None:
    volid = slow.add_import("base.qcow2", 64 * 2**20)
    upid = await slow_api.ok(
        "POST", "/nodes/pve1/qemu", vmid=101, scsi0=f"vmstore:0,import-from={volid}", bwlimit=1024
    )
    await slow.clock.advance(2)
    assert (await slow_api.status(upid))["exitstatus"] == "OK"
