"""What the appliance keeps: its identity, the last good config, and the ceiling of its counter.

Everything is written to a temporary file, synced, renamed, and the directory synced: after a power cut there is the old or
the new, and never half of one.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from zone9.wire.messages import Config, WireError

BLOCK = 1000  # numbers that one write of the ceiling is good for


@dataclass(frozen=True)
class Identity:
    """Is who this machine is; the secret never leaves it, but as the bearer of its own requests."""

    uuid: str
    secret: str = field(repr=False)
    url: str
    pins: list[str]
    device: str | None = None
    spent: str | None = None  # the hash of the token that this identity came from: it is never used again


class Disk:
    """Is the appliance's own directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in directory.glob("*.new"):
            left.unlink()
        self._next = self._ceiling = _number(self._read("counter"))

    # -- identity ---------------------------------------------------------------------------------------

    def identity(self) -> Identity | None:
        try:
            return Identity(**json.loads(self._read("identity.json")))
        except (ValueError, TypeError):
            return None

    def keep_identity(self, identity: Identity) -> None:
        self._write("identity.json", json.dumps(asdict(identity)).encode())

    # -- config -----------------------------------------------------------------------------------------

    def config(self) -> Config | None:
        """Returns the last config that was applied and proven; None when there is none, or it is damaged."""
        try:
            return Config.from_bytes(self._read("config.json"))
        except WireError:
            return None

    def keep_config(self, config: Config) -> None:
        self._write("config.json", config.to_bytes())

    # -- counter ----------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """Returns a number that is above every one before it, also after a power cut; one write for each thousand."""
        if self._next >= self._ceiling:
            self._ceiling = self._next + BLOCK
            self._write("counter", str(self._ceiling).encode())
        self._next += 1
        return self._next

    # -- files ------------------------------------------------------------------------------------------

    def _read(self, name: str) -> bytes:
        try:
            return (self.directory / name).read_bytes()
        except OSError:
            return b""

    def _write(self, name: str, data: bytes) -> None:
        path, temporary = self.directory / name, self.directory / f"{name}.new"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        directory = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _number(data: bytes) -> int:
    text = data.decode("ascii", "replace").strip()
    return int(text) if text.isdigit() and len(text) < 16 else 0
