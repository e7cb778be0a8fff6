"""Ids: with a prefix, sortable by age, and told from names."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zone9.base.ids import ALPHABET, is_id, new_id


def test_an_id_has_its_prefix_and_26_characters() -> None:
    head, tail = new_id("srv").split("_")
    assert head == "srv"
    assert len(tail) == 26
    assert set(tail) <= set(ALPHABET)


def test_no_two_are_the_same() -> None:
    assert len({new_id("srv") for _ in range(10_000)}) == 10_000


def test_an_older_one_sorts_first(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for millisecond in (1, 2, 31, 32, 1_000, 1_764_600_000_000, 2**48 - 1):
        monkeypatch.setattr(time, "time_ns", lambda now=millisecond: now * 1_000_000)
        made.append(new_id("srv"))
    assert made == sorted(made)


def test_an_id_is_known_by_its_own_prefix_only() -> None:
    made = new_id("srv")
    assert is_id(made, "srv")
    assert not is_id(made, "net")
    assert not is_id(made, "sr")


@pytest.mark.parametrize(
    "text",
    ["", "srv", "srv_", "web1", "srv_" + "0" * 25, "srv_" + "0" * 27, "srv_" + "u" * 26, "srv_" + "O" * 26],
)
def test_a_name_is_not_an_id(text: str) -> None:
    assert not is_id(text, "srv")


@given(st.text())
def test_no_text_breaks_the_question(text: str) -> None:
    assert is_id(text, "srv") in {True, False}
