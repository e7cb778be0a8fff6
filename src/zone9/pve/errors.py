"""Why: Proxmox says nearly everything with a 500 and a Perl sentence; this turns each into one decision.

    PveError                 everything that Proxmox, or the way to it, answered
    ├── Exists               Later        the VMID has a config file already: take the next, never adopt
    ├── DigestMismatch       Later        the config changed since it was read: read again
    ├── Locked               Later        `VM is locked (x)`: somebody works on it; wait, never unlock
    ├── LockTimeout          Later        `can't lock file`: passes; retried with jitter
    ├── NoQuorum             Later        the cluster refuses writes
    ├── HotplugProblem       Later        a part of the change was made: read back
    ├── NotFound             Later        the exact "Configuration file ... does not exist", nothing less
    ├── Denied               Later        403, the region is degraded
    ├── Unauthenticated      Later        401, the region is degraded
    ├── ServerFault          Later        every other 5xx
    │   └── TaskFailed       Later        every other exit text of a task
    ├── NotConnected         Unreachable  no connection was made, so nothing was sent
    ├── NodeDown             Unreachable  595: the asked host cannot reach the node, nothing was done
    ├── UnknownOutcome       Unreachable  596, 597, 599, time-out, reset: read back before anything else
    ├── Rejected             Never        the request cannot be: other 4xx, 501, and 500s that say so
    └── ShutdownTimeout      Never        the guest did not shut down in time; it is never stopped unasked

Texts are compared whole and case-sensitively: a rule that matches a part of a sentence has taken "volume
does not exist" for "VM does not exist" before. `public` has no word of Proxmox's; `internal` has its text.
This module never looks at the network and never decides by itself that something is gone.
"""

import random
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from zone9.base.errors import Later, Never, Problem, Unreachable


class PveError(Problem):
    """Is the root: catch it to catch whatever Proxmox can answer."""

    code = "pve_error"
    sentence: ClassVar[str] = "Proxmox answered with an error."
    region_degraded: ClassVar[bool] = False
    wait: ClassVar[float | None] = None


class Exists(PveError, Later):
    """The VMID asked for has a config file."""

    code = "pve_exists"
    sentence = "This VM number is taken on the Proxmox cluster."
    wait = 0.0


class DigestMismatch(PveError, Later):
    """The digest sent is not the file's; also a backup that set its lock does this."""

    code = "pve_digest_mismatch"
    sentence = "The VM's configuration changed while it was being edited; it is read again."
    wait = 0.0


class Locked(PveError, Later):
    """`words["lock"]` names the lock."""

    code = "pve_locked"
    sentence = "Proxmox is working on this VM ({lock}); zone9 waits until it is done."
    wait = 5.0


class LockTimeout(PveError, Later):
    """Proxmox waited for a lock and gave up: parallel clones, or its clean-up after a stop (up to 30 s)."""

    code = "pve_lock_timeout"
    sentence = "Proxmox was busy with this VM; zone9 tries again shortly."


class NoQuorum(PveError, Later):
    """pmxcfs is read-only until the cluster has a majority."""

    code = "pve_no_quorum"
    sentence = "The Proxmox cluster has no quorum, so it refuses changes."
    wait = 15.0


class NotFound(PveError, Later):
    """Is evidence of absence, and only with a second look; `words["text"]` is the exact sentence."""

    code = "pve_not_found"
    sentence = "Proxmox has no configuration of this VM on the node that was asked."
    wait = 0.0


class Denied(PveError, Later):
    """The token lacks a privilege; an absent VM looks the same."""

    code = "pve_denied"
    sentence = "The Proxmox token lacks a privilege that this needs."
    region_degraded = True
    wait = 60.0


class Unauthenticated(PveError, Later):
    """The token is wrong or expired; each try costs Proxmox 3 s, so do not hammer."""

    code = "pve_unauthenticated"
    sentence = "Proxmox does not accept the token of this region."
    region_degraded = True
    wait = 60.0


class HotplugProblem(PveError, Later):
    """`words["keys"]` names what could not be changed live; everything else of the request was done."""

    code = "pve_hotplug_problem"
    sentence = "Proxmox made a part of the change; the rest could not be made while the VM runs."


class ServerFault(PveError, Later):
    """Any 5xx that nobody has named yet."""

    code = "pve_server_fault"
    sentence = "Proxmox could not do this just now."


class TaskFailed(ServerFault):
    """A task ended with a text that nobody has named yet."""

    code = "pve_task_failed"
    sentence = "A Proxmox task failed."


class NotConnected(PveError, Unreachable):
    """Refused, time-out of the connect, or a certificate that is not the pinned one."""

    code = "pve_not_connected"
    sentence = "Proxmox could not be reached."


class NodeDown(PveError, Unreachable):
    """595: the connection to the node was never made."""

    code = "pve_node_down"
    sentence = "The Proxmox node of this VM does not answer."
    wait = 15.0


class UnknownOutcome(PveError, Unreachable):
    """The request left and no answer came: it may have been done, may be running, or never arrived."""

    code = "pve_unknown_outcome"
    sentence = "Proxmox did not answer in time, so zone9 looks at what really happened."


class Rejected(PveError, Never):
    """Waiting does not help; `words["fields"]` names parameters where Proxmox did."""

    code = "pve_rejected"
    sentence = "Proxmox refused the request as invalid."


class ShutdownTimeout(PveError, Never):
    """Shutdown or reboot: the guest runs on."""

    code = "pve_shutdown_timeout"
    sentence = "The guest did not shut down in time; it runs on."


Kind = type[PveError]
_PREFIX = r"(?:(?:clone failed|unable to create VM \d+|copy failed|resize failed|error)(?::| -) )*"
_CFS = r"(?:cfs-lock '[^']+' error: |error with cfs lock '[^']+': )?"

# Whole texts of Proxmox, first match wins. Sources: pve-facts sections 3 and 6, and the recorded answers.
_TEXTS: tuple[tuple[str, Kind, str | None, str | None], ...] = (
    (r"unable to create VM \d+: config file already exists", Exists, None, None),
    (r"unable to create VM \d+ - (?:VM|CT) \d+ already exists on node '[^']+'", Exists, None, None),
    # A clone to a number that a container, or a VM on another node, has: its task's exit text (API2/Qemu.pm).
    (
        r"close \(rename\) atomic file '/etc/pve/nodes/[^/']+/qemu-server/\d+\.conf' failed: File exists",
        Exists,
        None,
        None,
    ),
    (r"checksum mismatch \(file change by other user\?\)", DigestMismatch, None, None),
    (
        r"detected modified configuration - file changed by other user\? Try again\.",
        DigestMismatch,
        None,
        None,
    ),
    (_PREFIX + r"VM is locked(?: \((?P<lock>[a-z-]+)\))?", Locked, None, None),
    (_PREFIX + r"can't lock file '[^']+' - got timeout", LockTimeout, None, None),
    (_PREFIX + _CFS + r"got lock request timeout", LockTimeout, None, None),
    (_PREFIX + _CFS + r"no quorum!", NoQuorum, None, None),
    (_PREFIX + r"cluster not ready - no quorum\?", NoQuorum, None, None),
    (
        r"(?P<text>Configuration file 'nodes/[^/']+/qemu-server/\d+\.conf' does not exist)",
        NotFound,
        None,
        None,
    ),
    (r"hostname lookup '[^']+' failed - .*", NodeDown, None, None),
    (r"no such cluster node '[^']+'", Rejected, "no_such_node", "Proxmox knows no node of this name."),
    (
        r"unable to find configuration file for VM \d+ on node '[^']+'",
        Rejected,
        "template_missing",
        "The template is not on the node that was asked.",
    ),
    (
        r"can't remove VM \d+ - protection mode enabled",
        Rejected,
        "protected",
        "The VM is protected in Proxmox; take the protection off first.",
    ),
    (r"VM \d+ is running - destroy failed", ServerFault, "still_running", "The VM still runs."),
    (r"VM \d+ not running", ServerFault, "not_running", "The VM does not run."),
    (r"VM \d+ already running", ServerFault, "already_running", "The VM runs already."),
    (r"VM quit/powerdown failed(?: - got timeout)?", ShutdownTimeout, None, None),
    (r"you can't start a vm if it's a template", Rejected, "is_template", "A template cannot be started."),
    (
        r"base volume '[^']+' is still in use by linked cloned?s?",
        Rejected,
        "template_in_use",
        "Servers still use the disk of this template.",
    ),
    (
        r"(?:could not activate storage '[^']+': )?storage '[^']+' does not exist.*",
        Rejected,
        "no_such_storage",
        None,
    ),
    (r"storage '[^']+' does not support '[^']+' content", Rejected, "storage_content", None),
    (r"bridge '[^']+' does not exist", Rejected, "no_such_bridge", "The node has no bridge of this name."),
    (r"no physical interface on bridge '[^']+'", Rejected, "bridge_without_port", None),
    (
        r"MAX \d+ vcpus allowed per VM on this node",
        Rejected,
        "too_many_cpus",
        "The node has fewer CPUs.",
    ),
    (r"minimum memory must be \d+MB", Rejected, "too_little_memory", None),
    (r"balloon value too large \(must be smaller than assigned memory\)", Rejected, "balloon", None),
    (r"shrinking disks is not supported", Rejected, "shrink", "Disks can grow, not shrink."),
    (r"you can't resize a cdrom", Rejected, "cdrom", None),
    (r"disk '[^']+' does not exist", Rejected, "no_such_disk", None),
    (r"volume '[^']+' does not exist", Rejected, "no_such_volume", None),
    (r"invalid bootorder: device '[^']+' does not exist'?", Rejected, "bootorder", None),
    (r"Linked clone feature is not supported for .*", Rejected, "linked_clone", None),
    (r"parameter '[^']+' not allowed for linked clones", Rejected, "linked_clone", None),
    (r"\w+ - cloud-init drive is already attached at '\w+'", Rejected, "cloudinit_drive", None),
    (r"unable to parse directory volume name '.*'", Rejected, "volume_name", None),
    (r"[Oo]nly root can .*", Rejected, "root_only", "Proxmox keeps this for its root user."),
    (r"no options specified", Rejected, "empty", None),
    (r"unexpected status", UnknownOutcome, None, None),
)
_TABLE = tuple((re.compile(text, re.DOTALL), kind, code, said) for text, kind, code, said in _TEXTS)
_HOTPLUG_EXIT = re.compile(r"400 Parameter verification failed\.\s+(?:\w+: hotplug problem - .*)+", re.DOTALL)
_DENIED_EXIT = re.compile(r"403 Permission check failed.*", re.DOTALL)
_INVALID_EXIT = re.compile(r"400 (?:Parameter verification failed|bad request).*", re.DOTALL)
_WARNINGS = re.compile(r"WARNINGS: \d+")
_READS = frozenset({"GET", "HEAD"})


def make(kind: Kind, internal: str, jitter: Callable[[], float] = random.random, **words: Any) -> PveError:
    """Builds an error with its class's sentence and delay; `words` may have `code` and `public`."""
    public = words.pop("public", None) or kind.sentence.format_map({"lock": words.get("lock") or "locked"})
    if issubclass(kind, LockTimeout):
        words["delay"] = 2.0 + 6.0 * jitter()
    elif issubclass(kind, Later) and kind.wait is not None:
        words["delay"] = kind.wait
    return kind(public, internal=internal, **words)


def classify(
    method: str, status: int, reason: str, body: Any = None, *, jitter: Callable[[], float] = random.random
) -> PveError:
    """Returns the error of an answer; `body` is the decoded JSON, or None where there was none."""
    message, fields = _texts(reason, body)
    internal = f"{method} {status}: {message}" + "".join(f"; {key}: {text}" for key, text in fields.items())
    if status == 401:
        return make(Unauthenticated, internal)
    if status == 403:
        return make(Denied, internal)
    if status == 595:
        return make(NodeDown, internal)
    if status in {596, 597, 598, 599} or (status in {502, 503, 504} and method not in _READS):
        return make(UnknownOutcome, internal)
    if status == 400 and any(text.startswith("hotplug problem - ") for text in fields.values()):
        keys = sorted(key for key, text in fields.items() if text.startswith("hotplug problem - "))
        return make(HotplugProblem, internal, keys=keys)
    known = _known(message, internal, jitter)
    if known is not None and (status >= 500 or isinstance(known, Rejected)):
        return known
    if 400 <= status < 500 or status == 501:
        return make(Rejected, internal, status=status, fields=sorted(fields))
    return make(ServerFault, internal, status=status)


def classify_exit(exitstatus: str, *, jitter: Callable[[], float] = random.random) -> PveError | None:
    """Returns the error in a task's exit text; None for `OK` and `WARNINGS: n`, which are successes."""
    text = exitstatus.strip()
    if text == "OK" or _WARNINGS.fullmatch(text):
        return None
    internal = f"task: {text}"
    if _HOTPLUG_EXIT.fullmatch(text):
        return make(
            HotplugProblem, internal, keys=sorted(set(re.findall(r"(\w+): hotplug problem - ", text)))
        )
    if _DENIED_EXIT.fullmatch(text):
        return make(Denied, internal)
    if _INVALID_EXIT.fullmatch(text):
        return make(Rejected, internal)
    return _known(text, internal, jitter) or make(TaskFailed, internal)


def _known(text: str, internal: str, jitter: Callable[[], float]) -> PveError | None:
    for pattern, kind, code, said in _TABLE:
        found = pattern.fullmatch(text)
        if found is not None:
            extra: dict[str, Any] = {key: value for key, value in found.groupdict().items() if value}
            return make(kind, internal, jitter, public=said, code=code, **extra)
    return None


def _texts(reason: str, body: Any) -> tuple[str, dict[str, str]]:
    """Takes the message from the body, else from the reason phrase (a 401 has only that), and `errors`."""
    message, fields = reason, {}
    if isinstance(body, Mapping):
        message = str(body.get("message") or reason)
        errors = body.get("errors")
        if isinstance(errors, Mapping):
            fields = {str(key): str(text).strip() for key, text in errors.items()}
    return message.strip(), fields
