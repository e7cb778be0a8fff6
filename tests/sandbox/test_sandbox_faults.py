"""Faults, the operator, the control port and the ways to run a sandbox."""

import asyncio
import time
from typing import Any

import aiohttp
import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox, SandboxThread, serve
from zone9.sandbox.faults import NAMED

VM = "/nodes/pve1/qemu/101"
CONFIG = "*/qemu/101/config"


@pytest.fixture(autouse=True)
def _vm(sandbox: Sandbox) -> None:
    sandbox.add_vm(101, name="web1", disk="64M")


@pytest.mark.parametrize("name", sorted(NAMED))
async def test_every_named_fault_answers_and_nothing_is_done(api: Api, sandbox: Sandbox, name: str) -> None:
    status, reason = NAMED[name]
    sandbox.faults.add(name, "PUT", CONFIG, times=1)
    answer = await api.ask("PUT", f"{VM}/config", name="x")
    assert answer.status == status
    assert answer.reason == reason.format(vmid=101, node="pve1")
    assert sandbox.vms[101].config["name"] == "web1"
    assert (await api.ask("PUT", f"{VM}/config", name="x")).status == 200


async def test_after_and_times(api: Api, sandbox: Sandbox) -> None:
    rule = sandbox.faults.add("answer", "GET", "/version", status=503, reason="busy", after=1, times=2)
    statuses = [(await api.ask("GET", "/version")).status for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]
    assert (rule.matches, rule.hits) == (5, 2)


async def test_drop_before_applies_nothing(api: Api, sandbox: Sandbox) -> None:
    sandbox.faults.add("drop_before", "POST", "*/status/start", times=1)
    with pytest.raises(aiohttp.ClientError):
        await api.ask("POST", f"{VM}/status/start")
    assert sandbox.vms[101].running is None
    assert [asked.applied for asked in sandbox.requests] == [False]


async def test_lose_answer_applies_it(api: Api, sandbox: Sandbox) -> None:
    sandbox.faults.add("lose_answer", "POST", "*/clone", times=1)
    with pytest.raises(aiohttp.ClientError):
        await api.ask("POST", "/nodes/pve1/qemu/9000/clone", newid=102)
    assert 102 in sandbox.vms
    (asked,) = sandbox.requests
    assert (asked.applied, asked.answered, asked.body) == (True, False, {"newid": "102"})
    assert asked.upid is not None


async def test_delay_apply_lands_later(slow: Sandbox, slow_api: Api) -> None:
    slow.add_vm(101, name="web1")
    slow.faults.add("delay_apply", "POST", f"{VM}/config", seconds=20, times=1)
    with pytest.raises(aiohttp.ClientError):
        await slow_api.ask("POST", f"{VM}/config", name="late")
    await slow.clock.advance(19)
    assert slow.vms[101].config["name"] == "web1"
    await slow.clock.advance(2)
    assert slow.vms[101].config["name"] == "late"


async def test_hang(slow: Sandbox, slow_api: Api) -> None:
    slow.faults.add("hang", "GET", "/version", seconds=5, times=1)
    asked = asyncio.create_task(slow_api.ask("GET", "/version"))
    await asyncio.sleep(0.05)
    await slow.clock.advance(4)
    assert not asked.done()
    await slow.clock.advance(2)
    assert (await asked).status == 200


async def test_a_task_ends_with_a_given_text(api: Api, sandbox: Sandbox) -> None:
    text = "can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout"
    sandbox.faults.add("task_error", "POST", "*/clone", text=text, times=1)
    assert await api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=102) == text


async def test_a_failed_clone_can_leave_its_config_behind(api: Api, sandbox: Sandbox) -> None:
    sandbox.faults.add("task_error", "POST", "*/clone", text="copy failed", leave=True, times=1)
    exit_text = await api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=102, full=1)
    assert exit_text == "clone failed: copy failed"
    assert sandbox.vms[102].lock == "clone"


async def test_a_task_error_without_leave_does_not_block_the_id(api: Api, sandbox: Sandbox) -> None:
    sandbox.faults.add("task_error", "POST", "*/clone", text="copy failed", times=1)
    await api.task("POST", "/nodes/pve1/qemu/9000/clone", newid=102)
    assert 102 not in sandbox.vms
    sandbox.faults.add("task_error", "POST", "/nodes/pve1/qemu", text="no", times=1)
    await api.task("POST", "/nodes/pve1/qemu", vmid=103)
    assert 103 not in sandbox.vms


async def test_warnings_come_after_the_work(api: Api, sandbox: Sandbox) -> None:
    sandbox.faults.add("warnings", "POST", "*/status/start", times=1)
    assert await api.task("POST", f"{VM}/status/start") == "WARNINGS: 1"
    assert sandbox.vms[101].running


async def test_silent_noop(api: Api, sandbox: Sandbox) -> None:
    sandbox.faults.add("silent_noop", "*", "*/qemu/101/*", times=2)
    assert await api.task("POST", f"{VM}/status/start") == "OK"
    assert await api.ok("PUT", f"{VM}/config", name="x") is None
    assert sandbox.vms[101].running is None
    assert sandbox.vms[101].config["name"] == "web1"


async def test_a_held_task_runs_until_it_is_released(api: Api, sandbox: Sandbox) -> None:
    sandbox.faults.add("hold_task", "POST", "*/status/start", times=1)
    upid = await api.ok("POST", f"{VM}/status/start")
    assert (await api.status(upid))["status"] == "running"
    assert sandbox.tasks.release(upid) == 1
    await sandbox.tasks.by_upid[upid].done.wait()
    assert (await api.status(upid))["exitstatus"] == "OK"


async def test_an_unknown_fault_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="unknown kind of fault"):
        sandbox.faults.add("nonsense")
    with pytest.raises(ValueError, match="unknown detail"):
        sandbox.faults.add("hang", secs=3)


async def test_a_start_that_fails(api: Api, sandbox: Sandbox) -> None:
    sandbox.vms[101].start_error = "start failed: QEMU exited with code 1"
    assert await api.task("POST", f"{VM}/status/start") == "start failed: QEMU exited with code 1"


async def test_the_operator_acts_as_root(api: Api, sandbox: Sandbox) -> None:
    sandbox.operator.set(101, cores=4, tags="B;a")
    config = await api.config(101)
    assert (config["cores"], config["tags"]) == (4, "a;b")
    (newest, *_) = await api.ok("GET", "/cluster/log")
    assert (newest["user"], newest["msg"]) == ("root@pam", "update VM 101: -cores 4 -tags B;a")
    await sandbox.operator.start(101)
    sandbox.operator.set(101, cores=2)
    assert (await api.pending(101))["cores"]["pending"] == 2
    await sandbox.operator.stop(101)
    await sandbox.operator.migrate(101, "pve2")
    await sandbox.operator.delete(101)
    sandbox.operator.create_stranger(555, "pve2", name="stranger")
    rows = await api.ok("GET", "/cluster/tasks")
    assert {(row["type"], row["user"]) for row in rows} == {
        (kind, "root@pam") for kind in ("qmstart", "qmstop", "qmigrate", "qmdestroy", "qmcreate")
    }
    assert (await api.config(555, "pve2"))["name"] == "stranger"


async def test_an_edit_of_the_file_leaves_no_row_but_a_new_digest(api: Api, sandbox: Sandbox) -> None:
    before = await api.config(101)
    sandbox.operator.edit_file(101, cores=8)
    after = await api.config(101)
    assert (after["cores"], after["digest"] != before["digest"]) == (8, True)
    assert await api.ok("GET", "/cluster/log") == []


class Control:
    """Asks the control port."""

    def __init__(self, sandbox: Sandbox, session: aiohttp.ClientSession) -> None:
        self._url, self._session = sandbox.control_url, session

    async def ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        async with self._session.request(method, self._url + path, json=document) as response:
            return response.status, await response.json()


async def test_the_control_port(api: Api, sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession() as session:
        control = Control(sandbox, session)
        await api.ok(
            "PUT", f"{VM}/config", smbios1="uuid=11111111-2222-3333-4444-555555555555", description="d"
        )
        await api.task("POST", f"{VM}/status/start")
        _, truth = await control.ask("GET", "/vms/101")
        assert truth["uuid"] == "11111111-2222-3333-4444-555555555555"
        assert (truth["status"], truth["description"], truth["starts"]) == ("running", "d", 1)
        status, rows = await control.ask("GET", "/vms")
        assert (status, {row["vmid"] for row in rows}) == (200, {101, 9000})
        assert (
            await control.ask("POST", "/faults", {"name": "denied", "method": "GET", "path": "/version"})
        )[0] == 200
        assert (await api.ask("GET", "/version")).status == 403
        assert (await control.ask("DELETE", "/faults"))[0] == 200
        assert (await api.ask("GET", "/version")).status == 200
        await control.ask("POST", "/vms/101/kill")
        assert (await control.ask("GET", "/vms/101"))[1]["status"] == "stopped"
        await control.ask("POST", "/operator/set", {"vmid": 101, "cores": 3})
        assert (await control.ask("GET", "/vms/101"))[1]["config"]["cores"] == "3"
        _, requests = await control.ask("GET", "/requests")
        assert requests[0]["body"]["description"] == "d"
        assert requests[0]["user"] == "zone9@pve!ctl"
        assert (await control.ask("GET", "/violations"))[1] == []


@pytest.mark.parametrize(
    ("method", "path", "document", "status"),
    [
        ("GET", "/vms/999", None, 400),
        ("GET", "/vms/x", None, 400),
        ("POST", "/faults", {"kind": "nonsense"}, 400),
        ("POST", "/faults", {}, 400),
        ("POST", "/faults", ["x"], 400),
        ("POST", "/operator/nonsense", {"vmid": 101}, 400),
        ("POST", "/operator/set", {}, 400),
        ("POST", "/operator/start", {"vmid": 101, "nonsense": 1}, 400),
        ("POST", "/clock/advance", {}, 400),
        ("GET", "/nonsense", None, 404),
    ],
)
async def test_bad_control_input(
    sandbox: Sandbox, method: str, path: str, document: Any, status: int
) -> None:
    async with aiohttp.ClientSession() as session:
        answer = await Control(sandbox, session).ask(method, path, document)
    assert answer[0] == status
    assert "error" in answer[1]


async def test_the_control_port_moves_a_manual_clock(slow: Sandbox) -> None:
    async with aiohttp.ClientSession() as session:
        before = slow.clock.now()
        await Control(slow, session).ask("POST", "/clock/advance", {"seconds": 60})
        assert slow.clock.now() == before + 60


async def test_time_scale() -> None:
    async with Sandbox(("pve1",), time_scale=0.05) as sandbox:
        sandbox.add_template(9000)
        api = Api(sandbox)
        began = time.perf_counter()
        upid = await api.ok("POST", "/nodes/pve1/qemu/9000/clone", newid=101)
        assert (await api.status(upid))["status"] == "running"
        await sandbox.tasks.by_upid[upid].done.wait()
        status = await api.status(upid)
        assert status["exitstatus"] == "OK"
        assert time.perf_counter() - began < 2
        await api.close()


def test_a_sandbox_in_a_thread_of_its_own() -> None:
    with SandboxThread(nodes=("pve1",)) as thread:
        thread.do(lambda: thread.sandbox.add_template(9000))
        assert thread.url.startswith("https://127.0.0.1:")

        async def ask() -> Any:
            api = Api(thread.sandbox)
            try:
                return await api.ok("GET", "/cluster/nextid")
            finally:
                await api.close()

        assert asyncio.run(ask()) == "100"
        assert len(thread.requests) == 1


async def test_serve_runs_until_it_is_cancelled() -> None:
    ready: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve(ready=ready.set_result, nodes=("pve1",)))
    sandbox = await ready
    assert sandbox.url.startswith("https://127.0.0.1:")
    assert sandbox.control_url.startswith("http://127.0.0.1:")
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
