"""Which difference is drift, whose it is, and when zone9 stops: every case as a line."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from zone9.model.drift import MOST_SET_BACKS, closed, mark, opened
from zone9.model.evidence import Deed, Evidence, OpenDrift
from zone9.model.facts import FieldDiff, Intent
from zone9.model.plans import Plan, Step
from zone9.model.states import Phase

AT = datetime(2026, 1, 2, tzinfo=UTC)
LIVE = Intent("id", "server", None, "web1", 2, 2, {}, {}, {}, Phase.LIVE)
UNDER_WAY = replace(LIVE, applied_version=1)
NAME = FieldDiff("name", "web1", "theirs", traces=frozenset({"name"}))
AYSE = Deed("1", AT, "ayse@pve", "set", frozenset({"name"}))
LATER = Deed("2", AT, "can@pve", "set", frozenset({"name"}))
ELSEWHERE = Deed("3", AT, "can@pve", "set", frozenset({"cores"}))
BEFORE = {"name": "web1"}
KNOWN = OpenDrift("name", "theirs", "ayse@pve", "set", AT)


@pytest.mark.parametrize(
    ("intent", "diff", "evidence", "drift", "who"),
    [
        pytest.param(LIVE, NAME, Evidence(), True, None, id="applied before, and nobody is named"),
        pytest.param(LIVE, NAME, Evidence(deeds=(AYSE,)), True, "ayse@pve", id="named"),
        pytest.param(LIVE, NAME, Evidence(deeds=(AYSE, LATER)), True, "can@pve", id="the last one is named"),
        pytest.param(LIVE, NAME, Evidence(deeds=(ELSEWHERE,)), True, None, id="another field's act names nobody"),
        pytest.param(LIVE, NAME, Evidence(drifts=(KNOWN,)), True, "ayse@pve", id="a name is kept"),
        pytest.param(UNDER_WAY, NAME, Evidence(applied=BEFORE), False, None, id="our own change under way"),
        pytest.param(UNDER_WAY, NAME, Evidence(applied=BEFORE, deeds=(AYSE,)), True, "ayse@pve", id="both at once"),
        pytest.param(
            UNDER_WAY, replace(NAME, read="web1"), Evidence(applied=BEFORE, deeds=(AYSE,)), False, None,
            id="still what was applied",
        ),
        pytest.param(UNDER_WAY, NAME, Evidence(deeds=(AYSE,)), False, None, id="never applied"),
        pytest.param(UNDER_WAY, NAME, Evidence(drifts=(KNOWN,)), True, "ayse@pve", id="a new version ends no drift"),
    ],
)  # fmt: skip
def test_what_is_drift(
    intent: Intent, diff: FieldDiff, evidence: Evidence, drift: bool, who: str | None
) -> None:
    [found] = mark(intent, Plan(steps=(Step("configure"),), diffs=(diff,)), evidence).diffs
    assert (found.drift, found.who, found.applied) == (drift, who, evidence.applied.get("name"))


@pytest.mark.parametrize(
    ("count", "health", "steps"), [(MOST_SET_BACKS - 1, "drifted", 1), (MOST_SET_BACKS, "oscillating", 0)]
)
def test_two_writers_are_not_fought(count: int, health: str, steps: int) -> None:
    plan = Plan(steps=(Step("configure"),), diffs=(NAME,))
    found = mark(LIVE, plan, Evidence(deeds=(AYSE,), set_backs={"name": count}))
    assert (found.health, len(found.steps)) == (health, steps)
    other = mark(LIVE, plan, Evidence(deeds=(AYSE,), set_backs={"cores": count}))
    assert len(other.steps) == 1, "another field's set-backs stop nothing"


@pytest.mark.parametrize("plan", [Plan(), Plan(health="missing", diffs=(NAME,))])
def test_a_worse_word_is_not_covered(plan: Plan) -> None:
    assert mark(LIVE, plan, Evidence()).health == plan.health


def test_a_deletion_has_no_drift() -> None:
    plan = Plan(steps=(Step("destroy"),), diffs=(NAME,))
    assert mark(replace(LIVE, phase=Phase.DELETING), plan, Evidence(deeds=(AYSE,))) is plan


@pytest.mark.parametrize(
    ("change", "news"),
    [
        ({}, False),
        ({"read": "else"}, True),
        ({"who": "can@pve"}, True),
        ({"drift": False, "read": "else"}, False),
    ],
)
def test_only_news_is_written_down(change: dict[str, Any], news: bool) -> None:
    seen = replace(NAME, drift=True, who="ayse@pve", at=AT)
    plan = Plan(diffs=(replace(seen, **change),))
    assert bool(opened(plan, Evidence(drifts=(KNOWN,)))) is news


@pytest.mark.parametrize(
    ("plan", "ended"),
    [(Plan(compared=True), ("name",)), (Plan(compared=True, diffs=(NAME,)), ()), (Plan(), ())],
)
def test_drift_ends_by_a_comparison_alone(plan: Plan, ended: tuple[str, ...]) -> None:
    assert closed(plan, Evidence(drifts=(KNOWN,))) == ended
