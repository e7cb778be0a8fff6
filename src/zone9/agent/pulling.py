"""The agent's one idea: pull, apply, prove, keep, report; and go on with the last good config whatever happens.

A product's `Applier` does the applying and the proving. What it could not apply is tried again after a pause, without a
new version; a config that was only fetched is never reported as applied.
"""

from __future__ import annotations

import hashlib
import math
import random
import secrets
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from zone9.agent.disk import Disk, Identity
from zone9.agent.machine import Machine
from zone9.agent.panel import Panel, Refused, Unreachable
from zone9.wire.messages import MOST_ERROR, Config, Enrolment, Status, WireError

VERSION = "0.1"
STATUS_SECONDS = 10.0
HOLD_SECONDS = 55
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
FAILED_PAUSE = 5.0  # before a version that failed is tried again; it doubles up to the longest


def to_console(line: str) -> None:
    """Writes a line where the hypervisor's console shows it."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class ApplyFailed(Exception):
    """Says in the software's own words why a config was not applied; the one before it still serves."""


class Applier(Protocol):
    """Is the part of one product: `apply` returns when what runs was asked and is as the config says."""

    def apply(self, config: Config) -> None:
        """Raises ApplyFailed; then what ran before still runs."""

    def evidence(self) -> dict[str, Any]:
        """Returns what was measured just now."""


class Agent:
    """Is one appliance. Two threads: one holds a request for the next config, one reports."""

    def __init__(
        self,
        machine: Machine,
        disk: Disk,
        product: str,
        applier: Applier,
        *,
        log: Callable[[str], None] = to_console,
        status_seconds: float = STATUS_SECONDS,
        hold_seconds: int = HOLD_SECONDS,
        first_pause: float = FIRST_PAUSE,
        failed_pause: float = FAILED_PAUSE,
    ) -> None:
        self.machine = machine
        self.disk = disk
        self.product = product
        self.applier = applier
        self.log = log
        self.stopping = threading.Event()
        self._status_seconds = status_seconds
        self._hold_seconds = hold_seconds
        self._first_pause = first_pause
        self._failed_pause = failed_pause
        self._news = threading.Event()
        self._applied: Config | None = None
        self._failed: Config | None = None
        self._error: str | None = None
        self._retry_at = 0.0
        self._failures = 0

    # -- life -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Works until it is stopped. What was applied last is served before anybody is asked."""
        kept = self.disk.config()
        if kept is not None:
            self._apply(kept)
        reporting: threading.Thread | None = None
        pause, again = self._first_pause, False
        while not self.stopping.is_set():
            try:
                identity = self.enrolled(again=again)
                if reporting is None:
                    reporting = threading.Thread(target=self._report_for_ever, daemon=True)
                    reporting.start()
                self._pull(identity)
                pause, again = self._first_pause, False
            except (Unreachable, Refused, WireError, OSError, ValueError) as error:
                again = isinstance(error, Refused) and error.status == 401
                self.log(f"zone9: goes on with what it has: {type(error).__name__}: {error}")
                self.stopping.wait(pause * random.uniform(0.5, 1.0))
                pause = min(LONGEST_PAUSE, pause * 2)

    def stop(self) -> None:
        self.stopping.set()
        self._news.set()

    # -- identity ---------------------------------------------------------------------------------------

    def enrolled(self, *, again: bool = False) -> Identity:
        """Returns this machine's identity; takes one where the serial carries a token that was not used yet.

        With `again`, after a 401, one that was taken is left for a token that it did not come from, if there is one. The
        secret is on disk before its hash is sent, so that a lost answer is asked for again with the same one.
        """
        kept, token = self.disk.identity(), self.machine.token
        if kept is not None and kept.uuid != self.machine.uuid:
            kept = None  # a copied disk: that identity is another machine's
        fresh = None if token is None else hashlib.sha256(token.encode()).hexdigest()
        unused = fresh is not None and (kept is None or kept.spent != fresh)
        if kept is not None and kept.device is not None and not (again and unused):
            return kept
        if token is None or fresh is None:
            raise Refused(401, "no_token")
        if kept is None or unused:
            kept = Identity(
                uuid=self.machine.uuid,
                secret=secrets.token_urlsafe(32),
                url=self.machine.url,
                pins=list(self.machine.pins),
                spent=fresh,
            )
            self.disk.keep_identity(kept)
        return self._enrol(kept, token)

    def _enrol(self, kept: Identity, token: str) -> Identity:
        request = Enrolment(
            token=token,
            secret_hash=hashlib.sha256(kept.secret.encode()).hexdigest(),
            uuid=kept.uuid,
            boot_id=self.machine.boot_id,
            product=self.product,
        )
        panel = self._panel(kept)
        try:
            answer = panel.enrol(request)
        finally:
            panel.close()
        made = Identity(kept.uuid, kept.secret, kept.url, kept.pins, answer.device, kept.spent)
        self.disk.keep_identity(made)
        self.log(f"zone9: enrolled as {answer.device}")
        return made

    # -- config -----------------------------------------------------------------------------------------

    def _pull(self, identity: Identity) -> None:
        panel = self._panel(identity)
        try:
            while not self.stopping.is_set():
                have = None if self._applied is None else self._applied.tag
                failed = None if self._failed is None else self._failed.tag
                hold, left = self._hold_seconds, self._retry_at - time.monotonic()
                if self._failed is not None:
                    hold = min(hold, max(0, math.ceil(left)))
                found = panel.config(self.product, identity.secret, have, failed, wait=hold)
                if found is None and self._failed is not None:
                    # Nothing newer came while the failed one waited for its next try.
                    self.stopping.wait(max(0.0, self._retry_at - time.monotonic()))
                    found = self._failed
                if found is not None:
                    self._take(found)
        finally:
            panel.close()

    def _take(self, config: Config) -> None:
        """Applies a config unless it is older than what is applied in its epoch."""
        if config.product != self.product:
            raise WireError("/product", f"this is a {self.product}")
        applied = self._applied
        if applied is not None and config.epoch == applied.epoch and config.version < applied.version:
            raise WireError("/version", f"{config.version} is older than {applied.version}, which is applied")
        self._apply(config)

    def _apply(self, config: Config) -> None:
        try:
            self.applier.apply(config)
        except ApplyFailed as error:
            same = self._failed is not None and self._failed.tag == config.tag
            self._failures = self._failures + 1 if same else 0
            self._retry_at = time.monotonic() + min(LONGEST_PAUSE, self._failed_pause * 2**self._failures)
            self._failed, self._error = config, str(error)[:MOST_ERROR]
            self.log(f"zone9: version {config.version} was not applied: {error}")
        else:
            self.disk.keep_config(config)
            self._applied, self._failed, self._error, self._failures = config, None, None, 0
            self.log(f"zone9: version {config.version} is applied")
        self._news.set()

    # -- status -----------------------------------------------------------------------------------------

    def status(self) -> Status:
        applied, failed, error = self._applied, self._failed, self._error
        return Status(
            boot_id=self.machine.boot_id,
            seq=self.disk.next_number(),
            epoch=1 if applied is None else applied.epoch,
            applied_version=None if applied is None else applied.version,
            config_hash=None if applied is None else applied.tag.digest,
            failed_version=None if failed is None else failed.version,
            error=None if failed is None else error,
            running_version=VERSION,
            evidence=self.applier.evidence(),
        )

    def _report_for_ever(self) -> None:
        panel: Panel | None = None
        while not self.stopping.is_set():
            self._news.clear()
            identity = self.disk.identity()
            try:
                if identity is not None and identity.device is not None:
                    panel = panel or self._panel(identity)
                    panel.report(self.product, identity.secret, self.status())
            except (Unreachable, Refused, WireError, OSError) as error:
                self.log(f"zone9: could not report: {error}")
            self._news.wait(self._status_seconds * random.uniform(0.8, 1.0))
        if panel is not None:
            panel.close()

    def _panel(self, identity: Identity) -> Panel:
        return Panel(identity.url, identity.pins, uuid=self.machine.uuid, boot_id=self.machine.boot_id)
