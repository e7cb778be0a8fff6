"""Pauses: they double, end at a ceiling, and never fall into step."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zone9.base.backoff import CEILING_SECONDS, delay, jittered


@pytest.mark.parametrize(
    ("failures", "whole"),
    [(0, 0.5), (1, 1.0), (2, 2.0), (5, 16.0), (10, 512.0), (11, 600.0), (10_000, 600.0)],
)
def test_a_pause_is_between_half_and_the_whole_of_what_doubling_gives(failures: int, whole: float) -> None:
    drawn = [delay(failures) for _ in range(300)]
    assert whole / 2 <= min(drawn) < whole * 0.55
    assert whole * 0.95 < max(drawn) <= whole


@given(failures=st.integers(0, 10**6), first=st.floats(0.01, 60), ceiling=st.floats(1, 3600))
def test_no_pause_is_longer_than_the_ceiling(failures: int, first: float, ceiling: float) -> None:
    assert 0 < delay(failures, first=first, ceiling=ceiling) <= ceiling


def test_the_longest_pause_is_ten_minutes() -> None:
    assert CEILING_SECONDS == 600


def test_a_regular_pause_is_spread_by_a_quarter() -> None:
    drawn = [jittered(100) for _ in range(500)]
    assert 75 <= min(drawn) < 78
    assert 122 < max(drawn) <= 125
