"""How forms and image headers are read, byte by byte."""

import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from upload_forms import BOUNDARY, ISO, form
from upload_forms import qcow2 as image_of

from zone9.sandbox import multipart, qcow2
from zone9.sandbox.answers import Curt
from zone9.sandbox.images import virtual_size
from zone9.sandbox.volids import normalized, volume_id


@pytest.mark.parametrize("step", [1, 2, 3, 7, 64, 10_000])
async def test_it_does_not_matter_how_the_bytes_come(step: int) -> None:
    data = b"\r\n--b0undar\r\n-- and \r\n" + bytes(300) + b"\r\n"
    text = form(("content", "iso"), ("checksum-algorithm", "md5"), ("filename", "a.iso", data))

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(text), step):
            yield text[at : at + step]

    written: list[bytes] = []
    fields = await multipart.receive(chunks(), BOUNDARY.encode(), written.append)
    assert fields == {"content": "iso", "checksum-algorithm": "md5", "filename": "a.iso"}
    assert b"".join(written) == data


def test_a_form_that_breaks_off_is_no_file() -> None:
    text = form(("content", "iso"), ("filename", "a.iso", ISO))
    for length in range(0, 120, 5):
        assert multipart.read_head(text[:length], BOUNDARY.encode()) is None
    with pytest.raises(Curt):
        multipart.read_head(f"--{BOUNDARY}\r\nContent-Type: x\r\n\r\n".encode(), BOUNDARY.encode())
    assert multipart.boundary_of("multipart/form-data; charset=x; boundary=abc") == b"abc"
    assert multipart.boundary_of("text/plain; boundary=abc") is None


def test_headers_that_lie_are_read_no_further_than_they_go(tmp_path: Path) -> None:
    image = tmp_path / "a.qcow2"
    for data in (b"", b"QFI\xfb", image_of()[:40], b"QFI\xfb\0\0\0\x09" + bytes(200)):
        image.write_bytes(data)
        assert qcow2.read(image) is None
    image.write_bytes(struct.pack(">4sIQIIQ", b"QFI\xfb", 2, 0, 0, 16, 4096).ljust(72, b"\0"))
    assert qcow2.read(image) == qcow2.Qcow2(4096)
    assert (virtual_size(image, "qcow2"), virtual_size(image, "raw")) == (4096, 72)


def test_a_backing_file_counts_also_where_its_name_cannot_be_read(tmp_path: Path) -> None:
    image = tmp_path / "a.qcow2"
    image.write_bytes(struct.pack(">4sIQIIQ", b"QFI\xfb", 2, 2**40, 2**31, 16, 4096).ljust(72, b"\0"))
    found = qcow2.read(image)
    assert found is not None
    assert found.backed


def test_names_are_what_the_storage_can_hold() -> None:
    assert [normalized(name) for name in ("a b\n", "a/b.iso", "\\b.iso", "é")] == [
        "a_b",
        "b.iso",
        "b.iso",
        "_",
    ]
    assert volume_id("local", "iso/a.iso") == volume_id(None, "local:iso/a.iso") == "local:iso/a.iso"
