"""Who may: a role includes every lesser one."""

import itertools

import pytest

from zone9.model.asking import RANK, PlannedChange, Role, Scope

ORDER: tuple[Role, ...] = ("viewer", "member", "operator", "owner", "admin")


@pytest.mark.parametrize(("has", "wants"), list(itertools.product(ORDER, ORDER)))
def test_a_role_includes_the_lesser_ones(has: Role, wants: Role) -> None:
    scope = Scope(token="tok", actor="x", role=has, project=None)
    assert scope.may(wants) is (ORDER.index(has) >= ORDER.index(wants))


def test_every_role_has_its_rank() -> None:
    assert set(RANK) == set(ORDER)


def test_a_planned_change_names_its_class() -> None:
    assert PlannedChange("start", "hot", {"a": 1}).as_json() == {
        "step": "start",
        "class": "hot",
        "args": {"a": 1},
    }
