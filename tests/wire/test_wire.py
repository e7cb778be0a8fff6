"""The protocol's messages: read strictly, and the same on both sides; nothing but the standard library."""

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from hypothesis import given
from hypothesis import strategies as st

import zone9
from zone9.agent import machine, pin
from zone9.sandbox import certificate
from zone9.wire.messages import Config, Enrolment, Status, WireError
from zone9.wire.tags import Tag, matches, parse

BOOT = "0b0b0b0b-0000-4000-8000-000000000001"
GOOD: dict[str, Any] = {
    "applied_version": 3, "boot_id": BOOT, "config_hash": "0123456789abcdef", "epoch": 1, "error": None,
    "evidence": {}, "failed_version": None, "running_version": "0.1", "seq": 7,
}  # fmt: skip
TAG = Tag(12, 1, "0123456789abcdef")


def test_wire_and_agent_import_the_standard_library_alone() -> None:
    root = Path(zone9.__file__).parent
    for path in [*(root / "wire").glob("*.py"), *(root / "agent").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
            names = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                ours = name.startswith(("zone9.wire", "zone9.agent"))
                assert ours or name.split(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


@pytest.mark.parametrize(
    ("header", "same"),
    [
        (str(TAG), True),
        (f"W/{TAG}", True),
        (f'"v11-1-0123456789abcdef", {TAG}', True),
        ("v12-1-0123456789abcdef", True),
        ('"v12"', True),
        ('"v12-2-0123456789abcdef"', False),
        ('"v12-1-0123456789abcdee"', False),
        ('"v13"', False),
        ("*", False),
        ("", False),
        (None, False),
        ('"v012"', False),
    ],
)
def test_what_matches_a_tag(header: str | None, same: bool) -> None:
    assert matches(header, TAG) is same


def test_a_bare_version_does_not_match_across_epochs() -> None:
    assert not matches('"v12"', Tag(12, 2, "0123456789abcdef"))


@given(st.text(max_size=60))
def test_any_text_is_a_tag_or_none(text: str) -> None:
    found = parse(text)
    assert found is None or parse(str(found)) == found


@given(
    st.integers(0, 2**53 - 1),
    st.integers(1, 1000),
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), st.integers()
    ),
)
def test_a_config_comes_back_as_it_was(version: int, epoch: int, document: dict[str, Any]) -> None:
    config = Config("lb", epoch, version, document)
    assert Config.from_bytes(config.to_bytes()) == config


def test_a_config_that_was_changed_on_its_way_is_none() -> None:
    changed = Config("lb", 1, 3, {"a": 1}).to_bytes().replace(b'"a":1', b'"a":2')
    with pytest.raises(WireError, match="/tag"):
        Config.from_bytes(changed)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"seq": -1}, "/seq"),
        ({"seq": True}, "/seq"),
        ({"seq": 1.5}, "/seq"),
        ({"seq": 2**53}, "/seq"),
        ({"epoch": 0}, "/epoch"),
        ({"boot_id": "x"}, "/boot_id"),
        ({"config_hash": None}, "/config_hash"),
        ({"applied_version": "3"}, "/applied_version"),
        ({"failed_version": 4}, "/error"),
        ({"failed_version": 4, "error": "x" * 5000}, "/error"),
        ({"evidence": []}, "/evidence"),
        ({"evidence": {"a": "\0"}}, ""),
        ({"evidence": {"a": "\ud800"}}, ""),
        ({"running_version": "a b"}, "/running_version"),
        ({"more": 1}, "/more"),
    ],
)
def test_a_status_with_something_wrong_is_refused_with_a_pointer(
    change: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(WireError) as refused:
        Status.from_bytes(json.dumps({**GOOD, **change}).encode())
    assert refused.value.pointer == pointer


def test_a_status_comes_back_as_it_was() -> None:
    status = Status(BOOT, 7, 1, 3, "0123456789abcdef", 4, "no", "0.1", {"workers": 2})
    assert Status.from_bytes(status.to_bytes()) == status
    for missing in GOOD.keys() - {"applied_version", "config_hash", "failed_version", "error"}:
        with pytest.raises(WireError, match=missing):
            Status.from_bytes(
                json.dumps({key: value for key, value in GOOD.items() if key != missing}).encode()
            )


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for kind in (Config, Status, Enrolment):
        with pytest.raises(WireError):
            kind.from_bytes(data)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)
       | st.dictionaries(st.text(), inner), max_leaves=20))  # fmt: skip
def test_any_document_is_read_or_refused(value: Any) -> None:
    for kind in (Config, Status, Enrolment):
        with pytest.raises(WireError):
            kind.from_bytes(json.dumps({"boot_id": value, "product": value, "token": value}).encode())


def test_a_pin_is_the_hash_of_the_key_as_others_compute_it() -> None:
    made = x509.load_pem_x509_certificate(certificate.make(("a",)).pem.encode())
    spki = made.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = hashes.Hash(hashes.SHA256())
    digest.update(spki)
    assert pin.of_certificate(made.public_bytes(serialization.Encoding.DER)) == digest.finalize().hex()


@given(st.binary(max_size=200))
def test_what_is_no_certificate_has_no_pin(data: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        pin.of_certificate(b"\x30\x03" + data[:3])


def test_what_smbios_says(tmp_path: Path) -> None:
    (tmp_path / "product_uuid").write_text("0A0A0A0A-0000-4000-8000-000000000001\n")
    (tmp_path / "product_serial").write_text("z9:" + "t" * 40)
    (tmp_path / "product_sku").write_text(f"https://10.0.0.2:8009#{'a' * 64},{'b' * 64}")
    (tmp_path / "boot_id").write_text(BOOT + "\n")
    found = machine.read(tmp_path, tmp_path / "boot_id")
    assert (found.uuid, found.boot_id) == ("0a0a0a0a-0000-4000-8000-000000000001", BOOT)
    assert (found.url, found.pins, found.token) == ("https://10.0.0.2:8009", ("a" * 64, "b" * 64), "t" * 40)
    assert "t" * 40 not in repr(found)
    for serial in ("", "VMware-42", "z9:", "z9:with space" + "x" * 20):
        (tmp_path / "product_serial").write_text(serial)
        assert machine.read(tmp_path, tmp_path / "boot_id").token is None
    for sku in ("", f"http://10.0.0.2#{'a' * 64}", "https://10.0.0.2", "https://10.0.0.2#abc"):
        (tmp_path / "product_sku").write_text(sku)
        with pytest.raises(machine.NotAnAppliance, match="sku"):
            machine.read(tmp_path, tmp_path / "boot_id")
