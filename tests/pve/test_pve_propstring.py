"""Property strings: round trips, equal meanings, and changes that touch only what they name."""

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zone9.pve.propstring import (
    default_key,
    format_line,
    format_size,
    masked,
    merge,
    parse,
    same,
    size_bytes,
    smbios1,
    smbios_fields,
)

MAC = "BC:24:11:28:23:F4"
WORDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789:/.-", min_size=1, max_size=12)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{1,8}", fullmatch=True).filter(
    lambda name: (
        name not in {"model", "macaddr", "file", "virtio", "e1000", "e1000e", "i82551", "pcnet", "rtl8139"}
    )
)
RESTS = st.dictionaries(NAMES, WORDS, max_size=5)

PARSED = [
    (
        "net0",
        f"virtio={MAC},bridge=vmbr0,tag=5",
        {"model": "virtio", "macaddr": MAC, "bridge": "vmbr0", "tag": "5"},
    ),
    ("net12", "virtio,bridge=vmbr0", {"model": "virtio", "bridge": "vmbr0"}),
    ("net0", f"model=virtio,macaddr={MAC}", {"model": "virtio", "macaddr": MAC}),
    (
        "scsi0",
        "vmstore:101/vm-101-disk-0.qcow2,size=64M",
        {"file": "vmstore:101/vm-101-disk-0.qcow2", "size": "64M"},
    ),
    ("ide2", "none,media=cdrom", {"file": "none", "media": "cdrom"}),
    ("ipconfig0", "ip=10.99.0.50/24,gw=10.99.0.1", {"ip": "10.99.0.50/24", "gw": "10.99.0.1"}),
    ("agent", "1,fstrim_cloned_disks=1", {"enabled": "1", "fstrim_cloned_disks": "1"}),
    ("cpu", "host,flags=+aes", {"cputype": "host", "flags": "+aes"}),
    ("memory", "2048", {"current": "2048"}),
    ("boot", "order=scsi0;ide2", {"order": "scsi0;ide2"}),
]

SAME = [
    ("net0", f"virtio={MAC},bridge=vmbr0", f"bridge=vmbr0,virtio={MAC.lower()}"),
    ("net0", f"virtio={MAC},bridge=vmbr0", f"model=virtio,bridge=vmbr0,macaddr={MAC}"),
    ("net0", f"virtio={MAC},firewall=1", f"virtio={MAC},firewall=on"),
    ("scsi0", "s:101/d.raw,size=1G,iothread=1", "iothread=yes,size=1024M,file=s:101/d.raw"),
    ("ipconfig0", "ip6=2001:DB8::1/64", "ip6=2001:db8:0::1/64"),
    ("ipconfig0", " ", None),
    ("tags", "alpha;zed;zone9", "zone9,Zed alpha"),
    ("tags", " ", ""),
    ("cores", 2, "2"),
    ("memory", "2048", 2048),
    ("cpulimit", "1.0", 1),
    ("onboot", True, 1),
    ("description", "a\nb", "a\nb\n "),
    ("sshkeys", "ssh-ed25519%20AAAA%20t", "ssh-ed25519 AAAA t\n"),
    ("smbios1", "base64=1,serial=ejk=,uuid=AAAA", "uuid=aaaa,serial=ejk,base64=1"),
    ("smbios1", "uuid=aaaa,serial=z9", "base64=1,serial=ejk=,uuid=AAAA"),
    ("hotplug", "network,disk,usb", "usb,network,disk"),
]

DIFFERENT = [
    ("net0", f"virtio={MAC},bridge=vmbr0", "virtio,bridge=vmbr0"),
    ("net0", f"virtio={MAC},bridge=vmbr0", f"e1000={MAC},bridge=vmbr0"),
    ("net0", f"virtio={MAC},bridge=vmbr0", f"virtio={MAC},bridge=vmbr0,tag=5"),
    ("scsi0", "s:101/d.raw,size=1G", "s:101/d.raw,size=1025M"),
    ("boot", "order=scsi0;ide2", "order=ide2;scsi0"),
    ("description", "a b", "a  b"),
    ("cores", 2, None),
    ("cores", 0, None),
    ("name", "web1", "web2"),
    ("smbios1", "uuid=aaaa", "uuid=bbbb"),
    ("smbios1", "uuid=aaaa,serial=ejk=", "base64=1,serial=ejk=,uuid=aaaa"),
    ("scsi0", "broken,broken", "broken"),
]


@pytest.mark.parametrize(("key", "line", "parts"), PARSED)
def test_parse(key: str, line: str, parts: dict[str, str]) -> None:
    assert parse(key, line) == parts
    assert parse(key, format_line(key, parts)) == parts


@pytest.mark.parametrize(("key", "one", "other"), SAME)
def test_same(key: str, one: object, other: object) -> None:
    assert same(key, one, other)
    assert same(key, other, one)


@pytest.mark.parametrize(("key", "one", "other"), DIFFERENT)
def test_different(key: str, one: object, other: object) -> None:
    assert not same(key, one, other)
    assert not same(key, other, one)


@given(rest=RESTS, mac=st.integers(0, 2**48 - 1), data=st.data())
def test_nics_survive_a_round_trip_in_any_order(rest: dict[str, str], mac: int, data: st.DataObject) -> None:
    address = ":".join(f"{byte:02X}" for byte in mac.to_bytes(6, "big"))
    parts = {"model": "virtio", "macaddr": address, **rest}
    line = format_line("net0", parts)
    assert line.startswith(f"virtio={address}")
    assert parse("net0", line) == parts
    shuffled = ",".join(data.draw(st.permutations(line.split(","))))
    assert same("net0", line, shuffled)


@given(volume=WORDS, rest=RESTS)
def test_drives_survive_a_round_trip(volume: str, rest: dict[str, str]) -> None:
    parts = {"file": f"store:{volume}", **rest}
    assert parse("scsi3", format_line("scsi3", parts)) == parts


@given(rest=RESTS, name=NAMES, value=WORDS)
def test_merge_changes_only_what_it_names(rest: dict[str, str], name: str, value: str) -> None:
    line = format_line("net0", {"model": "virtio", "macaddr": MAC, **rest})
    before, after = parse("net0", line), parse("net0", merge("net0", line, {name: value}))
    assert after == {**before, name: value}
    gone = parse("net0", merge("net0", line, {name: None}))
    assert gone == {key: text for key, text in before.items() if key != name}


def test_merge_keeps_what_it_does_not_know() -> None:
    line = f"virtio={MAC},bridge=vmbr0,mtu=1400,queues=4,new_option=7"
    merged = merge("net0", line, bridge="vmbr1", tag=12, queues=None, firewall=True)
    assert merged == f"virtio={MAC},bridge=vmbr1,mtu=1400,new_option=7,tag=12,firewall=1"


@given(st.integers(0, 2**60))
def test_sizes_survive_a_round_trip(count: int) -> None:
    assert size_bytes(format_size(count)) == count


def test_sizes() -> None:
    assert [size_bytes(text) for text in ("8G", "1088M", "104858K", "0T", "1.5K", "512")] == [
        8 << 30,
        1088 << 20,
        104858 << 10,
        0,
        1536,
        512,
    ]
    assert format_size(8 << 30) == "8G"
    with pytest.raises(ValueError, match="not a size"):
        size_bytes("8 GB")


@given(identity=st.uuids(), serial=st.text(max_size=60).filter(str.strip))
def test_smbios1_carries_any_serial(identity: uuid.UUID, serial: str) -> None:
    line = smbios1(str(identity), serial=serial)
    assert smbios_fields(line) == {"uuid": str(identity), "serial": serial}
    clone = f"base64=1,serial={base64.b64encode(serial.encode()).decode()},uuid={str(identity).upper()}"
    assert same("smbios1", line, clone)


def test_smbios1_limits() -> None:
    assert smbios1("11111111-2222-3333-4444-555555555555").startswith("uuid=")
    assert smbios_fields(" ") == {}
    with pytest.raises(ValueError, match="512"):
        smbios1("11111111-2222-3333-4444-555555555555", serial="x" * 400)


@pytest.mark.parametrize(
    ("key", "line"), [("net0", "virtio=a,virtio=b"), ("ipconfig0", "10.0.0.1"), ("net0", "virtio,e1000=x")]
)
def test_broken_lines(key: str, line: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        parse(key, line)


def test_what_is_no_property_string() -> None:
    assert default_key("name") is None
    assert default_key("description") is None
    with pytest.raises(ValueError, match="not a property string"):
        parse("name", "web1")


def test_a_masked_password_cannot_be_compared() -> None:
    assert masked("**********")
    with pytest.raises(ValueError, match="masked"):
        same("cipassword", "**********", "secret")
