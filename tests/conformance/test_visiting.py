"""A visit leaves a cluster as it was, whatever its tests did; and the conformance runs where it is told to."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from visiting import InUse, LeftBehind, Place, Visit

from zone9.pve import tasks, writes
from zone9.pve.client import Client, Endpoint
from zone9.sandbox import Durations, Sandbox
from zone9.sandbox.serving import SandboxThread

HERE = Path(__file__).parent


@pytest.fixture
async def pve(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with Client(Endpoint((sandbox.url,), sandbox.token, sandbox.fingerprint)) as made:
        yield made


def visit_to(pve: Client) -> Visit:
    return Visit(Place(pve.endpoint, 9000, range(5000, 5012)))


async def clone(pve: Client, visit: Visit, *, description: str | None = None) -> int:
    vmid = visit.take()
    upid = await writes.clone(
        pve,
        visit.permit(pve, vmid),
        node="pve1",
        template=9000,
        newid=vmid,
        name="one",
        description=description or visit.marker(vmid),
    )
    assert upid is not None
    visit.clones[vmid] = upid
    return vmid


async def test_nothing_begins_in_a_range_that_is_in_use(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(5011)
    with pytest.raises(InUse, match="5011 is in use"):
        await visit_to(pve).begin(pve)
    assert {asked.method for asked in sandbox.requests} == {"GET"}
    with pytest.raises(InUse, match="needs 12"):
        await Visit(Place(pve.endpoint, 9000, range(6000, 6011))).begin(pve)
    with pytest.raises(InUse, match="no template 9001"):
        await Visit(Place(pve.endpoint, 9001, range(6000, 6012))).begin(pve)


async def test_everything_of_ours_goes_and_nothing_else(sandbox: Sandbox, pve: Client) -> None:
    visit = visit_to(pve)
    await visit.begin(pve)
    stopped, running, theirs, being_made = [await clone(pve, visit) for _ in range(3)] + [visit.take()]
    await sandbox.operator.start(running)
    sandbox.operator.set(theirs, description="zone9:conformance-5002:anothernonce")
    before = {vmid: vm.file.digest for vmid, vm in sandbox.vms.items()}

    sandbox.faults.add("hold_task", "POST", "*/clone")
    visit.taken.pop()
    assert await clone(pve, visit) == being_made
    with pytest.raises(LeftBehind, match=f"^{theirs}: it is not ours: zone9:conformance-5002:anothernonce$"):
        await visit.end(pve)
    assert stopped not in sandbox.vms
    assert running not in sandbox.vms
    assert {vmid: vm.file.digest for vmid, vm in sandbox.vms.items() if vmid != being_made} == {
        9000: before[9000],
        theirs: before[theirs],
    }
    assert (await tasks.task_status(pve, visit.clones[being_made])).status == "stopped"


async def test_a_clone_whose_answer_was_lost_is_waited_for(sandbox: Sandbox, pve: Client) -> None:
    visit = visit_to(pve)
    visit.patience = 0.5
    await visit.begin(pve)
    sandbox.faults.add("hold_task", "POST", "*/clone")
    vmid = await clone(pve, visit)
    del visit.clones[vmid]
    with pytest.raises(LeftBehind, match=f"^{vmid}: it is not whole, and its task is not known$"):
        await visit.end(pve)
    assert vmid in sandbox.vms
    sandbox.world.tasks.release()
    await visit.end(pve)
    assert vmid not in sandbox.vms


async def test_a_machine_that_changes_hands_is_not_deleted(sandbox: Sandbox, pve: Client) -> None:
    visit = visit_to(pve)
    await visit.begin(pve)
    vmid = await clone(pve, visit)
    permit = visit.permit(pve, vmid)
    sandbox.operator.set(vmid, description="somebody's")
    with pytest.raises(LeftBehind, match="not ours"):
        await writes.delete(pve, permit, node="pve1", vmid=vmid)
    assert vmid in sandbox.vms


@pytest.mark.slow
def test_the_conformance_runs_where_the_environment_says() -> None:
    options = {"nodes": ("alpha", "beta"), "time_scale": 0.1, "durations": Durations(list_lag=10.0)}
    with SandboxThread(**options) as sandbox:
        sandbox.do(lambda: sandbox.add_storage("fast", content=("images",), path="/srv/fast"))
        sandbox.do(lambda: sandbox.add_template(777, "beta", disk="4G", used=4 << 30, storage="fast"))
        sandbox.do(lambda: sandbox.add_vm(1000, "alpha", name="theirs", running=True))
        before = {vmid: vm.file.digest for vmid, vm in sandbox.vms.items()}
        environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key} | {
            "ZONE9_PVE_URL": sandbox.url,
            "ZONE9_PVE_TOKEN": sandbox.token,
            "ZONE9_PVE_FINGERPRINT": sandbox.fingerprint,
            "ZONE9_PVE_TEMPLATE": "777",
            "ZONE9_PVE_VMIDS": "1100-1119",
            "ZONE9_PVE_STORAGE": "fast",
        }
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(HERE / "test_driver.py")]
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=110, check=False
        )
        assert ran.returncode == 0, ran.stdout
        assert {vmid: vm.file.digest for vmid, vm in sandbox.vms.items()} == before
        written = {
            asked.path.split("/")[4]
            for asked in sandbox.requests
            if asked.method != "GET" and "/qemu/" in asked.path
        }
        assert written <= {"777"} | {str(vmid) for vmid in range(1100, 1120)}
        assert "1100" in written
