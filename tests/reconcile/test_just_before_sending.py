"""What happens between the look and the send: the fence, the identity and the absence are read again.

Each test acts after the write record is committed and before the bytes leave, where only the permit can notice.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from world import World
from zone9.reconcile.work import FencedPermit, Stale


@pytest.fixture
def just_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Lets something happen, once, when the next write record has been committed."""

    def arm(act: Callable[[], Awaitable[None]]) -> None:
        store = world.zone9.store
        opening = store.open_write

        async def open_then_act(**details: Any) -> Any:
            record = await opening(**details)
            monkeypatch.setattr(store, "open_write", opening)
            await act()
            return record

        monkeypatch.setattr(store, "open_write", open_then_act)

    return arm


Arm = Callable[[Callable[[], Awaitable[None]]], None]


async def made(world: World) -> Any:
    answer = await world.server(networks=[])
    return await world.settle(answer.resource)


async def last_write(world: World) -> Any:
    return (await world.all("SELECT outcome, closed_at FROM writes ORDER BY id DESC LIMIT 1"))[0]


@pytest.mark.parametrize("action", ["stop", "restart", "delete"])
async def test_a_machine_that_became_another_gets_nothing(
    world: World, just_before: Arm, action: str
) -> None:
    found = await made(world)
    vmid, sent = found["facts"]["vmid"], len(world.writes())

    async def swapped() -> None:
        other = "smbios1", "uuid=99999999-9999-4999-8999-999999999999"
        world.sandbox.operator.edit_file(vmid, **dict([other]), description="somebody else's")

    just_before(swapped)
    asked = await (world.delete("server", "web1") if action == "delete" else world.act("web1", action))
    await world.run(found["id"])
    job = await world.job(asked.job)
    assert (job["status"], job["error"]["code"]) == ("waiting", "identity_changed")
    assert len(world.writes()) == sent
    assert (await last_write(world))["closed_at"] is not None, "nothing was sent, and that is known"

    after = await world.settle(found["id"])
    assert (after["convergence"], after["message"]["code"]) == ("failed", "identity_mismatch")
    assert len(world.writes()) == sent
    assert world.sandbox.vms[vmid].running


async def test_a_number_that_was_taken_in_the_meantime_gets_no_clone(world: World, just_before: Arm) -> None:
    answer = await world.server(networks=[])
    strangers: list[int] = []

    async def taken() -> None:
        vmid = (await world.row(answer.resource))["facts"]["vmid"]
        strangers.append(vmid)
        world.sandbox.operator.create_stranger(vmid, "pve1", name="stranger")

    just_before(taken)
    found = await world.settle(answer.resource)
    assert found["convergence"] == "applied"
    assert found["facts"]["vmid"] not in strangers
    assert found["facts"]["burnt"] == strangers
    assert [one.split("/")[-1] for one in world.writes()] == ["clone", "config", "resize", "start"]
    assert world.sandbox.vms[strangers[0]].name == "stranger"


async def test_a_run_that_was_taken_over_sends_nothing(world: World, just_before: Arm) -> None:
    found = await made(world)
    sent = len(world.writes())

    async def taken_over() -> None:
        assert await world.zone9.store.begin(found["id"]) is not None

    just_before(taken_over)
    await world.act("web1", "stop")
    await world.run(found["id"])
    assert len(world.writes()) == sent
    assert (await last_write(world))["outcome"] == "not_sent"
    assert (await world.settle(found["id"]))["convergence"] == "applied"
    assert len(world.writes()) == sent + 1


async def test_a_permit_is_good_for_a_second_after_it_was_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("zone9.reconcile.work.time.monotonic", lambda: clock[0])

    async def slow_look() -> None:
        clock[0] += 0.6

    permit = FencedPermit(slow_look)
    with pytest.raises(Stale):
        permit.still_fresh()
    await permit.confirm()
    permit.still_fresh()
    clock[0] += 0.39
    permit.still_fresh()
    clock[0] += 0.02
    with pytest.raises(Stale):  # the second runs from before the look, not from after it
        permit.still_fresh()
    await permit.confirm()
    permit.still_fresh()


async def test_a_look_that_takes_too_long_sends_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await made(world)
    monkeypatch.setattr("zone9.reconcile.work.FRESH_SECONDS", -1.0)
    sent = len(world.writes())
    asked = await world.act("web1", "stop")
    await world.run(found["id"])
    assert len(world.writes()) == sent
    assert (await world.job(asked.job))["error"]["code"] == "stale_permit"
    assert (await last_write(world))["outcome"] == "not_sent"
