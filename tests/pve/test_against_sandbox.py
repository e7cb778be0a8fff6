"""The driver against the sandbox: a strict Proxmox over TLS, with the faults that matter."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from pve_script import Allowed

from zone9.pve import inventory, propstring, selftest, tasks, vm, writes
from zone9.pve.client import Client, Endpoint
from zone9.pve.errors import (
    Denied,
    DigestMismatch,
    Exists,
    Locked,
    LockTimeout,
    NodeDown,
    NoQuorum,
    NotFound,
    PveError,
    Unauthenticated,
    UnknownOutcome,
)
from zone9.pve.vm import Absent, Placeholder, VmReading
from zone9.sandbox import Sandbox

MARKER = "zone9:srv_a:nonce1"
PERMIT = Allowed()


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(seed=1) as running:
        running.add_template(9000)
        yield running
        assert running.violations == []


@pytest.fixture
async def pve(sandbox: Sandbox) -> AsyncIterator[Client]:
    async with Client(Endpoint((sandbox.url,), sandbox.token, fingerprint=sandbox.fingerprint)) as made:
        yield made


async def reading(pve: Client, vmid: int, node: str = "pve1") -> VmReading:
    found = await vm.read_vm(pve, node, vmid)
    assert isinstance(found, VmReading)
    return found


async def done(pve: Client, upid: tasks.Upid | None) -> tasks.TaskResult:
    assert upid is not None
    return await tasks.wait(pve, upid, 10)


async def clone(pve: Client, newid: int = 5000) -> tasks.TaskResult:
    upid = await writes.clone(
        pve, PERMIT, node="pve1", template=9000, newid=newid, name=f"web{newid}", description=MARKER
    )
    return await done(pve, upid)


async def test_a_life_of_a_vm(sandbox: Sandbox, pve: Client) -> None:
    assert (await clone(pve)).ok
    born = await reading(pve, 5000)
    assert (born.marker, born.status, born.name) == (MARKER, "stopped", "web5000")

    identity = "11111111-2222-3333-4444-555555555555"
    settings = {
        "cores": 2,
        "memory": "1024",
        "smbios1": propstring.smbios1(identity, serial="z9:token"),
        "net0": propstring.merge("net0", born.config["net0"], tag=12),
        "description": vm.with_marker(born.description, MARKER),
    }
    where = {"node": "pve1", "vmid": 5000}
    await writes.set_config(pve, PERMIT, digest=born.digest, settings=settings, **where)
    named = await reading(pve, 5000)
    assert named.uuid == identity
    for key, wanted in settings.items():
        assert propstring.same(key, named.config[key], wanted), key
    assert named.digest != born.digest

    disk = propstring.parse("scsi0", named.config["scsi0"])
    size = propstring.format_size(propstring.size_bytes(disk["size"]) + (1 << 30))
    upid = await writes.resize(pve, PERMIT, disk="scsi0", size=size, digest=named.digest, **where)
    assert (await done(pve, upid)).ok
    grown = await reading(pve, 5000)
    assert propstring.same(
        "scsi0", grown.config["scsi0"], propstring.merge("scsi0", named.config["scsi0"], size=size)
    )

    await writes.regenerate_cloudinit(pve, PERMIT, **where)
    assert (await done(pve, await writes.start(pve, PERMIT, **where))).ok
    running = await reading(pve, 5000)
    assert running.running

    upid = await writes.post_config(pve, PERMIT, digest=running.digest, settings={"cores": 1}, **where)
    if upid is not None:
        assert (await done(pve, upid)).ok
    waiting = await reading(pve, 5000)
    assert (waiting.config["cores"], waiting.pending["cores"]) == (2, vm.Pending(1))

    assert (await done(pve, await writes.shutdown(pve, PERMIT, timeout=60, **where))).ok
    off = await reading(pve, 5000)
    assert (off.status, off.config["cores"], off.pending) == ("stopped", 1, {})
    assert (await done(pve, await writes.delete(pve, PERMIT, **where))).ok
    gone = await vm.read_vm(pve, "pve1", 5000)
    assert isinstance(gone, Absent)
    assert gone.text == "Configuration file 'nodes/pve1/qemu-server/5000.conf' does not exist"

    rows = await tasks.find(pve, "pve1", since=0, vmid=5000, user=pve.endpoint.token_id)
    assert {row.upid.type for row in rows} >= {"qmstart", "qmshutdown", "qmdestroy"}
    assert all(row.exitstatus == "OK" for row in rows)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("lock_timeout", LockTimeout),
        ("storage_lock_timeout", LockTimeout),
        ("locked", Locked),
        ("no_quorum", NoQuorum),
        ("node_down", NodeDown),
        ("broken_pipe", UnknownOutcome),
        ("proxy_timeout", UnknownOutcome),
        ("cut_body", UnknownOutcome),
        ("internal_59x", UnknownOutcome),
        ("denied", Denied),
        ("unauthenticated", Unauthenticated),
        ("exists", Exists),
        ("not_found", NotFound),
        ("digest", DigestMismatch),
        ("drop_before", UnknownOutcome),
        ("lose_answer", UnknownOutcome),
    ],
)
async def test_faults_have_their_class(
    sandbox: Sandbox, pve: Client, fault: str, kind: type[PveError]
) -> None:
    sandbox.add_vm(101)
    here = await reading(pve, 101)
    sandbox.faults.add(fault, "PUT", "*/config")
    with pytest.raises(kind):
        await writes.set_config(pve, PERMIT, node="pve1", vmid=101, digest=here.digest, settings={"cores": 2})
    assert len([asked for asked in sandbox.requests if asked.method == "PUT"]) == 1


async def test_a_lost_answer_is_found_by_reading_back(sandbox: Sandbox, pve: Client) -> None:
    sandbox.faults.add("lose_answer", "POST", "*/clone", times=1)
    with pytest.raises(UnknownOutcome):
        await clone(pve)
    rows = await tasks.find(pve, "pve1", since=0, typefilter="qmclone", vmid=9000, user=pve.endpoint.token_id)
    assert len(rows) == 1
    assert (await tasks.wait(pve, rows[0].upid, 10)).ok
    assert (await reading(pve, 5000)).marker == MARKER


async def test_a_number_that_is_taken(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(5000)
    with pytest.raises(Exists):
        await clone(pve)


async def test_a_number_that_is_taken_on_another_node_shows_in_the_task(
    sandbox: Sandbox, pve: Client
) -> None:
    sandbox.add_vm(5000, "pve2", name="theirs")
    digest = sandbox.vms[5000].file.digest
    result = await clone(pve)
    assert isinstance(result.error, Exists)
    assert isinstance(await vm.read_vm(pve, "pve1", 5000), Absent)
    theirs = await reading(pve, 5000, "pve2")
    assert (theirs.name, theirs.digest) == ("theirs", digest)


async def test_a_digest_that_is_old(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(101)
    old = (await reading(pve, 101)).digest
    sandbox.operator.set(101, cores=4)
    for write in (writes.set_config, writes.post_config):
        with pytest.raises(DigestMismatch):
            await write(pve, PERMIT, node="pve1", vmid=101, digest=old, settings={"cores": 2})


async def test_a_lock_is_an_error_of_the_task_or_of_the_answer(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(101)
    sandbox.operator.set_lock(101, "backup")
    here = await reading(pve, 101)
    assert here.lock == "backup"
    with pytest.raises(Locked):
        await writes.set_config(pve, PERMIT, node="pve1", vmid=101, digest=here.digest, settings={"cores": 2})
    result = await done(pve, await writes.start(pve, PERMIT, node="pve1", vmid=101))
    assert isinstance(result.error, Locked)
    assert result.log_tail


async def test_starting_what_is_absent_fails_in_the_task(sandbox: Sandbox, pve: Client) -> None:
    result = await done(pve, await writes.start(pve, PERMIT, node="pve1", vmid=999))
    assert isinstance(result.error, NotFound)


async def test_warnings_are_success_with_their_log(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(101)
    sandbox.faults.add("warnings", "POST", "*/status/start", count=2)
    result = await done(pve, await writes.start(pve, PERMIT, node="pve1", vmid=101))
    assert (result.ok, result.warnings, result.error) == (True, 2, None)


async def test_a_moved_vm_is_absent_here_and_located_there(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(101)
    await sandbox.operator.migrate(101, "pve2")
    assert isinstance(await vm.read_vm(pve, "pve1", 101), Absent)
    assert await vm.locate(pve, 101) == "pve2"
    assert (await reading(pve, 101, "pve2")).node == "pve2"


def set_role(sandbox: Sandbox, *without: str) -> None:
    sandbox.accounts.roles["Zone9"] = frozenset(selftest.PRIVILEGES) - set(without)
    sandbox.accounts.changed()


async def test_the_rights_that_are_missing_are_named(sandbox: Sandbox, pve: Client) -> None:
    set_role(sandbox)
    assert await selftest.self_test(pve, storages=("vmstore",), max_skew=1e9) == ()
    set_role(sandbox, "VM.Clone")
    (finding,) = await selftest.self_test(pve, storages=("vmstore",), max_skew=1e9)
    assert (finding.code, finding.severity) == ("privilege_missing", "error")
    assert "VM.Clone" in finding.sentence
    set_role(sandbox, *selftest.PRIVILEGES)
    findings = await selftest.self_test(pve, storages=("vmstore",), max_skew=1e9)
    assert {finding.code for finding in findings} >= {"no_privileges", "pve_denied"}


async def test_the_role_is_enough_for_all_of_it(sandbox: Sandbox, pve: Client) -> None:
    set_role(sandbox)
    await test_a_life_of_a_vm(sandbox, pve)


async def test_a_pass_and_its_changes(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(101, name="web1")
    before = await inventory.read(pve)
    assert before.complete
    assert before.guests[101].name == "web1"
    assert before.guests[9000].template
    sandbox.operator.set(101, name="renamed")
    sandbox.add_vm(102)
    changes = inventory.changed_rows(before.guests, (await inventory.read(pve)).guests)
    assert (changes.changed, changes.appeared, changes.vanished) == ({101}, {102}, set())
    sandbox.set_node_online("pve3", online=False)
    assert (await inventory.read(pve)).gaps == ("Node pve3 is offline.",)


async def test_many_readings_at_once_are_each_of_one_moment(sandbox: Sandbox, pve: Client) -> None:
    sandbox.add_vm(101)

    async def edit() -> None:
        for number in range(5):
            sandbox.operator.set(101, description=f"edit {number}")
            await asyncio.sleep(0.01)

    found, *_rest = await asyncio.gather(vm.read_vm(pve, "pve1", 101), edit())
    assert isinstance(found, VmReading | Placeholder)
