"""Keeps a sandbox's cluster in a file, so that `make run` finds on the second day what it made on the first.

Nodes that come back have no VM running, as after a power cut: whoever wants them on starts them. Only the cluster is
kept; tasks, faults and the request log begin anew, and so do certificate and token.
"""

import asyncio
import fcntl
import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from zone9.cli.client import CommandError
from zone9.sandbox import Sandbox
from zone9.sandbox.state import Cluster

SECONDS = 1.0
CLUSTER: TypeAdapter[Cluster] = TypeAdapter(Cluster)


class Kept:
    """Is the file of one sandbox."""

    def __init__(self, path: Path) -> None:
        """Raises CommandError when another sandbox keeps its cluster there."""
        self._path = path
        self._last = b""
        try:
            self._lock = path.with_suffix(".lock").open("w")
        except OSError as error:
            raise CommandError(f"cannot write beside {path}: {error.strerror}", 1) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise CommandError(f"another sandbox keeps its cluster in {path}", 1) from None

    def close(self) -> None:
        self._lock.close()

    def restore(self, sandbox: Sandbox) -> bool:
        """Fills a fresh sandbox from the file; False when there is none. Raises CommandError for a damaged one."""
        if not self._path.exists():
            return False
        try:
            kept = CLUSTER.validate_json(self._path.read_bytes())
        except (ValidationError, OSError):
            raise CommandError(
                f"{self._path} is not a sandbox's state; move it away to begin anew", 1
            ) from None
        for name in Cluster.__dataclass_fields__:
            setattr(sandbox.cluster, name, getattr(kept, name))
        for vm in sandbox.cluster.vms.values():
            vm.running = None
        for _, _, volume in sandbox.cluster.volumes():
            # What was uploaded went with the sandbox before: the volume is there, and has a size alone.
            if volume.path is not None and not volume.path.exists():
                volume.path = None
        sandbox.cluster.version += 1
        return True

    async def keep(self, sandbox: Sandbox) -> None:
        """Writes the cluster whenever it has changed, until it is cancelled, and then once more."""
        try:
            while True:
                self._write(sandbox)
                await asyncio.sleep(SECONDS)
        finally:
            self._write(sandbox)

    def _write(self, sandbox: Sandbox) -> None:
        now = CLUSTER.dump_json(sandbox.cluster)
        if now == self._last:
            return
        fresh = self._path.with_suffix(".new")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(now)
        fresh.replace(self._path)
        self._last = now
