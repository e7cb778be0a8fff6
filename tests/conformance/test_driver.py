"""The driver against a Proxmox: a sandbox of its own, or the real one that `ZONE9_PVE_URL` names; one set of asserts.

A real one needs a template whose guest obeys its power button, with a cloud-init drive on ide2 and data on its disk,
an active storage for its disks, and no rule about tags. docs/sandbox.md says how to run it.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from visited import Machine
from visiting import PATIENCE, Place, Visit, eventually

from zone9.pve import inventory, propstring, selftest, tasks, vm, writes
from zone9.pve.client import Client, Endpoint
from zone9.pve.errors import (
    DigestMismatch,
    Exists,
    Locked,
    LockTimeout,
    NotFound,
    PveError,
    Rejected,
    ServerFault,
)
from zone9.pve.vm import Absent, Pending, Placeholder, VmReading
from zone9.sandbox import Durations
from zone9.sandbox.serving import SandboxThread

pytestmark = pytest.mark.timeout(900)
MIB = 1 << 20


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    named = Place.named(os.environ)
    if named is not None:
        yield named.share()
        return
    with SandboxThread(nodes=("pve1", "pve2"), time_scale=0.1, durations=Durations(list_lag=10.0)) as sandbox:
        sandbox.do(lambda: sandbox.add_template(9000, "pve2", disk="4G", used=4 << 30))
        endpoint = Endpoint((sandbox.url,), sandbox.token, sandbox.fingerprint)
        yield Place(endpoint, 9000, range(5000, 5020))
        # Tags and a uuid that cannot be are sent on purpose; nothing else may break Proxmox's schema.
        assert {name for one in sandbox.violations for name in one.errors} <= {"tags", "smbios1"}
        assert all(one.errors for one in sandbox.violations)


@pytest.fixture(scope="module")
def visit(place: Place) -> Iterator[Visit]:
    made = Visit(place)

    async def through(deed: Any) -> None:
        async with Client(place.endpoint) as client:
            await deed(client)

    asyncio.run(through(made.begin))
    yield made
    asyncio.run(through(made.end))


@pytest.fixture
async def pve(place: Place) -> AsyncIterator[Client]:
    async with Client(place.endpoint) as made:
        await made.get("/version")  # from here on it knows the node's clock
        yield made


@pytest.fixture
def fresh(pve: Client, visit: Visit) -> Machine:
    """Is a number without a VM."""
    return Machine(pve, visit, visit.take())


@pytest.fixture
async def machine(fresh: Machine) -> Machine:
    """Is a linked clone of the template, stopped."""
    result = await tasks.wait(fresh.pve, await fresh.clone(), PATIENCE)
    assert result.ok, result
    return fresh


async def test_the_region_passes_its_self_test(pve: Client, place: Place) -> None:
    storages = (place.storage,) if place.storage else ()
    findings = await selftest.self_test(pve, storages=storages)
    assert [one for one in findings if one.severity == "error"] == []


async def test_a_pass_is_complete_and_shows_the_template(pve: Client, visit: Visit) -> None:
    # Node and template are `unknown` until Proxmox's own round has been there.
    seen = await eventually(
        lambda: inventory.read(pve),
        lambda pass_: (
            "unknown" not in {pass_.guests[visit.place.template].status, pass_.nodes[visit.node].status}
        ),
    )
    assert seen.gaps == ()
    assert seen.guests[visit.place.template].template
    assert seen.quorate
    row = seen.guests[visit.place.template]
    assert (row.type, row.node, row.status) == ("qemu", visit.node, "stopped")
    assert seen.nodes[visit.node].status == "online"
    assert any(one.node == visit.node and "images" in one.content for one in seen.storages)


async def test_a_clone_is_ours_and_nobody_elses(pve: Client, visit: Visit, fresh: Machine) -> None:
    before = int(pve.node_now()) - 5
    upid = await fresh.clone()
    assert (upid.type, upid.id, upid.node) == ("qmclone", str(visit.place.template), visit.node)
    assert upid.user == pve.endpoint.token_id
    result = await tasks.wait(pve, upid, PATIENCE)
    assert (result.ok, result.error) == (True, None)

    born = await fresh.read()
    template = await vm.read_vm(pve, visit.node, visit.place.template)
    assert isinstance(template, VmReading)
    assert (born.name, born.status, born.lock, born.template) == (
        f"conformance-{fresh.vmid}",
        "stopped",
        None,
        False,
    )
    assert uuid.UUID(born.uuid or "")
    assert born.uuid != template.uuid
    if "net0" in template.config:
        ours, theirs = (propstring.parse("net0", one.config["net0"]) for one in (born, template))
        assert ours.pop("macaddr") != theirs.pop("macaddr")
        assert ours == theirs
    assert born.config["memory"] == template.config["memory"]
    assert "template" not in born.config

    found = await tasks.find(
        pve,
        visit.node,
        since=before,
        typefilter="qmclone",
        vmid=visit.place.template,
        user=pve.endpoint.token_id,
    )
    assert upid in {row.upid for row in found}
    assert await tasks.find(pve, visit.node, since=before, typefilter="qmclone", vmid=fresh.vmid) == ()
    seen = await eventually(
        lambda: inventory.read(pve),
        lambda pass_: fresh.vmid in pass_.guests and pass_.guests[fresh.vmid].name,
    )
    assert seen.guests[fresh.vmid].name == f"conformance-{fresh.vmid}"
    assert await vm.locate(pve, fresh.vmid) == visit.node


async def test_a_full_clone_says_whose_it_is_only_later(pve: Client, visit: Visit, fresh: Machine) -> None:
    upid = await fresh.clone(full=True)
    seen: list[str] = []
    while True:
        over = (await tasks.task_status(pve, upid)).status == "stopped"
        found = await fresh.look()
        match found:
            case Placeholder():
                seen.append(f"placeholder {found.lock}")
            case VmReading():
                assert found.marker == visit.marker(fresh.vmid)
                seen.append(f"ours {found.lock}")
            case _:
                seen.append("absent")
        if over:
            break
    states = list(dict.fromkeys(seen))
    assert states[-1] == "ours None"
    assert "ours clone" in states
    order = ["absent", "placeholder clone", "ours clone", "ours None"]
    assert states == [one for one in order if one in states]
    assert sorted(seen, key=order.index) == seen
    assert (await tasks.task_status(pve, upid)).ok


async def test_a_number_that_is_taken(machine: Machine) -> None:
    with pytest.raises(Exists):
        await machine.clone()


async def test_an_old_digest_changes_nothing(machine: Machine) -> None:
    old = (await machine.read()).digest
    here = await machine.put({"cores": 1, "description": f"{machine.visit.marker(machine.vmid)}\nsecond"})
    assert here.digest != old
    for write in (writes.set_config, writes.post_config):
        with pytest.raises(DigestMismatch):
            await write(machine.pve, machine.permit, digest=old, settings={"cores": 2}, **machine.where)
    again = await machine.read()
    assert (again.digest, again.config) == (here.digest, here.config)


async def test_tags_and_description_as_they_read_back(machine: Machine) -> None:
    text = f"{machine.visit.marker(machine.vmid)}\nfirst: 50 % Ağrı, second\n  third  \n\n"
    here = await machine.put({"tags": "Zone9-b zone9-a,zone9-b", "description": text})
    assert here.config["tags"] == "zone9-a;zone9-b"
    assert here.description == text.rstrip()
    assert propstring.same("tags", here.config["tags"], "zone9-b;zone9-a")
    with pytest.raises(Rejected):
        await machine.put({"tags": "not&a&tag"})
    assert (await machine.put({"tags": ""})).config["tags"] == " "
    here = await machine.put({}, delete=("tags",))
    assert "tags" not in here.config


async def test_smbios1_is_kept_whole(machine: Machine) -> None:
    identity = str(uuid.uuid4())
    line = propstring.smbios1(identity, serial="zone9:conformance, a=b", product="p")
    here = await machine.put({"smbios1": line})
    assert here.uuid == identity
    assert propstring.same("smbios1", here.config["smbios1"], line)
    fields = propstring.smbios_fields(here.config["smbios1"])
    assert (fields["serial"], fields["product"]) == ("zone9:conformance, a=b", "p")
    with pytest.raises(Rejected) as refused:
        await machine.put({"smbios1": "uuid=not-one"})
    assert refused.value.words["fields"] == ["smbios1"]
    assert (await machine.read()).uuid == identity


async def test_a_disk_grows_to_a_size_and_never_shrinks(machine: Machine) -> None:
    here = await machine.read()
    key = next(one for one in sorted(here.config) if _is_disk(one, str(here.config[one])))
    small = propstring.size_bytes(propstring.parse(key, here.config[key])["size"])
    size = propstring.format_size(small + 64 * MIB)

    async def resize(size: str) -> tasks.TaskResult:
        digest = (await machine.read()).digest
        return await machine.task(writes.resize, disk=key, size=size, digest=digest)

    for _ in range(2):  # the second changes nothing: a size is absolute
        assert (await resize(size)).ok
        grown = await machine.read()
        wanted = propstring.merge(key, here.config[key], size=size)
        assert propstring.same(key, grown.config[key], wanted)
    shrunk = await resize(propstring.format_size(small))
    assert shrunk.error is not None
    assert shrunk.error.code == "shrink"
    assert (await machine.read()).config[key] == grown.config[key]
    stale = await machine.task(writes.resize, disk=key, size=size, digest=here.digest)
    assert isinstance(stale.error, DigestMismatch)


def _is_disk(key: str, line: str) -> bool:
    plain = key.rstrip("0123456789") in {"scsi", "virtio", "sata", "ide"} and key[-1].isdigit()
    return plain and "media=cdrom" not in line and "size=" in line


async def test_a_change_waits_while_the_machine_runs(machine: Machine) -> None:
    stopped = await machine.read()
    before, after = (int(stopped.config["memory"]) + more for more in (0, 16))
    await machine.running()
    here = await machine.put({"memory": str(after)})
    assert here.config["memory"] == str(before)
    assert here.pending["memory"] == Pending(str(after))
    plain = await machine.pve.get(f"/nodes/{machine.visit.node}/qemu/{machine.vmid}/config")
    assert plain["memory"] == str(after)
    assert plain["digest"] == here.digest
    again = await machine.put({"description": f"{here.description}\nlive"})
    assert again.description.endswith("\nlive")
    assert set(again.pending) == {"memory"}

    with pytest.raises(ServerFault) as refused:
        await writes.delete(machine.pve, machine.permit, **machine.where)
    assert refused.value.code == "still_running"
    second = await machine.task(writes.start)
    assert second.error is not None
    assert second.error.code == "already_running"
    assert second.log_tail

    assert (await machine.task(writes.stop)).ok
    off = await machine.read()
    assert (off.status, off.config["memory"], off.pending) == ("stopped", str(after), {})
    assert (await machine.task(writes.stop)).ok


async def test_a_guest_is_asked_to_go_and_to_come_again(machine: Machine) -> None:
    before = int(machine.pve.node_now()) - 1
    await machine.running()
    first = await machine.read()
    result = await machine.off(writes.reboot)
    assert result.upid.type == "qmreboot"
    back = await eventually(machine.read, lambda one: one.running)
    assert back.config == first.config

    async def starts() -> tuple[tasks.TaskRow, ...]:
        return await tasks.find(
            machine.pve, machine.visit.node, since=before, typefilter="qmstart", vmid=machine.vmid
        )

    rows = await eventually(starts, lambda rows: len(rows) > 1 and not any(row.running for row in rows))
    assert {row.upid.user for row in rows if row.exitstatus == "OK"} == {
        machine.pve.endpoint.token_id,
        "root@pam",
    }
    result = await machine.off(writes.shutdown)
    assert result.upid.type == "qmshutdown"
    off = await machine.read()
    assert (off.status, off.uptime) == ("stopped", 0)
    assert (await machine.task(writes.shutdown, timeout=10)).ok


async def test_what_is_absent_says_so_in_these_words(fresh: Machine) -> None:
    found = await fresh.look()
    assert isinstance(found, Absent)
    assert found.text == fresh.absent
    started = await fresh.task(writes.start)
    assert isinstance(started.error, NotFound)
    assert started.error.words["text"] == fresh.absent
    with pytest.raises(NotFound) as gone:
        await writes.set_config(
            fresh.pve, fresh.permit, digest="0" * 40, settings={"cores": 1}, **fresh.where
        )
    assert gone.value.words["text"] == fresh.absent
    with pytest.raises(NotFound):
        await writes.delete(fresh.pve, fresh.permit, **fresh.where)
    with pytest.raises(Rejected) as template:
        await writes.clone(
            fresh.pve,
            fresh.permit,
            node=fresh.visit.node,
            template=fresh.vmid,
            newid=fresh.vmid,
            name="nobody",
            description=fresh.visit.marker(fresh.vmid),
        )
    assert template.value.code == "template_missing"
    assert await vm.locate(fresh.pve, fresh.vmid) is None


async def test_a_machine_that_is_being_made_is_locked_and_goes_when_its_task_is_stopped(
    visit: Visit, fresh: Machine
) -> None:
    form = {
        "newid": fresh.vmid,
        "name": f"conformance-{fresh.vmid}",
        "description": visit.marker(fresh.vmid),
        "storage": visit.place.storage,
        "full": True,
        "bwlimit": 1024,  # KiB a second, which the driver never asks for: here the copy has to last
    }
    path = f"/nodes/{visit.node}/qemu/{visit.place.template}/clone"
    upid = tasks.Upid.parse(await fresh.pve.write("POST", path, form, node=visit.node, permit=fresh.permit))
    visit.clones[fresh.vmid] = upid
    # The cloud-init drive is copied first; from then on the config says whose it is.
    found = await eventually(fresh.look, lambda one: isinstance(one, VmReading))
    assert isinstance(found, VmReading)
    assert (found.lock, found.marker) == ("clone", visit.marker(fresh.vmid))
    for write in (writes.set_config, writes.post_config):
        with pytest.raises(Locked) as refused:
            await write(fresh.pve, fresh.permit, digest=found.digest, settings={"cores": 1}, **fresh.where)
        assert refused.value.words["lock"] == "clone"
    started = await writes.start(fresh.pve, fresh.permit, **fresh.where)
    assert started is not None
    assert isinstance((await tasks.wait(fresh.pve, started, PATIENCE)).error, LockTimeout)
    rows = await tasks.find(fresh.pve, visit.node, since=upid.starttime, typefilter="qmclone")
    assert {row.upid: row.running for row in rows}[upid]

    await tasks.stop(fresh.pve, upid, fresh.permit)
    result = await tasks.wait(fresh.pve, upid, PATIENCE)
    assert not result.ok
    assert isinstance(result.error, PveError)
    assert result.log_tail
    assert isinstance(await fresh.look(), Absent)


async def test_a_deleted_machine_leaves_its_record(machine: Machine) -> None:
    result = await machine.task(writes.delete)
    assert (result.ok, result.upid.type, result.upid.id) == (True, "qmdestroy", str(machine.vmid))
    for _ in range(2):
        gone = await machine.look()
        assert isinstance(gone, Absent)
        assert gone.text == machine.absent
    find = {"typefilter": "qmdestroy", "vmid": machine.vmid}
    (row,) = await tasks.find(
        machine.pve,
        machine.visit.node,
        since=result.upid.starttime,
        user=machine.pve.endpoint.token_id,
        **find,
    )
    assert (row.upid, row.running, row.exitstatus) == (result.upid, False, "OK")
    later = await tasks.find(machine.pve, machine.visit.node, since=result.upid.starttime + 3600, **find)
    assert later == ()
    other = await tasks.find(machine.pve, machine.visit.node, since=0, user="nobody@pve!x", **find)
    assert other == ()
    await eventually(lambda: inventory.read(machine.pve), lambda pass_: machine.vmid not in pass_.guests)
