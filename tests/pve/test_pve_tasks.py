"""Tasks: their ids, their ends, and finding one whose id was lost."""

from typing import Any

import pytest
from pve_script import Allowed, Script, Series, Whole

from zone9.pve import tasks
from zone9.pve.errors import LockTimeout
from zone9.pve.tasks import TaskResult, Upid

TEXT = "UPID:pve1:000000AE:000731DE:6B0E4C22:qmstart:101:z9@pve!ctl:"
STATUS = f"GET /nodes/pve1/tasks/{TEXT}/status"
LOG = f"GET /nodes/pve1/tasks/{TEXT}/log"
LOCKED = "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"


def upid(number: int, kind: str = "qmclone", vmid: int = 201, user: str = "z9@pve!ctl") -> str:
    return f"UPID:pve1:{number:08X}:000731DE:{0x6B0E0000 + number:08X}:{kind}:{vmid}:{user}:"


def test_an_upid_has_its_parts() -> None:
    task = Upid.parse(TEXT)
    assert (task.node, task.type, task.id, task.user) == ("pve1", "qmstart", "101", "z9@pve!ctl")
    assert (task.pid, task.starttime) == (174, 0x6B0E4C22)


@pytest.mark.parametrize("text", ["", "UPID:pve1:vncproxy:101:", TEXT[:-1], TEXT + "x", "x" + TEXT])
def test_what_is_no_upid(text: str) -> None:
    with pytest.raises(ValueError, match="not a task id"):
        Upid.parse(text)


@pytest.mark.parametrize(
    ("exitstatus", "ok", "warnings", "error"),
    [("OK", True, 0, None), ("WARNINGS: 3", True, 3, None), (LOCKED, False, 0, LockTimeout)],
)
async def test_ends(exitstatus: str, ok: bool, warnings: int, error: type[Exception] | None) -> None:
    log = Whole({"data": [{"n": 1, "t": "a"}, {"n": 2, "t": "TASK ERROR"}], "total": 2})
    script = Script({STATUS: {"status": "stopped", "exitstatus": exitstatus}, LOG: log})
    async with script.client() as client:
        result = await tasks.task_status(client, TEXT)
    assert (result.ok, result.warnings, result.status) == (ok, warnings, "stopped")
    assert result.error is None if error is None else isinstance(result.error, error)
    assert result.log_tail == (() if exitstatus == "OK" else ("a", "TASK ERROR"))


async def test_the_tail_of_a_long_log() -> None:
    def log(form: dict[str, str]) -> Whole:
        start, limit = int(form.get("start", 0)), int(form["limit"])
        lines = [{"n": n + 1, "t": f"line {n + 1}"} for n in range(85)]
        return Whole({"data": lines[start : start + limit], "total": 85})

    script = Script({LOG: log})
    async with script.client() as client:
        assert await tasks.log_tail(client, TEXT, 3) == ("line 83", "line 84", "line 85")


async def test_waiting_backs_off_from_50_ms_to_1_s() -> None:
    slept: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    answers = [{"status": "running"}] * 12 + [{"status": "stopped", "exitstatus": "OK"}]
    script = Script({STATUS: Series(answers)})
    async with script.client() as client:
        result = await tasks.wait(client, TEXT, 60, sleep=sleep, clock=lambda: now)
    assert result.ok
    assert slept[0] == 0.05
    assert slept == sorted(slept)
    assert slept[-1] == 1.0


async def test_running_out_of_time_is_a_result() -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    script = Script({STATUS: {"status": "running"}})
    async with script.client() as client:
        result = await tasks.wait(client, TEXT, 2, sleep=sleep, clock=lambda: now)
    assert result == TaskResult(Upid.parse(TEXT), "running")
    assert (result.ok, result.error, now) == (False, None, 2)


async def test_finding_a_lost_task_looks_at_all_pages_and_all_states() -> None:
    running = {"upid": upid(1200), "status": "RUNNING", "user": "z9@pve!ctl"}
    ended = [
        {"upid": upid(n), "status": "OK", "endtime": 1, "user": "z9@pve", "tokenid": "ctl"}
        for n in range(1100)
    ]
    foreign = {"upid": upid(1300, user="root@pam"), "status": "OK", "endtime": 1, "user": "root@pam"}
    rows: list[dict[str, Any]] = [running, foreign, *ended]

    def page(form: dict[str, str]) -> list[dict[str, Any]]:
        assert (form["source"], form["since"], form["vmid"]) == ("all", "1796095641", "201")
        start = int(form["start"])
        return rows[start : start + int(form["limit"])]

    script = Script({"GET /nodes/pve1/tasks": page})
    async with script.client() as client:
        found = await tasks.find(
            client, "pve1", since=1796095641, typefilter="qmclone", vmid=201, user="z9@pve!ctl"
        )
    assert len(found) == 1101
    assert (found[0].upid.text, found[0].running, found[0].exitstatus) == (upid(1200), True, None)
    assert (found[1].running, found[1].exitstatus) == (False, "OK")
    assert len(script.requests) == 3


async def test_a_task_that_ends_between_two_pages_is_listed_once_as_ended() -> None:
    first = [{"upid": upid(9), "status": "RUNNING"}]
    first += [{"upid": upid(n + 10), "status": "OK", "endtime": 1} for n in range(499)]
    script = Script(
        {"GET /nodes/pve1/tasks": Series([first, [{"upid": upid(9), "status": "OK", "endtime": 2}]])}
    )
    async with script.client() as client:
        found = await tasks.find(client, "pve1", since=0)
    assert len(found) == 500
    assert [(row.running, row.endtime) for row in found if row.upid.text == upid(9)] == [(False, 2)]


async def test_stopping_a_task() -> None:
    script = Script({f"DELETE /nodes/pve1/tasks/{TEXT}": None})
    async with script.client() as client:
        await tasks.stop(client, TEXT, Allowed())
    assert script.requests == [("DELETE", f"/nodes/pve1/tasks/{TEXT}", {})]
