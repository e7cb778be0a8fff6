"""The chain of the audit: whatever is edited, removed or moved is found."""

import json
from dataclasses import replace

import pytest

from zone9.model.audit import BEFORE_THE_FIRST, Broken, Head, Link, follow, link_hash, reaches


def chain(length: int, *, said: str = "create") -> list[Link]:
    before, links = BEFORE_THE_FIRST, []
    for seq in range(1, length + 1):
        entry = json.dumps({"seq": seq, "actor": "ayşe", "action": said})
        links.append(Link(seq, entry, link_hash(before, entry)))
        before = links[-1].hash
    return links


def edited(links: list[Link]) -> list[Link]:
    return [*links[:2], replace(links[2], entry=links[2].entry.replace("create", "delete")), *links[3:]]


def edited_with_its_hash(links: list[Link]) -> list[Link]:
    entry = links[2].entry.replace("create", "delete")
    return [*links[:2], Link(3, entry, link_hash(links[1].hash, entry)), *links[3:]]


def removed(links: list[Link]) -> list[Link]:
    return [*links[:2], *links[3:]]


def removed_and_renumbered(links: list[Link]) -> list[Link]:
    return [*links[:2], *(replace(one, seq=one.seq - 1) for one in links[3:])]


def swapped(links: list[Link]) -> list[Link]:
    return [*links[:2], replace(links[3], seq=3), replace(links[2], seq=4), *links[4:]]


def rechained(links: list[Link]) -> list[Link]:
    """Two entries change places and every hash after them is made anew; their own numbers give them away."""
    before, made = BEFORE_THE_FIRST, []
    for seq, entry in enumerate([links[1].entry, links[0].entry, *(one.entry for one in links[2:])], start=1):
        made.append(Link(seq, entry, link_hash(before, entry)))
        before = made[-1].hash
    return made


def without_the_first(links: list[Link]) -> list[Link]:
    return links[1:]


def repeated(links: list[Link]) -> list[Link]:
    return [*links[:2], links[1], *links[2:]]


def test_a_whole_chain_holds_in_one_piece_or_in_pages() -> None:
    links = chain(7)
    whole = follow(Head(), links)
    assert whole == follow(follow(Head(), links[:3]), links[3:]) == Head(7, links[-1].hash)
    reaches(whole, Head.parse(str(whole)))


@pytest.mark.parametrize(
    "tamper",
    [
        edited,
        edited_with_its_hash,
        removed,
        removed_and_renumbered,
        swapped,
        rechained,
        without_the_first,
        repeated,
    ],
)
def test_tampering_is_found(tamper: object) -> None:
    with pytest.raises(Broken):
        follow(Head(), tamper(chain(7)))  # type: ignore[operator]


def test_a_chain_made_anew_is_found_by_a_head_that_was_noted() -> None:
    noted = Head(5, chain(7)[4].hash)
    anew = chain(7, said="nothing")
    assert follow(Head(), anew).seq == 7
    with pytest.raises(Broken, match="made anew"):
        follow(Head(), anew, noted)


def test_an_end_that_was_removed_is_found_by_a_head_that_was_noted() -> None:
    with pytest.raises(Broken, match="the end was removed"):
        reaches(follow(Head(), chain(4)), Head(5, chain(5)[4].hash))


@pytest.mark.parametrize("text", ["", "5", "5:", ":aa", "x:" + "0" * 64, "5:" + "0" * 63, "5:" + "G" * 64])
def test_a_head_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="SEQ:HASH"):
        Head.parse(text)
