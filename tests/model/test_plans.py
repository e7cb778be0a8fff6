"""Plans say nothing by leaving something out, except that it is cheap, quiet and well."""

import dataclasses

import pytest

from zone9.model.facts import Message
from zone9.model.plans import Child, Plan, Step, Wait
from zone9.model.states import ChangeClass, Health

NOTHING = {"steps": (), "children": (), "wait": None, "refusal": None, "diffs": (), "gone": False}


def test_an_empty_plan_is_success_and_no_deletion() -> None:
    plan = Plan()
    assert {name: getattr(plan, name) for name in NOTHING} == NOTHING
    assert (Health(plan.health), plan.health_message) == (Health.OK, None)


def test_a_wait_is_no_failure_unless_it_says_so() -> None:
    wait = Wait(Message("locked", "the VM is locked"), 5)
    assert (wait.failed, wait.needs) == (False, None)


def test_a_step_costs_nothing_and_promises_nothing_unless_it_says_so() -> None:
    step = Step("start")
    assert (step.change, step.effect, dict(step.args)) == (ChangeClass.HOT, (), {})
    assert step.args is not Step("stop").args


@pytest.mark.parametrize(
    "made", [Plan(), Step("start"), Child("server", "a", {}), Wait(Message("x", "x"), None)]
)
def test_what_was_decided_stays_decided(made: object) -> None:
    name = dataclasses.fields(made)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, name, None)
