"""Composite products: a parent asks for children by its plan alone, and is done only when each is applied for its version."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from world import ADMIN, World
from zone9.base.errors import Refused
from zone9.model.facts import Intent
from zone9.model.plans import Child, Plan, Step
from zone9.model.ports import Look, Resolved, Work
from zone9.model.states import Phase


class PairSpec(BaseModel):
    """Is how many servers a pair has."""

    count: int = 2
    tag: str = "pair"


class Pairs:
    """Is a product whose whole truth is its children's."""

    kind, prefix, collection, is_global, outside, budget_seconds = "pair", "par", "pairs", False, True, 60.0
    spec_model = PairSpec
    actions: Mapping[str, Any] = {}

    def problems(self, before: Any, after: Any) -> tuple[()]:
        return ()

    async def resolve(self, name: str, spec: Any, before: Intent | None, look: Look) -> Resolved:
        return Resolved()

    def truth_of(self, observed: Any) -> None:
        return None

    async def observe(self, intent: Intent, work: Work) -> None:
        return None

    def plan(self, intent: Intent, truth: None) -> Plan:
        if intent.phase is Phase.DELETING:
            return Plan(gone=True)
        base = {
            "region": "r1",
            "plan": "small",
            "image": "tiny",
            "networks": [],
            "tags": [intent.spec["tag"]],
        }
        return Plan(
            children=tuple(Child("server", f"n{number}", base) for number in range(intent.spec["count"]))
        )

    async def apply(self, step: Step, intent: Intent, truth: None, work: Work) -> None:
        raise AssertionError("a pair has no steps")

    def as_observed(self, truth: None) -> dict[str, Any]:
        return {}

    def proof_of(self, truth: None) -> tuple[dict[str, Any], None]:
        return {}, None

    def witness(self, intent: Intent) -> str:
        return "its parts"


@pytest.fixture
def pairs(world: World) -> World:
    world.zone9.products["pair"] = Pairs()
    return world


async def children(world: World, parent: str) -> list[Any]:
    return await world.all(
        "SELECT * FROM resources WHERE owner = :id AND phase <> 'deleted' ORDER BY owner_key", id=parent
    )


async def settle_parts(world: World, parent: str) -> None:
    for one in await world.all("SELECT id FROM resources WHERE owner = :id", id=parent):
        if (await world.row(one["id"]))["phase"] != "deleted":
            await world.settle(one["id"])


async def test_a_parent_is_applied_only_when_each_child_is(pairs: World) -> None:
    answer = await pairs.create("pair", "p", {})
    await pairs.run(answer.resource)
    made = await children(pairs, answer.resource)
    assert [one["name"] for one in made] == ["p-n0", "p-n1"]
    assert {one["owner_version"] for one in made} == {1}
    found = await pairs.row(answer.resource)
    assert (found["convergence"], found["applied_version"]) == ("applying", None)
    await pairs.settle(made[0]["id"])
    await pairs.run(answer.resource)
    assert (await pairs.row(answer.resource))["applied_version"] is None
    await pairs.settle(made[1]["id"])
    queued = await pairs.all(
        "SELECT lock FROM procrastinate_jobs WHERE lock = :lock", lock=f"resource:{answer.resource}"
    )
    assert queued, "a child's end wakes its parent"
    await pairs.run(answer.resource)
    found = await pairs.row(answer.resource)
    assert (found["convergence"], found["applied_version"]) == ("applied", 1)
    assert (await pairs.job(answer.job))["status"] == "succeeded"


async def test_children_are_made_once_however_often_the_parent_runs(pairs: World) -> None:
    answer = await pairs.create("pair", "p", {})
    for _ in range(4):
        await pairs.run(answer.resource)
    assert len(await children(pairs, answer.resource)) == 2


async def test_a_new_version_changes_adds_and_removes_children(pairs: World) -> None:
    answer = await pairs.create("pair", "p", {})
    await pairs.run(answer.resource)
    await settle_parts(pairs, answer.resource)
    await pairs.run(answer.resource)
    await pairs.change("pair", "p", patch={"count": 1, "tag": "other"})
    await pairs.run(answer.resource)
    found = await pairs.row(answer.resource)
    assert (found["applied_version"], found["convergence"]) == (1, "applying")
    await settle_parts(pairs, answer.resource)
    await pairs.run(answer.resource)
    found = await pairs.row(answer.resource)
    assert (found["applied_version"], found["convergence"]) == (2, "applied")
    left = await children(pairs, answer.resource)
    assert [one["owner_key"] for one in left] == ["n0"]
    assert left[0]["spec"]["tags"] == ["other"]


async def test_a_deletion_takes_the_children_first(pairs: World) -> None:
    answer = await pairs.create("pair", "p", {})
    await pairs.run(answer.resource)
    await settle_parts(pairs, answer.resource)
    deleted = await pairs.delete("pair", "p")
    await pairs.run(answer.resource)
    assert (await pairs.row(answer.resource))["phase"] == "deleting"
    await settle_parts(pairs, answer.resource)
    await pairs.run(answer.resource)
    assert (await pairs.row(answer.resource))["phase"] == "deleted"
    assert (await pairs.job(deleted.job))["status"] == "succeeded"
    assert not [vm for vm in pairs.sandbox.vms.values() if vm.vmid >= 10_000]


async def test_a_child_is_read_only_for_everybody_else(pairs: World) -> None:
    answer = await pairs.create("pair", "p", {})
    await pairs.run(answer.resource)

    async def change() -> None:
        async with pairs.zone9.database.begin() as connection:
            await pairs.zone9.asking.change(connection, ADMIN, "server", "p-n0", patch={"tags": ["mine"]})

    with pytest.raises(Refused) as refused:
        await change()
    assert refused.value.code == "owned"
    with pytest.raises(Refused):
        await pairs.delete("server", "p-n0")
