"""The one word that people read: design section 1, as a table over every combination."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from zone9.model.states import ChangeClass, Convergence, Health, JobStatus, Origin, Phase
from zone9.model.words import PRECEDENCE, TURKISH, chip, fresh_health, in_language

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVERY = list(itertools.product(Convergence, Health))

# What wins, by hand: the first column is above the second in the design's list.
ABOVE = [
    ("deleting", "duplicate"), ("duplicate", "missing"), ("missing", "unknown"), ("unknown", "failed"),
    ("failed", "oscillating"), ("oscillating", "degraded"), ("degraded", "drifted"), ("drifted", "applying"),
    ("applying", "pending"), ("pending", "pending_restart"), ("pending_restart", "applied"),
]  # fmt: skip


@pytest.mark.parametrize(("higher", "lower"), ABOVE)
def test_the_precedence_is_the_designs(higher: str, lower: str) -> None:
    assert PRECEDENCE.index(higher) + 1 == PRECEDENCE.index(lower)


@pytest.mark.parametrize(("convergence", "health"), EVERY)
def test_every_state_has_one_word(convergence: Convergence, health: Health) -> None:
    word = chip(Origin.MANAGED, convergence, health)
    assert word in {str(convergence), str(health)}
    rank = [PRECEDENCE.index(one) for one in (str(convergence), str(health)) if one in PRECEDENCE]
    assert PRECEDENCE.index(word) == min(rank)


@pytest.mark.parametrize(("convergence", "health"), EVERY)
@pytest.mark.parametrize("never", [True, False])
def test_green_is_for_what_was_measured_and_found_well(
    convergence: Convergence, health: Health, *, never: bool
) -> None:
    word = chip(Origin.MANAGED, convergence, health, never_measured=never)
    if word == "applied":
        assert (convergence, health) == (Convergence.APPLIED, Health.OK)


@pytest.mark.parametrize("convergence", Convergence)
def test_what_is_new_shows_how_far_it_is_and_never_that_it_is_applied(convergence: Convergence) -> None:
    word = chip(Origin.MANAGED, convergence, Health.UNKNOWN, never_measured=True)
    assert word == ("unknown" if convergence is Convergence.APPLIED else str(convergence))


@pytest.mark.parametrize(("convergence", "health"), EVERY)
def test_being_new_hides_nothing_but_that_it_is_unmeasured(convergence: Convergence, health: Health) -> None:
    if health is not Health.UNKNOWN:
        shown = [chip(Origin.MANAGED, convergence, health, never_measured=never) for never in (True, False)]
        assert shown[0] == shown[1]


@pytest.mark.parametrize(("convergence", "health"), EVERY)
def test_what_was_adopted_shows_its_health_alone(convergence: Convergence, health: Health) -> None:
    assert chip(Origin.ADOPTED, convergence, health) == str(health)


@pytest.mark.parametrize("health", Health)
def test_a_reading_older_than_its_budget_is_unknown(health: Health) -> None:
    at_the_edge, past_it = NOW - timedelta(seconds=60), NOW - timedelta(seconds=60.001)
    assert fresh_health(health, at_the_edge, NOW, 60) is health
    assert fresh_health(health, past_it, NOW, 60) is Health.UNKNOWN
    assert fresh_health(health, None, NOW, 60) is Health.UNKNOWN


def test_every_word_has_both_languages() -> None:
    words = {str(one) for kind in (Origin, Convergence, Health) for one in kind} | {"deleted"}
    assert set(TURKISH) == words
    assert in_language("pending_restart", "tr") == "yeniden başlatma bekliyor"
    assert in_language("pending_restart", "en") == "pending restart"
    assert len(set(TURKISH.values())) == len(TURKISH), "two words that look alike say less than one"


def test_the_sets_are_closed() -> None:
    """A new value is a decision of the design, and a new row of its tables."""
    assert [str(one) for one in Phase] == ["live", "deleting", "deleted"]
    assert [str(one) for one in ChangeClass] == ["hot", "pending_restart", "rebuild", "never"]
    assert len(JobStatus) == 7
