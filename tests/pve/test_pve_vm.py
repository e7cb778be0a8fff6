"""Reading one VM: one digest, exact absence, placeholders, and who it is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pve_script import Error, Script, Series

from zone9.base.errors import Later
from zone9.pve.errors import Denied, NotFound
from zone9.pve.vm import (
    Absent,
    Pending,
    Placeholder,
    VmReading,
    locate,
    marker_of,
    read_vm,
    uuid_of,
    with_marker,
)

MARKER = "zone9:srv_abc:n0nce"
CONFIG = "GET /nodes/pve1/qemu/101/config"
STATUS = "GET /nodes/pve1/qemu/101/status/current"
PENDING = "GET /nodes/pve1/qemu/101/pending"
GONE = "Configuration file 'nodes/pve1/qemu-server/101.conf' does not exist"
STOPPED = {"status": "stopped", "qmpstatus": "stopped", "uptime": 0, "ha": {"managed": 0}, "vmid": 101}


def config(digest: str = "d1", **more: Any) -> dict[str, Any]:
    return {"digest": digest, "name": "web1", "cores": 1, "memory": "128", "description": MARKER, **more}


def pending(digest: str = "d1", *more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": "name", "value": "web1"}, {"key": "digest", "value": digest}, *more]


async def test_three_reads_of_one_digest() -> None:
    running = {"status": "running", "qmpstatus": "paused", "uptime": 7, "ha": {"managed": 1}}
    changes = [{"key": "cores", "value": 1, "pending": 2}, {"key": "vga", "value": "serial0", "delete": 1}]
    line = "base64=1,uuid=11111111-2222-3333-4444-5555AAAA5555"
    script = Script({CONFIG: config(smbios1=line), STATUS: running, PENDING: pending("d1", *changes)})
    async with script.client() as client:
        reading = await read_vm(client, "pve1", 101)
    assert isinstance(reading, VmReading)
    assert (reading.status, reading.qmpstatus, reading.uptime, reading.digest) == (
        "running",
        "paused",
        7,
        "d1",
    )
    assert (reading.name, reading.lock, reading.running, reading.template) == ("web1", None, True, False)
    assert reading.pending == {"cores": Pending(2), "vga": Pending(None, deleted=True)}
    assert reading.ha_managed
    assert reading.marker == MARKER
    assert reading.uuid == "11111111-2222-3333-4444-5555aaaa5555"
    assert "digest" not in reading.config
    assert reading.witness == "https://127.0.0.1:8006"
    assert [request[2] for request in script.requests] == [{"current": "1"}, {}, {}], (
        "as it runs, not as it will"
    )


async def test_a_change_between_the_reads_is_read_again() -> None:
    script = Script(
        {CONFIG: Series([config("d1"), config("d2", cores=4)]), STATUS: STOPPED, PENDING: pending("d2")}
    )
    async with script.client() as client:
        reading = await read_vm(client, "pve1", 101)
    assert isinstance(reading, VmReading)
    assert (reading.digest, reading.config["cores"]) == ("d2", 4)
    assert len(script.requests) == 6


async def test_a_config_that_never_rests_is_later() -> None:
    script = Script({CONFIG: config("d1"), STATUS: STOPPED, PENDING: pending("d2")})
    async with script.client() as client:
        with pytest.raises(Later) as caught:
            await read_vm(client, "pve1", 101)
    assert caught.value.code == "vm_changing"
    assert len(script.requests) == 9


async def test_absence_has_the_exact_text() -> None:
    script = Script({CONFIG: Error(500, GONE)})
    async with script.client() as client:
        assert await read_vm(client, "pve1", 101) == Absent("pve1", 101, GONE, "https://127.0.0.1:8006")


async def test_a_text_about_another_vm_is_no_absence() -> None:
    script = Script({CONFIG: Error(500, GONE.replace("101", "102"))})
    async with script.client() as client:
        with pytest.raises(NotFound):
            await read_vm(client, "pve1", 101)


async def test_forbidden_is_no_absence() -> None:
    script = Script({CONFIG: Error(403, "Permission check failed (/vms/101, VM.Audit)")})
    async with script.client() as client:
        with pytest.raises(Denied):
            await read_vm(client, "pve1", 101)


async def test_a_vm_that_goes_while_it_is_read_is_looked_at_again() -> None:
    script = Script(
        {CONFIG: Series([config(), Error(500, GONE)]), STATUS: Error(500, GONE), PENDING: pending()}
    )
    async with script.client() as client:
        assert isinstance(await read_vm(client, "pve1", 101), Absent)


@pytest.mark.parametrize(
    ("changes", "lock"),
    [
        ({"lock": "clone", "description": " qmclone temporary file"}, "clone"),
        ({"description": " qmclone temporary file"}, "clone"),
        ({"lock": "clone", "description": "somebody's"}, "clone"),
        ({"lock": "create", "description": ""}, "create"),
    ],
)
async def test_a_placeholder_says_nothing_about_whose_it_is(changes: dict[str, str], lock: str) -> None:
    script = Script({CONFIG: config(**changes)})
    async with script.client() as client:
        found = await read_vm(client, "pve1", 101)
    assert found == Placeholder("pve1", 101, lock, "d1", "https://127.0.0.1:8006")


async def test_a_clone_with_our_marker_is_a_reading() -> None:
    script = Script({CONFIG: config(lock="clone"), STATUS: {**STOPPED, "lock": "clone"}, PENDING: pending()})
    async with script.client() as client:
        found = await read_vm(client, "pve1", 101)
    assert isinstance(found, VmReading)
    assert (found.lock, found.marker) == ("clone", MARKER)


async def test_locate() -> None:
    rows = [{"type": "lxc", "vmid": 101, "node": "pve9"}, {"type": "qemu", "vmid": "102", "node": "pve2"}]
    script = Script({"GET /cluster/resources": rows})
    async with script.client() as client:
        assert await locate(client, 102) == "pve2"
        assert await locate(client, 101) is None
        assert await locate(client, 103) is None
    assert script.requests[0][2] == {"type": "vm"}


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (MARKER, MARKER),
        (f"notes\r\n{MARKER}\r\nmore", MARKER),
        (f" {MARKER} ", MARKER),
        (f"see {MARKER}", None),
        ("zone9:srv_abc", None),
        ("zone9::nonce", None),
        ("", None),
        (None, None),
    ],
)
def test_marker_of(description: str | None, expected: str | None) -> None:
    assert marker_of(description) == expected


@given(st.text(max_size=80) | st.lists(st.sampled_from(["a", "", " b ", "zone9:x:y", "\r"])).map("\n".join))
def test_setting_the_marker_keeps_every_other_line(description: str) -> None:
    marked = with_marker(description, MARKER)
    assert marker_of(marked) == MARKER
    assert with_marker(marked, MARKER) == marked
    moved = with_marker(marked, "zone9:srv_abc:other")
    assert moved == marked.replace(MARKER, "zone9:srv_abc:other", 1)
    others = [line for line in description.split("\n") if line.strip() and marker_of(line) is None]
    assert [line for line in marked.split("\n") if line.strip() and line != MARKER] == others


def test_only_one_marker_stays() -> None:
    assert with_marker(f"a\n{MARKER}\nb\nzone9:srv_x:old\nc", "zone9:srv_y:new") == "a\nzone9:srv_y:new\nb\nc"
    with pytest.raises(ValueError, match="a marker is"):
        with_marker("", "not ours")


def test_uuid_of() -> None:
    assert uuid_of("base64=1,serial=eA==,uuid=ABCD") == "abcd"
    assert uuid_of("serial=x") is None
    assert uuid_of("a,b") is None
    assert uuid_of(None) is None
