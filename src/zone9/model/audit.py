"""The audit's chain: each entry's hash covers its own text and the hash before it.

Whoever can write to the database can also make a whole chain anew; the head that was noted elsewhere (`zone9 audit
head`, the log) is what tells then. Pure, and the same on both sides: the command line checks what the API serves.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

BEFORE_THE_FIRST = "0" * 64


@dataclass(frozen=True, slots=True)
class Link:
    """Is one entry as it is stored: its number, its text, its hash."""

    seq: int
    entry: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """Is the last entry's number and hash; 0 and zeros before the first."""

    seq: int = 0
    hash: str = BEFORE_THE_FIRST

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> "Head":
        """Raises ValueError when the text is not `SEQ:HASH`."""
        seq, _, hash_ = text.strip().partition(":")
        if not (seq.isascii() and seq.isdecimal()) or len(hash_) != 64 or hash_.strip("0123456789abcdef"):
            raise ValueError("a head is SEQ:HASH, as `zone9 audit head` prints it")
        return cls(int(seq), hash_)


class Broken(Exception):
    """Says where the chain does not hold, and how."""


def link_hash(before: str, entry: str) -> str:
    """Returns the hash of an entry's text after the hash before it (the SQL function z9_audit makes the same)."""
    return hashlib.sha256(f"{before}\n{entry}".encode()).hexdigest()


def follow(head: Head, links: Iterable[Link], noted: Head | None = None) -> Head:
    """Returns the head after these links. Raises Broken at the first that was edited, removed or moved.

    `noted` is a head from elsewhere: where the chain passes its number, the hashes must be equal.
    """
    for link in links:
        if link.seq != head.seq + 1:
            raise Broken(f"after entry {head.seq} comes entry {link.seq}: entries were removed or moved")
        if link_hash(head.hash, link.entry) != link.hash:
            raise Broken(
                f"entry {link.seq} is not what was written: its text or the one before it was changed"
            )
        if json.loads(link.entry).get("seq") != link.seq:
            raise Broken(f"entry {link.seq} says that it is another one: it was moved")
        head = Head(link.seq, link.hash)
        if noted is not None and noted.seq == head.seq and noted.hash != head.hash:
            raise Broken(
                f"entry {head.seq} has another hash than the head that was noted: the chain was made anew"
            )
    return head


def reaches(head: Head, noted: Head) -> None:
    """Raises Broken when the chain ends before a head that was noted elsewhere."""
    if head.seq < noted.seq:
        raise Broken(
            f"the chain ends at entry {head.seq}, but entry {noted.seq} was noted: the end was removed"
        )
