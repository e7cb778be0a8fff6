"""Texts that Proxmox VE 9.2 really answered, and the decision each of them is."""

import pytest

from zone9.base.errors import Later, Never, Problem, Unreachable
from zone9.pve import errors
from zone9.pve.errors import (
    Denied,
    DigestMismatch,
    Exists,
    HotplugProblem,
    Locked,
    LockTimeout,
    NodeDown,
    NoQuorum,
    NotConnected,
    NotFound,
    PveError,
    Rejected,
    ServerFault,
    ShutdownTimeout,
    TaskFailed,
    Unauthenticated,
    UnknownOutcome,
    classify,
    classify_exit,
)

GONE = "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist"
LOCK_TIMEOUT = "can't lock file '/var/lock/qemu-server/lock-101.conf' - got timeout"

# Recorded from Proxmox's own code unless a comment says otherwise.
ANSWERS = [
    ("POST", 500, "unable to create VM 102: config file already exists", Exists),
    ("POST", 500, "unable to create VM 101 - VM 101 already exists on node 'pve1'", Exists),
    ("POST", 500, "unable to create VM 101 - CT 101 already exists on node 'pve1'", Exists),
    ("PUT", 500, "checksum mismatch (file change by other user?)", DigestMismatch),
    ("PUT", 500, "detected modified configuration - file changed by other user? Try again.", DigestMismatch),
    ("PUT", 500, "VM is locked (backup)", Locked),
    ("PUT", 500, "VM is locked (clone)", Locked),
    ("PUT", 500, LOCK_TIMEOUT, LockTimeout),
    ("POST", 500, f"unable to create VM 301 - {LOCK_TIMEOUT}", LockTimeout),
    # Texts of pve-cluster's cfs_lock (old and new) and of its quorum check, not recorded.
    ("POST", 500, "error with cfs lock 'storage-nfs': got lock request timeout", LockTimeout),
    ("POST", 500, "cfs-lock 'storage-nfs' error: no quorum!", NoQuorum),
    ("POST", 500, "cfs-lock 'storage-nfs' error: storage is not online", ServerFault),
    ("POST", 500, "cfs-lock 'storage-nfs' error: got lock request timeout", LockTimeout),
    ("POST", 500, "cluster not ready - no quorum?", NoQuorum),
    ("GET", 500, GONE, NotFound),
    ("GET", 500, "hostname lookup 'nosuch' failed - failed to get address info for: nosuch: Name", NodeDown),
    ("GET", 595, "Connection refused", NodeDown),
    ("PUT", 596, "Connection timed out", UnknownOutcome),
    ("PUT", 597, "", UnknownOutcome),
    ("PUT", 599, "Too many redirections", UnknownOutcome),
    ("PUT", 502, "Bad Gateway", UnknownOutcome),
    ("POST", 504, "Gateway Time-out", UnknownOutcome),
    ("GET", 502, "Bad Gateway", ServerFault),
    ("GET", 401, "Authentication failed!", Unauthenticated),
    ("GET", 401, "No ticket", Unauthenticated),
    ("GET", 403, "Permission check failed (/vms/999, VM.Audit)", Denied),
    ("POST", 403, "Permission check failed", Denied),
    ("POST", 403, "Permission check failed (pool 'nosuch' does not exist)", Denied),
    ("GET", 501, "Method 'GET /nodes/pve1/qemu/999/nosuch' not implemented", Rejected),
    ("PUT", 400, "Parameter verification failed.", Rejected),
    ("POST", 500, "unable to find configuration file for VM 999 on node 'pve1'", Rejected),
    ("POST", 500, "no such cluster node 'nosuch'", Rejected),
    ("DELETE", 500, "can't remove VM 103 - protection mode enabled", Rejected),
    ("PUT", 500, "only root can set 'args' config", Rejected),
    ("PUT", 500, "no options specified", Rejected),
    ("POST", 500, "parameter 'storage' not allowed for linked clones", Rejected),
    ("PUT", 500, "storage 'nosuch' does not exist", Rejected),
    ("PUT", 500, "balloon value too large (must be smaller than assigned memory)", Rejected),
    ("PUT", 500, "invalid bootorder: device 'scsi8' does not exist'", Rejected),
    ("DELETE", 500, "VM 101 is running - destroy failed", ServerFault),
    ("POST", 500, "VM 391 not running", ServerFault),
    ("POST", 500, "QEMU guest agent is not running", ServerFault),
]

# Sentences that look like an absent VM and are not.
NOT_ABSENCE = [
    (500, "volume 'vmstore:113/vm-113-disk-77.qcow2' does not exist"),
    (500, "storage 'nosuch' does not exist"),
    (500, "snapshot 'nosuch' does not exist"),
    (500, "unable to find configuration file for VM 999 on node 'pve1'"),
    (500, GONE.lower()),
    (500, GONE + " any more"),
    (500, "update failed: " + GONE),
    (500, "Configuration file 'nodes/pve1/lxc/999.conf' does not exist"),
    (404, GONE),
    (403, GONE),
    (400, GONE),
    (595, GONE),
    (596, GONE),
]

EXITS = [
    (LOCK_TIMEOUT, LockTimeout),
    (f"clone failed: {LOCK_TIMEOUT}", LockTimeout),
    ("VM is locked (backup)", Locked),
    ("checksum mismatch (file change by other user?)", DigestMismatch),
    (GONE, NotFound),
    # Not recorded: the text of PVE::Tools::file_set_contents with pmxcfs's EEXIST.
    ("close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/300.conf' failed: File exists", Exists),
    ("close (rename) atomic file '/etc/pve/storage.cfg' failed: File exists", TaskFailed),
    ("unexpected status", UnknownOutcome),
    ("VM quit/powerdown failed - got timeout", ShutdownTimeout),
    ("shrinking disks is not supported", Rejected),
    ("you can't start a vm if it's a template", Rejected),
    ("bridge 'vmbr77' does not exist", Rejected),
    ("MAX 2 vcpus allowed per VM on this node", Rejected),
    ("minimum memory must be 1024MB", Rejected),
    ("base volume 'vmstore:101/base-101-disk-0.qcow2' is still in use by linked cloned", Rejected),
    ("could not activate storage 'no': storage 'no' does not exist could not get storage", Rejected),
    ("VM 101 already running", ServerFault),
    ("start failed: QEMU exited with code 1", TaskFailed),
    ("checksum mismatch: got 'aa' != expect 'bb'", TaskFailed),
    ("clone failed: copy failed: command '/usr/bin/qemu-img convert' failed: exit code 1", TaskFailed),
    ("403 Permission check failed (/vms/308, VM.Backup)", Denied),
    (
        "400 Parameter verification failed. net1: hotplug problem - interface vmbr77 does not exist",
        HotplugProblem,
    ),
    ("400 Parameter verification failed. net1: invalid format", Rejected),
    ("ok", TaskFailed),
    ("WARNINGS: many", TaskFailed),
    ("", TaskFailed),
]


@pytest.mark.parametrize(("method", "status", "text", "kind"), ANSWERS)
@pytest.mark.parametrize("with_body", [True, False])
def test_answers(method: str, status: int, text: str, kind: type[PveError], with_body: bool) -> None:
    body = {"data": None, "message": text + "\n"} if with_body else None
    error = classify(method, status, "" if with_body else text, body)
    assert type(error) is kind
    assert text in error.internal
    assert not text or text not in error.public
    assert error.public.endswith(".")
    assert "/" not in error.public.replace("quit/", "")


@pytest.mark.parametrize(("status", "text"), NOT_ABSENCE)
def test_what_is_not_absence(status: int, text: str) -> None:
    assert not isinstance(classify("GET", status, text, {"message": text, "data": None}), NotFound)


@pytest.mark.parametrize(("text", "kind"), EXITS)
def test_exits(text: str, kind: type[PveError]) -> None:
    error = classify_exit(text)
    assert type(error) is kind
    assert text in error.internal


@pytest.mark.parametrize("text", ["OK", "WARNINGS: 1", "WARNINGS: 12"])
def test_success(text: str) -> None:
    assert classify_exit(text) is None


def test_a_hotplug_problem_names_what_was_not_done() -> None:
    body = {
        "data": None,
        "message": "Parameter verification failed.\n",
        "errors": {"scsi0": "hotplug problem - can't unplug bootdisk 'scsi0'\n"},
    }
    error = classify("PUT", 400, "Parameter verification failed.", body)
    assert type(error) is HotplugProblem
    assert error.words["keys"] == ["scsi0"]
    assert "bootdisk" in error.internal


def test_a_refused_parameter_is_named() -> None:
    body = {"message": "Parameter verification failed.", "errors": {"cores": "type check failed"}}
    error = classify("PUT", 400, "x", body)
    assert type(error) is Rejected
    assert error.words["fields"] == ["cores"]


def test_lock_timeouts_come_back_with_jitter() -> None:
    delays = {classify("PUT", 500, LOCK_TIMEOUT, jitter=lambda n=n: n).delay for n in (0.0, 0.5, 1.0)}
    assert delays == {2.0, 5.0, 8.0}
    assert classify_exit(LOCK_TIMEOUT, jitter=lambda: 0.25).delay == 3.5


def test_the_lock_and_the_exact_text_are_kept() -> None:
    assert classify("PUT", 500, "VM is locked (snapshot-delete)").words["lock"] == "snapshot-delete"
    assert "snapshot-delete" in classify("PUT", 500, "VM is locked (snapshot-delete)").public
    assert classify("GET", 500, GONE).words["text"] == GONE


def test_decisions() -> None:
    later = (
        Exists,
        DigestMismatch,
        Locked,
        LockTimeout,
        NoQuorum,
        NotFound,
        Denied,
        Unauthenticated,
        HotplugProblem,
    )
    for kind in (*later, ServerFault, TaskFailed):
        assert issubclass(kind, Later)
        assert not issubclass(kind, Unreachable)
    for kind in (NotConnected, NodeDown, UnknownOutcome):
        assert issubclass(kind, Unreachable)
    for kind in (Rejected, ShutdownTimeout):
        assert issubclass(kind, Never)
    assert {kind for kind in _tree(PveError) if kind.region_degraded} == {Denied, Unauthenticated}


def _tree(kind: type[PveError]) -> set[type[PveError]]:
    return {kind}.union(*(_tree(child) for child in kind.__subclasses__()))


def test_each_class_has_its_own_code_and_is_in_the_drawn_tree() -> None:
    kinds = _tree(PveError)
    assert len({kind.code for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert kind.__name__ in errors.__doc__
        assert issubclass(kind, Problem)
