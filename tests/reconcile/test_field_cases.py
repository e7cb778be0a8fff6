"""Faults that people reported in public, each a kind that must not happen here (numbered as in the list of cases)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from world import ADMIN, World
from zone9.jobs.engine import Pace


@asynccontextmanager
async def working(world: World) -> AsyncIterator[None]:
    """Runs a worker in this process, with quick clocks."""
    engine = world.zone9.engine(pace=Pace(beat=0.5, stalled=5, sweep=0.05, concurrency=30))
    task = asyncio.create_task(engine.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def applied(world: World, resource: str, *, seconds: float = 60) -> Any:
    async with asyncio.timeout(seconds):
        while True:
            found = await world.row(resource)
            if found["convergence"] == "applied" and found["applied_version"] == found["intent_version"]:
                return found
            await asyncio.sleep(0.02)


def vm_of(world: World, found: Any) -> Any:
    return world.sandbox.vms[found["facts"]["vmid"]]


async def test_b01_a_failed_clone_burns_its_vmid_and_a_delete_of_another_machine_sends_nothing(
    world: World,
) -> None:
    world.sandbox.faults.add("task_error", "POST", "*/clone", text="clone failed: no space", times=1)
    answer = await world.server()
    found = await world.settle(answer.resource)
    assert found["facts"]["vmid"] == 10_001
    burnt = await world.all("SELECT vmid, why FROM vmids WHERE state = 'burnt'")
    assert [one["vmid"] for one in burnt] == [10_000]
    # Somebody deletes it and gives its id to another machine.
    world.sandbox.operator.forget(10_001)
    world.sandbox.operator.create_stranger(10_001, "pve1")
    before = len(world.writes())
    for _ in range(2):
        deleted = await world.delete("server", "web1")
        found = await world.settle(deleted.resource)
        job = await world.job(deleted.job)
        assert (job["status"], job["error"]["code"]) == ("failed", "identity_mismatch")
        async with world.zone9.database.begin() as connection:
            await world.zone9.asking.reconcile(connection, ADMIN, "server", "web1")
    assert world.writes()[before:] == []
    assert 10_001 in world.sandbox.vms


async def test_b03_a_replayed_delete_is_a_no_op_with_proof_of_the_absence(world: World) -> None:
    answer = await world.server()
    made = await world.settle(answer.resource)
    deleted = await world.delete("server", "web1")
    await world.settle(deleted.resource)
    job = await world.job(deleted.job)
    assert job["status"] == "succeeded"
    proofs = await world.all(
        "SELECT step, read_back FROM proofs WHERE resource = :id ORDER BY id", id=answer.resource
    )
    assert proofs[-1]["step"] == "delete"
    assert "does not exist" in proofs[-1]["read_back"]["absent"]
    world.sandbox.operator.create_stranger(made["facts"]["vmid"], "pve1")
    before = len(world.writes())
    await world.run(answer.resource)
    assert world.writes()[before:] == []
    assert await world.job(deleted.job) == job


async def test_b05_fifty_creates_at_once_have_fifty_vmids_and_an_edit_does_not_wait(world: World) -> None:
    world.sandbox.faults.add(
        "task_error",
        "POST",
        "*/clone",
        times=15,
        text="can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout",
    )
    stranger = world.sandbox.operator.create_stranger(10_003, "pve2", name="theirs")
    before = dict(stranger.config)
    answers = [await world.server(f"s{number}", networks=[]) for number in range(50)]
    async with working(world):
        await applied(world, answers[7].resource)
        edited = await world.change("server", "s7", patch={"tags": ["edited"]})
        # Others are still in their back-off; this one waits for none of them.
        await applied(world, edited.resource, seconds=20)
        rows = [await applied(world, one.resource) for one in answers]
    vmids = {one["facts"]["vmid"] for one in rows}
    assert len(vmids) == 50
    assert 10_003 not in vmids
    assert dict(stranger.config) == before
    assert not [one for one in world.writes() if "/qemu/10003" in one]
    assert "edited" in vm_of(world, rows[7]).config["tags"]


async def test_b06_clones_of_one_template_are_two_at_a_time_and_lock_time_outs_are_retried(
    world: World,
) -> None:
    text = "can't lock file '/var/lock/qemu-server/lock-9000.conf' - got timeout"
    world.sandbox.faults.add("task_error", "POST", "*/clone", times=1, text=text)
    answer = await world.server()
    found = await world.settle(answer.resource)
    assert found["convergence"] == "applied"
    failed = await world.all("SELECT exit_text, upid, target FROM writes WHERE outcome = 'failed'")
    assert [one["exit_text"] for one in failed] == [text]
    assert ":qmclone:9000:" in failed[0]["upid"], "the task is filed under the source, and found all the same"
    leases = await world.all("SELECT * FROM leases WHERE name LIKE 'clone:%'")
    assert leases == []


async def test_b08_warnings_are_success_with_a_note(world: World) -> None:
    world.sandbox.faults.add("warnings", "POST", "*/clone", times=1)
    answer = await world.server()
    found = await world.settle(answer.resource)
    job = await world.job(answer.job)
    assert (found["convergence"], job["status"]) == ("applied", "succeeded")
    assert any("WARNINGS: 1" in note for note in job["notes"])


async def test_b10_deleting_a_server_that_never_reached_proxmox_succeeds_at_once(world: World) -> None:
    answer = await world.server()
    await world.sandbox.stop()
    deleted = await world.delete("server", "web1")
    await world.run(answer.resource)
    job = await world.job(deleted.job)
    assert job["status"] == "succeeded"
    assert (await world.row(answer.resource))["phase"] == "deleted"
    network = await world.delete("network", "lan")
    await world.run(network.resource)
    assert (await world.row(network.resource))["phase"] == "deleted"


async def test_b11_a_tag_edit_restarts_nothing_and_memory_waits_for_a_restart(world: World) -> None:
    answer = await world.server()
    await world.settle(answer.resource)
    before = len(world.writes())
    await world.settle((await world.change("server", "web1", patch={"tags": ["a"]})).resource)
    assert [one.rsplit("/", 1)[1] for one in world.writes()[before:]] == ["config"]
    changed = await world.change("server", "web1", patch={"memory_mib": 1024})
    found = await world.settle(answer.resource)
    assert (found["convergence"], found["applied_version"], found["intent_version"]) == (
        "pending_restart",
        2,
        3,
    )
    job = await world.job(changed.job)
    assert (job["status"], job["needs"]) == ("waiting", "restart")
    assert not [one for one in world.writes()[before:] if "/status/" in one]
    # An operator restarts it by hand; the next look sees the running value.
    vmid = found["facts"]["vmid"]
    await world.sandbox.operator.stop(vmid)
    await world.sandbox.operator.start(vmid)
    await world.run(answer.resource)
    found = await world.row(answer.resource)
    assert (found["convergence"], found["applied_version"]) == ("applied", 3)
    assert (await world.job(changed.job))["status"] == "succeeded"


async def test_b16_a_clone_that_is_as_asked_advances(world: World) -> None:
    """The template has the very size that is asked for: nothing is left to configure but its identity."""
    answer = await world.server(networks=[], power="off")
    found = await world.settle(answer.resource)
    assert found["convergence"] == "applied"
    before = len(world.writes())
    again = await world.change("server", "web1", patch={"cores": 1})
    found = await world.settle(again.resource)
    assert (found["applied_version"], found["intent_version"]) == (2, 2)
    assert world.writes()[before:] == []


async def test_a_task_that_says_ok_while_the_read_back_differs_fails_with_the_difference(
    world: World,
) -> None:
    answer = await world.server()
    await world.settle(answer.resource)
    world.sandbox.faults.add("silent_noop", "PUT", "*/config", times=1)
    changed = await world.change("server", "web1", patch={"tags": ["lost"]})
    found = await world.settle(changed.resource)
    job = await world.job(changed.job)
    assert (job["status"], job["error"]["code"]) == ("failed", "read_back_differs")
    assert "tags" in job["error"]["text"]
    assert (found["convergence"], found["applied_version"], found["intent_version"]) == ("failed", 1, 2)
    # Nothing is sent again unasked; a request starts it again.
    await world.run(changed.resource)
    assert (await world.row(changed.resource))["applied_version"] == 1
    asked = await world.change("server", "web1", patch={"tags": ["lost"]})
    assert asked.job != changed.job
    found = await world.settle(changed.resource)
    assert found["applied_version"] == 2


async def test_a_graceful_stop_that_runs_out_of_time_fails_and_never_becomes_a_hard_one(world: World) -> None:
    answer = await world.server()
    made = await world.settle(answer.resource)
    vm_of(world, made).ignores_acpi = True
    asked = await world.act("web1", "shutdown", timeout=5)
    found = await world.settle(answer.resource)
    job = await world.job(asked.job)
    assert (job["status"], found["convergence"]) == ("failed", "failed")
    assert "timeout" in job["error"]["text"] or "time" in job["error"]["text"]
    assert vm_of(world, made).running
    assert not [one for one in world.writes() if one.endswith("/status/stop")]
    await world.settle((await world.act("web1", "stop")).resource)
    assert not vm_of(world, made).running


async def test_a_guest_that_shuts_itself_down_is_started_again_unless_its_intent_accepts_it(
    world: World,
) -> None:
    answer = await world.server()
    made = await world.settle(answer.resource)
    world.sandbox.operator.power_off_inside(made["facts"]["vmid"])
    await world.settle(answer.resource)
    assert vm_of(world, made).running
    await world.settle((await world.change("server", "web1", patch={"guest_shutdown": "accept"})).resource)
    world.sandbox.operator.power_off_inside(made["facts"]["vmid"])
    await world.pass_time(120)
    await world.run(answer.resource)
    found = await world.settle(answer.resource)
    assert found["spec"]["power"] == "off"
    history = await world.all(
        "SELECT actor FROM intent_history WHERE resource = :id ORDER BY version", id=answer.resource
    )
    assert history[-1]["actor"] == "guest"
    assert not vm_of(world, made).running


async def test_keys_that_are_not_ours_survive_every_write(world: World) -> None:
    answer = await world.server(tags=["ours"])
    made = await world.settle(answer.resource)
    vmid = made["facts"]["vmid"]
    world.sandbox.operator.set(
        vmid,
        onboot="1",
        tags="ours;theirs",
        description=vm_of(world, made).config["description"] + "\nkeep me",
    )
    for patch in ({"tags": ["other"]}, {"memory_mib": 2048}):
        await world.settle((await world.change("server", "web1", patch=patch)).resource)
    config = vm_of(world, made).config
    assert config["onboot"] == "1"
    assert config["tags"] == "other;theirs"
    assert "keep me" in config["description"]


async def test_a_locked_vm_is_waited_for(world: World) -> None:
    answer = await world.server()
    made = await world.settle(answer.resource)
    world.sandbox.operator.set_lock(made["facts"]["vmid"], "backup")
    asked = await world.change("server", "web1", patch={"tags": ["later"]})
    before = len(world.writes())
    await world.run(answer.resource)
    assert world.writes()[before:] == []
    job = await world.job(asked.job)
    assert (job["status"], job["error"]["code"]) == ("waiting", "locked")
    world.sandbox.operator.set_lock(made["facts"]["vmid"], None)
    found = await world.settle(answer.resource)
    assert found["applied_version"] == 2


async def test_a_vm_that_is_gone_is_missing_and_never_made_again_unasked(world: World) -> None:
    answer = await world.server()
    made = await world.settle(answer.resource)
    world.sandbox.operator.forget(made["facts"]["vmid"])
    before = len(world.writes())
    await world.run(answer.resource)
    await world.sweep()
    await world.run(answer.resource)
    found = await world.row(answer.resource)
    assert found["health"] == "missing"
    assert world.writes()[before:] == []


async def test_an_edit_of_five_versions_goes_straight_to_the_newest(world: World) -> None:
    answer = await world.server()
    await world.settle(answer.resource)
    answers = [await world.change("server", "web1", patch={"tags": [f"t{n}"]}) for n in range(5)]
    before = len(world.writes())
    found = await world.settle(answer.resource)
    assert found["applied_version"] == 6
    assert len(world.writes()) == before + 1
    jobs = [(await world.job(one.job))["status"] for one in answers]
    assert jobs == ["superseded"] * 4 + ["succeeded"]


async def test_verify_only_reads_and_keeps_the_list(world: World) -> None:
    answer = await world.server()
    await world.settle(answer.resource)
    async with world.zone9.database.begin() as connection:
        asked = await world.zone9.asking.verify(connection, ADMIN, "server", "web1")
        again = await world.zone9.asking.verify(connection, ADMIN, "server", "web1")
    assert asked.job == again.job
    before = len(world.writes())
    await world.zone9.measuring.run(asked.job or "")
    job = await world.job(asked.job)
    assert job["status"] == "succeeded"
    assert len(job["evidence"]["reads"]) >= 4
    assert all(one.startswith("GET ") for one in job["evidence"]["reads"])
    assert world.writes()[before:] == []


async def test_a_lost_restart_is_found_though_the_databases_clock_is_an_hour_ahead_of_the_nodes(
    world: World,
) -> None:
    answer = await world.server(networks=[])
    made = await world.settle(answer.resource)
    await world.pass_time(3600)
    world.sandbox.faults.add("lose_answer", "POST", "*/status/reboot", times=1)
    found = await world.settle((await world.act("web1", "restart")).resource)
    assert (found["convergence"], found["applied_version"]) == ("applied", 2)
    assert vm_of(world, made).starts == 2, "made once, restarted once"


async def test_the_task_of_a_restart_a_moment_ago_does_not_stand_for_the_next_one(world: World) -> None:
    answer = await world.server(networks=[])
    made = await world.settle(answer.resource)
    await world.settle((await world.act("web1", "restart")).resource)
    world.sandbox.faults.add("drop_before", "POST", "*/status/reboot", times=1)
    found = await world.settle((await world.act("web1", "restart")).resource)
    assert found["applied_version"] == 3
    assert vm_of(world, made).starts == 3, "made once, restarted twice"
