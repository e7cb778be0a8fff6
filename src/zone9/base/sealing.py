"""Secrets at rest: AES-256-GCM under a key file that is never in the database nor in a backup of it.

A sealed value is `version byte, key id (4 bytes), nonce (12), ciphertext`; the row's id is bound in as
associated data, so that a value copied to another row does not open. The key file holds one base64 key a
line, newest first: to rotate, put a new line on top; old values open with the lines below.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import tempfile
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from zone9.base.errors import Never

FORMAT = b"\x01"


class Sealer:
    """Seals and opens secrets, and makes the keyed digests that proofs keep instead of values."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        if not keys or any(len(key) != 32 for key in keys):
            raise Never("the sealing key file is damaged", code="sealing_key_damaged")
        self._keys = {_key_id(key): key for key in keys}
        self._newest = keys[0]

    @classmethod
    def from_file(cls, path: Path) -> "Sealer":
        """Reads the key file, and makes it (mode 0600) when there is none. Raises Never when it is damaged."""
        if not path.exists():
            _make(path)
        try:
            return cls(tuple(base64.b64decode(line, validate=True) for line in path.read_text().split()))
        except ValueError as error:  # not base64, or not text at all
            raise Never("the sealing key file is damaged", code="sealing_key_damaged") from error

    def seal(self, plain: bytes, *, row: str) -> bytes:
        nonce = os.urandom(12)
        sealed = AESGCM(self._newest).encrypt(nonce, plain, row.encode())
        return FORMAT + _key_id(self._newest) + nonce + sealed

    def open(self, sealed: bytes, *, row: str) -> bytes:
        """Raises Never when the key is gone or the value belongs to another row."""
        key = self._keys.get(sealed[1:5])
        if sealed[:1] != FORMAT or key is None:
            raise Never("a stored secret was sealed with a key that is not here", code="sealing_key_missing")
        try:
            return AESGCM(key).decrypt(sealed[5:17], sealed[17:], row.encode())
        except (InvalidTag, ValueError) as error:  # the latter: too short to be one
            raise Never("a stored secret does not open", code="secret_damaged") from error

    def digest(self, value: str) -> str:
        """Returns a keyed digest: tells whether two values are equal without telling either."""
        return hmac.new(self._newest, value.encode(), hashlib.sha256).hexdigest()[:32]


def _make(path: Path) -> None:
    """Makes the file whole or not at all: half a key would lock every secret that is sealed with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # readable by its owner alone
    try:
        with os.fdopen(handle, "w") as file:
            file.write(base64.b64encode(os.urandom(32)).decode() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was first, and its key counts
            os.link(name, path)
    finally:
        Path(name).unlink()


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"zone9 key id" + key).digest()[:4]
