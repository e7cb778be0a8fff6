"""Errors are decisions: their class says what happens, and only their public half leaves."""

import pytest

from zone9.base import errors
from zone9.base.errors import FieldProblem, Later, Never, Problem, Refused, Unreachable


def test_each_class_is_one_decision() -> None:
    assert issubclass(Unreachable, Later)
    for one, other in [(Refused, Later), (Refused, Never), (Later, Never)]:
        assert not issubclass(one, other)
        assert not issubclass(other, one)
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert len({one.code for one in classes}) == len(classes) == 5


@pytest.mark.parametrize("kind", [Problem, Refused, Later, Unreachable, Never])
def test_an_error_has_a_public_and_an_internal_half(kind: type[Problem]) -> None:
    general = kind.code
    error = kind("the region does not answer", internal="10.0.0.7: refused", code="x", region="r1")
    assert (error.public, error.internal, error.code) == (
        "the region does not answer",
        "10.0.0.7: refused",
        "x",
    )
    assert error.words == {"region": "r1"}
    assert str(error) == "10.0.0.7: refused", "a log line names what happened"
    assert kind("said").internal == str(kind("said")) == "said"
    assert kind("said").code == general, "a code given to one is not given to all"


def test_a_refusal_is_the_callers_fault_and_names_the_field() -> None:
    field = FieldProblem("/spec/plan", "there is no plan x", "not_found")
    error = Refused("no", fields=(field,))
    assert error.status == 422
    assert error.fields == (field,)


def test_later_may_say_when() -> None:
    assert Later("busy").delay is None
    assert Unreachable("gone", delay=3.0).delay == 3.0
