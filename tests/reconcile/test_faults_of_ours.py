"""A fault in zone9's own code: it is said on a job, nothing is lost, and it is tried again like any other."""

from typing import Any

import pytest

from world import World
from zone9.products.servers.product import Servers


@pytest.mark.parametrize("where", ["observe", "apply"])
async def test_a_fault_of_our_own_is_said_on_a_job(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    answer = await world.server(networks=[])

    async def broken(*_: Any) -> None:
        raise RuntimeError("a secret in the text of a fault")

    with monkeypatch.context() as patch:
        patch.setattr(Servers, where, broken)
        await world.run(answer.resource)
    job = await world.job(answer.job)
    assert (job["status"], job["error"]["code"]) == ("waiting", "internal_error")
    assert "secret" not in str(job["error"])
    assert (await world.settle(answer.resource))["convergence"] == "applied"


async def test_a_fault_in_a_repair_that_nobody_asked_for_has_a_job_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = await world.server(networks=[])
    found = await world.settle(answer.resource)
    world.sandbox.operator.set(found["facts"]["vmid"], name="renamed-by-hand")

    async def broken(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(Servers, "apply", broken)
        await world.run(answer.resource)
    jobs = await world.all(
        "SELECT actor, status, error FROM jobs WHERE resource = :id ORDER BY id", id=answer.resource
    )
    assert [one["actor"] for one in jobs] == ["tester", "system"]
    assert (jobs[1]["status"], jobs[1]["error"]["code"]) == ("waiting", "internal_error")
    assert (await world.settle(answer.resource))["convergence"] == "applied"
