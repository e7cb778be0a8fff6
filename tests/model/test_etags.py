"""ETags: for `If-Match` alone; equal only for the same asking of the same installation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zone9.model.etags import etag, matches

SPEC = {"plan": "small", "tags": ["a", "b"]}


@pytest.mark.parametrize(
    "other",
    [
        etag(2, 3, "web1", SPEC),
        etag(1, 4, "web1", SPEC),
        etag(1, 3, "web2", SPEC),
        etag(1, 3, "web1", {**SPEC, "plan": "large"}),
        etag(1, 3, "web1", {"plan": "small", "tags": ["b", "a"]}),
    ],
)
def test_whatever_differs_makes_another(other: str) -> None:
    assert etag(1, 3, "web1", SPEC) != other


def test_the_order_of_keys_does_not() -> None:
    assert etag(1, 3, "web1", SPEC) == etag(1, 3, "web1", dict(reversed(SPEC.items())))


def test_it_is_strong_and_quoted() -> None:
    made = etag(1, 3, "web1", SPEC)
    assert made[0] == made[-1] == '"'
    assert made.startswith('"e1-v3-')


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("{}", True),
        ("*", True),
        (' "x" , {} ', True),
        ('"x"', False),
        ("W/{}", False),
        ("", False),
        ("{}x", False),
    ],
)
def test_if_match(header: str, *, expected: bool) -> None:
    current = etag(1, 3, "web1", SPEC)
    assert matches(header.replace("{}", current), current) is expected


@given(st.text())
def test_no_header_breaks_the_comparison(header: str) -> None:
    assert matches(header, '"e1-v1-0"') in {True, False}
