"""Lists: what /cluster/resources knows and when, tasks and their filters, the log, storage content."""

import time
from typing import Any

from sandbox_api import Api

from zone9.sandbox import Durations, Sandbox


def row(rows: list[dict[str, Any]], vmid: int) -> dict[str, Any] | None:
    return next((row for row in rows if row.get("vmid") == vmid), None)


async def test_6_24_a_new_vm_has_no_name_until_pvestatd_has_been_round() -> None:
    async with Sandbox(("pve1",), manual_clock=True, durations=Durations(list_lag=10.0)) as sandbox:
        api = Api(sandbox)
        await api.ok("POST", "/nodes/pve1/qemu", vmid=101, name="web1", tags="a")
        await sandbox.clock.advance(1)
        found = row(await api.ok("GET", "/cluster/resources", type="vm"), 101)
        assert found == {
            "id": "qemu/101", "node": "pve1", "type": "qemu", "vmid": 101, "tags": "a", "status": "unknown"
        }  # fmt: skip
        assert (row(await api.ok("GET", "/nodes/pve1/qemu"), 101) or {})["name"] == "web1"
        await sandbox.clock.advance(10)
        assert (row(await api.ok("GET", "/cluster/resources", type="vm"), 101) or {})["name"] == "web1"
        await api.close()


async def test_rows_can_lag_altogether() -> None:
    async with Sandbox(("pve1",), manual_clock=True, durations=Durations(row_lag=5.0)) as sandbox:
        api = Api(sandbox)
        await api.ok("POST", "/nodes/pve1/qemu", vmid=101, name="web1")
        await sandbox.clock.advance(2)
        assert row(await api.ok("GET", "/cluster/resources"), 101) is None
        assert (await api.config(101))["name"] == "web1"
        await sandbox.clock.advance(4)
        assert row(await api.ok("GET", "/cluster/resources"), 101) is not None
        await api.close()


async def test_an_offline_node_answers_595_and_its_vms_are_unknown(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101, "pve2", name="web1")
    sandbox.set_node_online("pve2", False)
    answer = await api.ask("GET", "/nodes/pve2/qemu/101/config")
    assert (answer.status, answer.reason) == (595, "No route to host")
    found = row(await api.ok("GET", "/cluster/resources", type="vm"), 101) or {}
    assert (found["status"], "name" in found) == ("unknown", False)
    nodes = {n["name"]: n["online"] for n in await api.ok("GET", "/cluster/status") if n["type"] == "node"}
    assert nodes == {"pve1": 1, "pve2": 0}
    sandbox.set_node_online("pve2", True)
    assert (await api.config(101, "pve2"))["name"] == "web1"


async def test_without_quorum_nothing_is_written(sandbox: Sandbox, api: Api) -> None:
    sandbox.set_quorate(False)
    for path, params in (
        ("/nodes/pve1/qemu", {"vmid": 101}),
        ("/nodes/pve1/qemu/9000/clone", {"newid": 101}),
    ):
        answer = await api.ask("POST", path, **params)
        assert (answer.status, answer.reason) == (500, "cluster not ready - no quorum?")
    assert 101 not in sandbox.vms
    assert (await api.ok("GET", "/cluster/status"))[0]["quorate"] == 0


async def test_without_quorum_a_config_is_not_written_either(sandbox: Sandbox, api: Api) -> None:
    sandbox.add_vm(101, name="web1")
    sandbox.set_quorate(False)
    answer = await api.ask("PUT", "/nodes/pve1/qemu/101/config", name="x")
    assert answer.status == 500
    assert answer.reason.startswith("unable to open file '/etc/pve/nodes/pve1/qemu-server/101.conf.tmp")
    assert await api.task("POST", "/nodes/pve1/qemu/101/status/start") == "cluster not ready - no quorum?"
    assert sandbox.vms[101].config["name"] == "web1"


async def test_nextid(api: Api, sandbox: Sandbox) -> None:
    assert await api.ok("GET", "/cluster/nextid") == "100"
    taken = await api.ask("GET", "/cluster/nextid", vmid=9000)
    assert (taken.status, taken.errors) == (400, {"vmid": "VM 9000 already exists"})


async def test_an_unknown_type_is_400(api: Api) -> None:
    answer = await api.ask("GET", "/cluster/resources", type="bogus")
    assert answer.errors == {
        "type": "value 'bogus' does not have a value in the enumeration 'vm, storage, node, sdn'"
    }


async def test_6_26_task_filters(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_vm(101)
    await api.task("POST", "/nodes/pve1/qemu/101/status/start")
    await api.task("POST", "/nodes/pve1/qemu/101/status/start")
    await api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=102)

    async def kinds(**params: Any) -> list[tuple[str, str]]:
        rows = await api.ok("GET", "/nodes/pve1/tasks", **params)
        return [(row["type"], row["status"]) for row in rows]

    assert await kinds(vmid=101) == [("qmstart", "VM 101 already running"), ("qmstart", "OK")]
    assert await kinds(errors=1) == [("qmstart", "VM 101 already running")]
    assert await kinds(statusfilter="error") == [("qmstart", "VM 101 already running")]
    assert await kinds(typefilter="qmclone") == [("qmclone", "OK")]
    assert await kinds(since=int(sandbox.clock.now()) + 5) == []
    assert len(await kinds(limit=2)) == 2
    assert await kinds(userfilter="nobody") == []


async def test_6_2_clone_progress_7_running_tasks_only_when_asked_for(slow: Sandbox, slow_api: Api) -> None:
    upid = await slow_api.ok("POST", "/nodes/pve1/qemu/9000/clone", newid=101, full=1)
    assert await slow_api.ok("GET", "/nodes/pve1/tasks") == []
    (running,) = await slow_api.ok("GET", "/nodes/pve1/tasks", source="active")
    assert (running["status"], running["user"], running["id"]) == ("RUNNING", "zone9@pve!ctl", "9000")
    (shown,) = await slow_api.ok("GET", "/cluster/tasks")
    assert "status" not in shown
    assert "endtime" not in shown
    assert (await slow_api.status(upid))["status"] == "running"


async def test_6_2_clone_progress_7_a_log_answers_fifty_lines(slow: Sandbox, slow_api: Api) -> None:
    template = slow.add_template(9001, disk="300M", used=300 * 2**20)
    upid = await slow_api.ok("POST", f"/nodes/pve1/qemu/{template.vmid}/clone", newid=101, full=1)
    await slow.clock.advance(10)
    assert len(await slow_api.log(upid)) == 50
    assert len(await slow_api.log(upid, limit=0)) == 85
    assert await slow_api.log(upid, start=0, limit=1) == ["creating a clone of VM 9001 with ID 101"]


async def test_6_20_content_of_a_vm_has_the_imports_too(api: Api, sandbox: Sandbox) -> None:
    sandbox.add_import("base.qcow2", 2**20)
    rows = await api.ok("GET", "/nodes/pve1/storage/vmstore/content", vmid=9000)
    assert {row["content"] for row in rows} == {"images", "import"}
    absent = await api.ask("GET", "/nodes/pve1/storage/vmstore/content/vmstore%3A1%2Fx.qcow2")
    assert absent.reason == "volume_size_info on 'vmstore:1/x.qcow2' failed - no format"


async def test_6_2_scale_1_gzip(sandbox: Sandbox, api: Api) -> None:
    for vmid in range(200, 260):
        sandbox.add_vm(vmid)
    zipped = await api.ask("GET", "/cluster/resources", headers={"Accept-Encoding": "gzip"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    assert (
        "Content-Encoding"
        not in (await api.ask("GET", "/version", headers={"Accept-Encoding": "gzip"})).headers
    )


async def test_a_method_that_is_not_modelled_is_501_and_a_violation(api: Api, sandbox: Sandbox) -> None:
    answer = await api.ask("GET", "/nodes/pve1/journal")
    assert answer.status == 501
    assert "not modelled by the sandbox" in answer.reason
    assert len(sandbox.violations) == 1


async def test_ten_thousand_vms(sandbox: Sandbox, api: Api) -> None:
    began = time.perf_counter()
    for vmid in range(10_000, 20_000):
        sandbox.add_vm(vmid, "pve2", name=f"vm{vmid}")
    loaded = time.perf_counter() - began
    assert len(await api.ok("GET", "/cluster/resources", type="vm")) == 10_001
    began = time.perf_counter()
    for _ in range(50):
        await api.config(19_999, "pve2")
    assert loaded < 5
    assert time.perf_counter() - began < 5
