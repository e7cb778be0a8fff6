"""Real worker processes: killed with signal 9, or stopped and continued. The end is the same, and nothing stale is sent."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from world import World, make_world
from zone9.sandbox import Sandbox

WORKER = Path(__file__).with_name("worker_main.py")
QUICK = ("0.3", "1.0", "0.8")


class Workers:
    """Starts workers and ends every one of them."""

    def __init__(self, url: str, key_file: Path) -> None:
        self._arguments = [url, str(key_file)]
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, pace: tuple[str, str, str] = QUICK) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), *self._arguments, *pace],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": "src"},
        )  # fmt: skip
        self.all.append(worker)
        return worker

    def end(self) -> None:
        for worker in self.all:
            if worker.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    worker.send_signal(signal.SIGCONT)
                worker.kill()
            worker.wait()


@pytest.fixture
async def slow_world(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[World, Workers]]:
    """Yields zone9 over a sandbox whose tasks take a little real time, so that there is something to cut."""
    async with Sandbox(nodes=("pve1", "pve2"), seed=1, time_scale=0.02) as sandbox:
        sandbox.add_template(9000, "pve1")
        key_file = tmp_path / "key"
        world = await make_world(database_url, sandbox, key_file, settle_seconds=1.0)
        workers = Workers(database_url, key_file)
        try:
            yield world, workers
        finally:
            workers.end()
            await world.close()
        assert not sandbox.violations, sandbox.violations


async def until(what: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Waits for something to become true, in the test's own loop."""
    async with asyncio.timeout(seconds):
        while True:
            found = what()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)


async def at_rest(world: World) -> bool:
    rows = await world.all(
        "SELECT 1 FROM resources WHERE kind = 'server' AND phase <> 'deleted' "
        "AND (convergence NOT IN ('applied', 'pending_restart') OR intent_version <> coalesce(applied_version, 0) "
        "AND convergence <> 'pending_restart')"
    )
    return not rows


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_worker_killed_at_fifteen_points_leaves_one_vm_for_each_server(
    slow_world: tuple[World, Workers],
) -> None:
    world, workers = slow_world
    chance = random.Random(9)
    pids = set()
    worker = workers.start()
    pids.add(worker.pid)
    names: list[str] = []
    for number in range(15):
        name = f"k{number}"
        await world.server(name, networks=[])
        names.append(name)
        earlier = chance.choice(names[:-1] or [name])
        deed = chance.choice(["restart", "stop", "start", "memory", "tags"])
        with contextlib.suppress(
            Exception
        ):  # a restart of a server that is off is refused, and that is right
            if deed == "memory":
                await world.change("server", earlier, patch={"memory_mib": chance.choice([256, 768])})
            elif deed == "tags":
                await world.change("server", earlier, patch={"tags": [f"t{number}"]})
            else:
                await world.act(earlier, deed)
        wait_for = len(world.writes()) + chance.randrange(3)
        with contextlib.suppress(TimeoutError):
            await until(lambda least=wait_for: len(world.writes()) > least, 3)
        await asyncio.sleep(chance.random() * 0.05)
        worker.kill()
        worker.wait()
        worker = workers.start()
        assert worker.pid not in pids
        pids.add(worker.pid)
    deleted = await world.delete("server", names[0])
    await until(lambda: at_rest(world), 90)
    await until(lambda: _phase(world, deleted.resource, "deleted"), 30)
    servers = await world.all("SELECT * FROM resources WHERE kind = 'server' AND phase <> 'deleted'")
    assert len(servers) == 14
    for one in servers:
        marked = [vm for vm in world.sandbox.vms.values() if one["id"] in vm.config.get("description", "")]
        whole = [vm for vm in marked if vm.lock is None]
        assert [vm.vmid for vm in whole] == [one["facts"]["vmid"]], one["name"]
        assert one["facts"]["uuid"] in whole[0].config["smbios1"]
        assert (whole[0].running is not None) == (one["spec"]["power"] == "on")
    assert len(pids) == 16


async def _phase(world: World, resource: str, phase: str) -> bool:
    return (await world.row(resource))["phase"] == phase


@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_a_worker_stopped_for_thirty_seconds_and_continued_sends_nothing_stale(
    slow_world: tuple[World, Workers],
) -> None:
    """The real constants: beat 3 s, stalled after 10 s, ends itself after 8 s."""
    world, workers = slow_world
    real = ("3.0", "10.0", "8.0")
    first = workers.start(real)
    answer = await world.server("web1", networks=[])
    await until(lambda: any("/clone" in one for one in world.writes()), 20)
    first.send_signal(signal.SIGSTOP)
    second = workers.start(real)
    began = asyncio.get_running_loop().time()
    await until(lambda: _applied(world, answer.resource), 60)
    edited = await world.change("server", "web1", patch={"tags": ["after"]})
    await until(lambda: _applied(world, edited.resource), 30)
    await asyncio.sleep(max(0.0, 30 - (asyncio.get_running_loop().time() - began)))
    before = world.writes()
    first.send_signal(signal.SIGCONT)
    await until(lambda: first.poll() is not None, 20)
    assert first.returncode != 0
    assert world.writes() == before, "a stale write reached Proxmox"
    assert second.poll() is None
    marked = [vm for vm in world.sandbox.vms.values() if answer.resource in vm.config.get("description", "")]
    assert len(marked) == 1


async def _applied(world: World, resource: str) -> bool:
    found = await world.row(resource)
    return found["convergence"] == "applied" and found["applied_version"] == found["intent_version"]


async def test_an_error_out_of_the_worker_ends_its_process(database_url: str, tmp_path: Path) -> None:
    workers = Workers(database_url.replace("/z9_", "/nosuch_"), tmp_path / "key")
    try:
        worker = workers.start()
        await until(lambda: worker.poll() is not None, 60)
        assert worker.returncode != 0
    finally:
        workers.end()
