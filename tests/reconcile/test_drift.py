"""Drift: what others changed is named, with who and when; hot fields are set back, and what comes back is let be."""

from collections.abc import Mapping
from typing import Any

import pytest

from world import ADMIN, World


async def made(world: World, **spec: Any) -> tuple[str, int]:
    answer = await world.server(**{"networks": [], **spec})
    found = await world.settle(answer.resource)
    await world.sweep()
    await world.sweep()
    return answer.resource, int(found["facts"]["vmid"])


async def drifts(world: World) -> list[Mapping[str, Any]]:
    return await world.all("SELECT * FROM drifts ORDER BY id")


async def reconcile(world: World) -> None:
    async with world.zone9.database.begin() as connection:
        await world.zone9.asking.reconcile(connection, ADMIN, "server", "web1")


async def test_a_hot_field_is_set_back_and_the_record_says_who_changed_it(world: World) -> None:
    server, vmid = await made(world, tags=["web"])
    world.sandbox.operator.set(vmid, tags="theirs", name="renamed", user="ayse@pve")
    assert await world.sweep() == {server}
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok")
    assert world.sandbox.vms[vmid].file.values["name"] == "web1"
    assert set(world.sandbox.vms[vmid].file.values["tags"].split(";")) == {"web", "theirs"}, "theirs stays"
    written = {one["field"]: one for one in await drifts(world)}
    assert set(written) == {"name", "tags"}
    name = written["name"]
    assert (name["asked"], name["applied"], name["read"]) == ("web1", "web1", "renamed")
    assert (name["who"], name["what"], name["ending"]) == ("ayse@pve", "update: name", "set_back") or name[
        "what"
    ].startswith("update: ")
    assert name["who"] == "ayse@pve"
    assert name["acted_at"] is not None
    assert {one["ending"] for one in written.values()} == {"set_back"}


async def test_while_it_is_not_set_back_yet_the_resource_says_drifted_and_by_whom(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.set(vmid, name="renamed", user="ayse@pve")
    world.sandbox.operator.set_lock(vmid, "backup")
    await world.sweep()
    await world.run(server)
    assert (await drifts(world)) == [], "nothing is compared while it is locked"
    world.sandbox.operator.set_lock(vmid, None)
    async with world.zone9.database.begin() as connection:
        asked = await world.zone9.asking.verify(connection, ADMIN, "server", "web1")
    await world.zone9.measuring.run(asked.job or "")
    found = await world.row(server)
    assert (found["convergence"], found["health"]) == ("applying", "drifted")
    assert found["message"]["code"] == "drifted"
    assert found["message"]["words"]["who"].startswith("ayse@pve (")
    [diff] = found["diffs"]
    assert (diff["field"], diff["applied"], diff["read"], diff["drift"], diff["who"]) == (
        "name", "web1", "renamed", True, "ayse@pve",
    )  # fmt: skip


async def test_drift_that_needs_a_restart_is_written_and_waits_for_one(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.set(vmid, cores=2, user="ayse@pve")
    await world.sweep()
    found = await world.settle(server)
    assert found["convergence"] in {"applied", "pending_restart"}
    [one] = await drifts(world)
    assert (one["field"], one["who"], one["class"]) == ("cores", "ayse@pve", "pending_restart")
    assert not [line for line in world.writes() if "reboot" in line]


async def test_a_stop_by_an_operator_is_named_and_undone(world: World) -> None:
    server, vmid = await made(world)
    await world.sandbox.operator.stop(vmid, user="ayse@pve")
    assert server in await world.sweep()
    found = await world.settle(server)
    assert found["convergence"] == "applied"
    assert world.sandbox.vms[vmid].running
    [one] = await drifts(world)
    assert (one["field"], one["who"], one["what"], one["ending"]) == (
        "power",
        "ayse@pve",
        "qmstop",
        "set_back",
    )


async def test_drift_by_an_edit_of_the_file_has_nobodys_name(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.edit_file(vmid, name="renamed")
    assert server in await world.sweep()
    await world.settle(server)
    [one] = await drifts(world)
    assert (one["field"], one["who"], one["ending"]) == ("name", None, "set_back")


async def test_a_name_that_comes_late_is_still_written_beside_it(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.set(vmid, name="renamed", user="ayse@pve")
    await world.settle(server)
    [one] = await drifts(world)
    assert (one["who"], one["ending"]) == (None, "set_back")
    await world.sweep()
    [one] = await drifts(world)
    assert one["who"] == "ayse@pve"
    world.sandbox.operator.edit_file(vmid, name="again")
    await world.sweep()
    await world.settle(server)
    assert (await drifts(world))[-1]["who"] is None, "an act explains one drift, not the next"


async def test_drift_that_is_fixed_by_hand_closes_by_itself(world: World) -> None:
    server, vmid = await made(world, power="off")
    world.sandbox.operator.set(vmid, name="renamed", user="ayse@pve")
    await world.sweep()
    world.sandbox.faults.add("lock_timeout", "PUT", "*/config")
    await world.run(server)
    [one] = await drifts(world)
    assert one["closed_at"] is None
    world.sandbox.operator.set(vmid, name="web1", user="ayse@pve")
    before = len(world.writes())
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok")
    assert world.writes()[before:] == []
    [one] = await drifts(world)
    assert one["ending"] == "by_itself"


async def test_a_field_that_is_changed_again_and_again_is_let_be_and_the_other_is_named(world: World) -> None:
    server, vmid = await made(world)
    for number in range(3):
        world.sandbox.operator.set(vmid, name=f"other{number}", user="ansible@pve")
        await world.sweep()
        assert (await world.settle(server))["convergence"] == "applied"
    world.sandbox.operator.set(vmid, name="other", user="ansible@pve")
    await world.sweep()
    before = len(world.writes())
    await world.run(server)
    found = await world.row(server)
    assert found["health"] == "oscillating"
    assert "ansible@pve" in found["message"]["words"]["who"]
    assert world.writes()[before:] == []
    await world.run(server)
    assert world.writes()[before:] == [], "and it stays stopped"
    await reconcile(world)
    assert (await world.settle(server))["convergence"] == "applied"
    assert world.sandbox.vms[vmid].file.values["name"] == "web1"


async def test_three_times_within_an_hour_and_not_within_a_day(world: World) -> None:
    server, vmid = await made(world)
    for number in range(5):
        world.sandbox.operator.set(vmid, name=f"other{number}")
        await world.sweep()
        assert (await world.settle(server))["convergence"] == "applied"
        await world.pass_time(1801)


async def test_another_value_that_is_asked_for_ends_an_oscillation(world: World) -> None:
    server, vmid = await made(world)
    for number in range(4):
        world.sandbox.operator.set(vmid, name=f"other{number}")
        await world.sweep()
        await world.run(server)
    assert (await world.row(server))["health"] == "oscillating"
    await world.change("server", "web1", name="web2")
    found = await world.settle(server)
    assert (found["convergence"], found["health"]) == ("applied", "ok")
    assert world.sandbox.vms[vmid].file.values["name"] == "web2"
    assert (await drifts(world))[-1]["ending"] == "asked"


async def test_a_move_to_another_node_is_followed_and_no_drift(world: World) -> None:
    server, vmid = await made(world)
    other = next(name for name in world.sandbox.world.cluster.nodes if name != world.sandbox.vms[vmid].node)
    await world.sandbox.operator.migrate(vmid, other)
    before = len(world.writes())
    assert server in await world.sweep()
    found = await world.settle(server)
    assert (found["convergence"], found["health"], found["facts"]["node"]) == ("applied", "ok", other)
    assert world.writes()[before:] == []
    assert await drifts(world) == []


async def test_a_change_of_ours_is_no_drift(world: World) -> None:
    server, _vmid = await made(world)
    await world.change("server", "web1", name="web2", patch={"tags": ["a"], "power": "off"})
    await world.settle(server)
    await world.sweep()
    await world.run(server)
    assert await drifts(world) == []


async def test_an_edit_while_a_new_version_is_on_its_way_is_named_too(world: World) -> None:
    server, vmid = await made(world)
    world.sandbox.operator.set(vmid, name="renamed", user="ayse@pve")
    await world.change("server", "web1", patch={"tags": ["a"]})
    await world.sweep()
    await world.settle(server)
    [one] = await drifts(world)
    assert (one["field"], one["who"], one["intent_version"], one["ending"]) == (
        "name",
        "ayse@pve",
        2,
        "set_back",
    )


async def test_applied_at_moves_when_something_was_applied_and_not_when_it_was_looked_at(
    world: World,
) -> None:
    """Field case B30: the time of the last activation moved although nothing had changed."""
    server, vmid = await made(world)
    first = await world.row(server)
    await world.pass_time(300)
    await world.run(server)
    second = await world.row(server)
    assert second["applied_at"] == first["applied_at"]
    assert second["measured_at"] > first["measured_at"]
    world.sandbox.operator.set(vmid, name="renamed")
    await world.settle(server)
    assert (await world.row(server))["applied_at"] == first["applied_at"], "the version was applied once"
    await world.change("server", "web1", patch={"tags": ["a"]})
    assert (await world.settle(server))["applied_at"] > first["applied_at"]


async def test_a_fault_that_was_fixed_behind_its_back_turns_green_by_measuring_alone(world: World) -> None:
    """Field case B48: stale counts stayed on the page until somebody wrote something."""
    server, vmid = await made(world)
    world.sandbox.faults.add("lock_timeout", "PUT", "*/config")
    world.sandbox.operator.set(vmid, name="renamed")
    await world.run(server)
    assert (await world.row(server))["health"] != "ok"
    world.sandbox.operator.set(vmid, name="web1")
    async with world.zone9.database.begin() as connection:
        asked = await world.zone9.asking.verify(connection, ADMIN, "server", "web1")
    before = len(world.sandbox.requests)
    await world.zone9.measuring.run(asked.job or "")
    found = await world.row(server)
    assert (found["convergence"], found["health"], found["diffs"]) == ("applied", "ok", [])
    assert {one.method for one in list(world.sandbox.requests)[before:]} == {"GET"}
    reads = (await world.job(asked.job))["evidence"]["reads"]
    assert reads
    assert all(line.startswith("GET ") for line in reads)


@pytest.mark.parametrize("again", [1, 3])
async def test_a_drift_is_written_down_once_however_often_it_is_seen(world: World, again: int) -> None:
    server, vmid = await made(world)
    world.sandbox.faults.add("lock_timeout", "PUT", "*/config")
    world.sandbox.operator.set(vmid, name="renamed", user="ayse@pve")
    await world.sweep()
    for _ in range(again):
        await world.run(server)
    assert len(await drifts(world)) == 1
