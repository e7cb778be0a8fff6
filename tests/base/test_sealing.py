"""Secrets at rest: they open with the right key, in the right row, unharmed; and in no other case."""

import base64
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zone9.base.errors import Never
from zone9.base.sealing import Sealer

OLD, NEW = b"o" * 32, b"n" * 32


def lines(*keys: bytes) -> str:
    return "".join(base64.b64encode(key).decode() + "\n" for key in keys)


@given(plain=st.binary(max_size=200), row=st.text(max_size=40))
def test_what_is_sealed_opens_in_its_row(plain: bytes, row: str) -> None:
    sealer = Sealer((OLD,))
    assert sealer.open(sealer.seal(plain, row=row), row=row) == plain


def test_the_same_value_is_never_sealed_to_the_same_bytes() -> None:
    sealer = Sealer((OLD,))
    sealed = {sealer.seal(b"secret", row="r") for _ in range(50)}
    assert len(sealed) == 50
    assert all(b"secret" not in one for one in sealed)


def test_a_value_copied_to_another_row_does_not_open() -> None:
    sealer = Sealer((OLD,))
    with pytest.raises(Never) as caught:
        sealer.open(sealer.seal(b"secret", row="sec_1"), row="sec_2")
    assert caught.value.code == "secret_damaged"


@given(data=st.data())
def test_a_changed_bit_anywhere_is_noticed(data: st.DataObject) -> None:
    sealer = Sealer((OLD,))
    sealed = bytearray(sealer.seal(b"a secret of some length", row="r"))
    at = data.draw(st.integers(0, len(sealed) * 8 - 1))
    sealed[at // 8] ^= 1 << at % 8
    with pytest.raises(Never) as caught:
        sealer.open(bytes(sealed), row="r")
    assert caught.value.code in {"secret_damaged", "sealing_key_missing"}
    assert "secret of some" not in str(caught.value)


@pytest.mark.parametrize("length", range(20))
def test_a_value_that_was_cut_off_is_noticed(length: int) -> None:
    sealer = Sealer((OLD,))
    with pytest.raises(Never):
        sealer.open(sealer.seal(b"", row="r")[:length], row="r")


def test_after_a_rotation_the_old_opens_and_the_new_is_sealed_with_the_new() -> None:
    before = Sealer((OLD,)).seal(b"secret", row="r")
    both = Sealer((NEW, OLD))
    assert both.open(before, row="r") == b"secret"
    after = both.seal(b"secret", row="r")
    assert Sealer((NEW,)).open(after, row="r") == b"secret"
    with pytest.raises(Never) as caught:
        Sealer((NEW,)).open(before, row="r")
    assert caught.value.code == "sealing_key_missing"


def test_a_digest_tells_equality_and_nothing_without_the_key() -> None:
    sealer = Sealer((OLD,))
    assert sealer.digest("x") == sealer.digest("x") != sealer.digest("y")
    assert sealer.digest("x") != Sealer((NEW,)).digest("x")


def test_the_key_file_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "not" / "there" / "sealing.key"
    sealed = Sealer.from_file(path).seal(b"secret", row="r")
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Sealer.from_file(path).open(sealed, row="r") == b"secret"
    assert path.read_text() == text
    assert [one.name for one in path.parent.iterdir()] == ["sealing.key"]


def test_two_that_start_at_once_end_with_one_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sealing.key"
    link = os.link

    def late(source: str, target: Path) -> None:
        target.write_text(lines(NEW))  # the other process has just made its own
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    sealed = Sealer.from_file(path).seal(b"secret", row="r")
    assert path.read_text() == lines(NEW)
    assert Sealer((NEW,)).open(sealed, row="r") == b"secret"
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_line_of_the_key_file_is_the_newest_key(tmp_path: Path) -> None:
    path = tmp_path / "sealing.key"
    path.write_text(lines(NEW, OLD))
    assert Sealer((NEW,)).open(Sealer.from_file(path).seal(b"s", row="r"), row="r") == b"s"


@pytest.mark.parametrize(
    "text", ["", "\n", lines(b"short"), lines(OLD) + "%%%\n", "!" + lines(OLD), "\xff\n", lines(OLD)[:20]]
)
def test_a_damaged_key_file_is_said_and_never_made_anew(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sealing.key"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(Never) as caught:
        Sealer.from_file(path)
    assert caught.value.code == "sealing_key_damaged"
    assert path.read_text(encoding="latin-1") == text
