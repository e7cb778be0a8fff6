"""The directory of a sandbox's sockets and drives, private to its owner and swept when its owner was killed.

A sandbox that dies cannot tidy up, so the next one does: a directory is dead when nobody holds its lock.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "zone9-guests-"


class RunDirectory:
    """Makes the directory (mode 0700) under `parent`, or where temporary files go."""

    def __init__(self, parent: Path | None = None) -> None:
        base = Path(parent or tempfile.gettempdir())
        _sweep(base)
        making = Path(tempfile.mkdtemp(prefix="zone9-making-", dir=base))
        self._lock = (making / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = making.rename(base / making.name.replace("making", "guests"))

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _sweep(base: Path) -> None:
    for directory in base.glob(f"{PREFIX}*"):
        try:
            if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
                continue
            with (directory / "lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
        except OSError:  # Still in use, or no directory of ours.
            continue
