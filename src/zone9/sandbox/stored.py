"""The bytes behind volumes: what was uploaded or downloaded, and each disk that was imported from it.

They lie in a temporary directory that is made at the first byte and goes with the sandbox, so that a guest can
boot what somebody uploaded. There is a bound: a disk that is full refuses like Proxmox's /var/tmp does. Uploads
have the names that Proxmox gives them; those whose request is refused after the body had come stay behind, as
they do there (pve-facts 6.2, upload 5). Nothing here knows what the bytes mean.
"""

import random
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from zone9.sandbox.answers import PveError

LIMIT = 4 * 2**30
UPLOAD_DIRECTORY = "/var/tmp"  # noqa: S108 - a name in Proxmox's texts, no directory of ours


class Files:
    """Keeps files for one sandbox; `limit` is in bytes, and holds for all of them together."""

    def __init__(self, dice: random.Random, limit: int = LIMIT) -> None:
        self.limit = limit
        # By the name that Proxmox would show.
        self.uploads: dict[str, Path] = {}
        self._dice = dice
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._sizes: dict[Path, int] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def new_upload(self) -> str:
        """Makes an empty file for a request's body and answers its name on the node."""
        name = f"{UPLOAD_DIRECTORY}/pveupload-{self._dice.getrandbits(128):032x}"
        self.uploads[name] = self.new("upload")
        return name

    def drop_upload(self, name: str) -> None:
        path = self.uploads.pop(name, None)
        if path is not None:
            self.remove(path)

    def new(self, suffix: str) -> Path:
        """Makes an empty file; the suffix is the format of what will be in it, by which guests open it."""
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="zone9-sandbox-")
        path = Path(self._directory.name) / f"{self._dice.getrandbits(64):016x}.{suffix}"
        path.touch(mode=0o600)
        self._sizes[path] = 0
        return path

    def append(self, path: Path, data: bytes) -> None:
        """Adds bytes to a file; raises a 500 when there is no room."""
        self._take(path, len(data))
        with path.open("ab") as file:
            file.write(data)

    def fill(self, path: Path, chunks: Iterable[bytes]) -> None:
        for chunk in chunks:
            self.append(path, chunk)

    def copy(self, source: Path) -> Path:
        """Copies a file, which need not be one of these; raises a 500 when there is no room."""
        target = self.new(source.suffix.removeprefix("."))
        self._take(target, source.stat().st_size)
        shutil.copyfile(source, target)
        return target

    def keep(self, source: Path, suffix: str) -> Path:
        """Moves one of these files to where it stays."""
        target = self.new(suffix)
        source.replace(target)
        self._sizes[target] = self._sizes.pop(source, 0)
        return target

    def remove(self, path: Path | None) -> None:
        """Removes a file that is one of these; others are not ours to remove."""
        if path is not None and self._sizes.pop(path, None) is not None:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        self.uploads.clear()
        self._sizes.clear()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def _take(self, path: Path, more: int) -> None:
        if sum(self._sizes.values()) + more > self.limit:
            raise PveError("write to temporary file failed - No space left on device")
        self._sizes[path] = self._sizes.get(path, 0) + more
