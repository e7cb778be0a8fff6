"""The bytes behind volumes: what was uploaded or downloaded, each disk that was imported from it, and those of guests.

They lie in a temporary directory that is made at the first byte and goes with the sandbox, so that a guest can
boot what somebody uploaded. There is a bound: a disk that is full refuses like Proxmox's /var/tmp does. Uploads
have the names that Proxmox gives them; those whose request is refused after the body had come stay behind, as
they do there (pve-facts 6.2, upload 5). What guests write into their disks is not counted.

A clone of a template is a layer over the template's file, which stays as long as there is one.
"""

import random
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from zone9.sandbox import qcow2
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
        # What lies under each layer, and what is to go with its last layer.
        self._bases: dict[Path, Path] = {}
        self._condemned: set[Path] = set()

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
        if source in self._bases:
            self._bases[target] = self._bases[source]
        return target

    def layer(self, base: Path, size: int) -> Path:
        """Makes a disk of `size` bytes that is as `base` until it is written to; the base must not change."""
        target = self.new("qcow2")
        qcow2.write_layer(target, base, size)
        self._bases[target] = base
        self._sizes[target] = target.stat().st_size
        return target

    def blank(self, size: int) -> Path | None:
        """Makes an empty disk of `size` bytes, which takes no room; None where no file here can be as large."""
        target = self.new("raw")
        try:
            with target.open("r+b") as file:
                file.truncate(size)
        except OSError:
            self.remove(target)
            return None
        return target

    def keep(self, source: Path, suffix: str) -> Path:
        """Moves one of these files to where it stays."""
        target = self.new(suffix)
        source.replace(target)
        self._sizes[target] = self._sizes.pop(source, 0)
        return target

    def remove(self, path: Path | None) -> None:
        """Removes a file that is one of these, now or with its last layer; others are not ours to remove."""
        if path is None or path not in self._sizes:
            return
        if path in self._bases.values():
            self._condemned.add(path)
            return
        del self._sizes[path]
        path.unlink(missing_ok=True)
        base = self._bases.pop(path, None)
        if base in self._condemned and base not in self._bases.values():
            self._condemned.discard(base)
            self.remove(base)

    def close(self) -> None:
        self.uploads.clear()
        self._sizes.clear()
        self._bases.clear()
        self._condemned.clear()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def _take(self, path: Path, more: int) -> None:
        if sum(self._sizes.values()) + more > self.limit:
            raise PveError("write to temporary file failed - No space left on device")
        self._sizes[path] = self._sizes.get(path, 0) + more
