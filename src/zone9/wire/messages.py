"""The documents that go over the wire, each with the one way in which it is read: strictly, and never half.

Whoever sends something else gets a `WireError` that points at it. Sizes are bounded, since a status comes from a machine
that may lie.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zone9.wire.tags import Tag

MOST_STATUS_BYTES = 256 * 1024
MOST_ERROR = 4000  # characters of an appliance's own words
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SECRET_HASH = re.compile(r"[0-9a-f]{64}")
TOKEN = re.compile(r"[A-Za-z0-9_-]{20,200}")
NAME = re.compile(r"[A-Za-z0-9._+-]{1,80}")


class WireError(ValueError):
    """Says what of a message is wrong; `pointer` is a JSON pointer into it (RFC 6901)."""

    def __init__(self, pointer: str, sentence: str) -> None:
        super().__init__(f"{pointer or '/'}: {sentence}")
        self.pointer = pointer
        self.sentence = sentence


def canonical(document: Any) -> bytes:
    """Returns JSON in one form, so that equal documents have equal digests."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True)
class Config:
    """Is one version of what an appliance is to do; `document` is its product's affair."""

    product: str
    epoch: int
    version: int
    document: dict[str, Any] = field(repr=False)

    @property
    def tag(self) -> Tag:
        said = canonical([self.product, self.epoch, self.version, self.document])
        return Tag(self.version, self.epoch, hashlib.sha256(said).hexdigest()[:16])

    def to_bytes(self) -> bytes:
        """Returns the message; its tag is in it, so that a file on disk can be checked against itself."""
        shown = {"product": self.product, "epoch": self.epoch, "version": self.version}
        return canonical({**shown, "tag": str(self.tag), "document": self.document})

    @classmethod
    def from_bytes(cls, data: bytes) -> Config:
        """Raises WireError for anything that is not a whole config with its own tag."""
        read = _Read(data)
        found = cls(
            product=read.text("product", NAME),
            epoch=read.number("epoch", least=1),
            version=read.number("version", least=0),
            document=read.mapping("document"),
        )
        read.done("tag")
        if read.values.get("tag") != str(found.tag):
            raise WireError("/tag", "it is not the tag of this config")
        return found


@dataclass(frozen=True)
class Status:
    """Is what an appliance says of itself. `seq` rises with each; times are the receiver's affair."""

    boot_id: str
    seq: int
    epoch: int = 1
    applied_version: int | None = None
    config_hash: str | None = None
    failed_version: int | None = None
    error: str | None = None
    running_version: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return canonical({name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def from_bytes(cls, data: bytes) -> Status:
        """Raises WireError; a number or text that is too large is refused whole."""
        if len(data) > MOST_STATUS_BYTES:
            raise WireError("", f"a status has at most {MOST_STATUS_BYTES} bytes")
        read = _Read(data)
        found = cls(
            boot_id=read.text("boot_id", UUID),
            seq=read.number("seq", least=0),
            epoch=read.number("epoch", least=1),
            applied_version=read.maybe("applied_version", read.number),
            config_hash=read.maybe("config_hash", lambda name: read.text(name, re.compile(r"[0-9a-f]{16}"))),
            failed_version=read.maybe("failed_version", read.number),
            error=read.maybe("error", read.words),
            running_version=read.text("running_version", re.compile(r"[A-Za-z0-9._+-]{0,80}")),
            evidence=read.mapping("evidence"),
        )
        read.done()
        if (found.applied_version is None) != (found.config_hash is None):
            raise WireError("/config_hash", "it comes with applied_version and not alone")
        if (found.failed_version is None) != (found.error is None):
            raise WireError("/error", "it comes with failed_version and not alone")
        return found


@dataclass(frozen=True)
class Enrolment:
    """Is a request for an identity: the token of the machine's SMBIOS, and the hash of a secret that never leaves it."""

    token: str = field(repr=False)
    secret_hash: str
    uuid: str
    boot_id: str
    product: str

    def to_bytes(self) -> bytes:
        return canonical({name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def from_bytes(cls, data: bytes) -> Enrolment:
        """Raises WireError."""
        read = _Read(data)
        found = cls(
            token=read.text("token", TOKEN),
            secret_hash=read.text("secret_hash", SECRET_HASH),
            uuid=read.text("uuid", UUID),
            boot_id=read.text("boot_id", UUID),
            product=read.text("product", NAME),
        )
        read.done()
        return found


@dataclass(frozen=True)
class Enrolled:
    """Is the answer: which device this machine is from now on."""

    device: str
    product: str
    epoch: int

    def to_bytes(self) -> bytes:
        return canonical({name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def from_bytes(cls, data: bytes) -> Enrolled:
        """Raises WireError."""
        read = _Read(data)
        found = cls(read.text("device", NAME), read.text("product", NAME), read.number("epoch", least=1))
        read.done()
        return found


class _Read:
    """Takes a JSON object apart, and remembers what of it was asked for."""

    def __init__(self, data: bytes) -> None:
        try:
            values = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
            # Half a surrogate pair is no text, and PostgreSQL keeps no NUL.
            if b"\\u0000" in json.dumps(values, ensure_ascii=False).encode():
                raise ValueError
        except (ValueError, RecursionError):
            raise WireError("", "it is not JSON that can be kept") from None
        if not isinstance(values, dict):
            raise WireError("", "it is not an object")
        self.values: dict[str, Any] = values
        self._asked: set[str] = set()

    def number(self, name: str, least: int = 0) -> int:
        value = self._take(name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**53:
            raise WireError(f"/{name}", f"it is a whole number from {least}")
        return value

    def text(self, name: str, form: re.Pattern[str]) -> str:
        value = self._take(name)
        if not isinstance(value, str) or not form.fullmatch(value):
            raise WireError(f"/{name}", "it has another form")
        return value

    def words(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str) or len(value) > MOST_ERROR or "\x00" in value:
            raise WireError(f"/{name}", f"it is a text of at most {MOST_ERROR} characters")
        return value.encode("utf-8", "replace").decode()

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._take(name)
        if not isinstance(value, dict):
            raise WireError(f"/{name}", "it is an object")
        return value

    def maybe(self, name: str, read: Callable[[str], Any]) -> Any:
        if self.values.get(name) is None:
            self._asked.add(name)
            return None
        return read(name)

    def done(self, *also: str) -> None:
        """Refuses what nobody knows: a field with a typing error must not be taken for one that was left out."""
        for name in sorted(self.values.keys() - self._asked - set(also)):
            raise WireError(f"/{name}", "nobody knows it")

    def _take(self, name: str) -> Any:
        self._asked.add(name)
        if name not in self.values:
            raise WireError(f"/{name}", "it is missing")
        return self.values[name]


def _no_constant(text: str) -> Any:
    raise ValueError(text)
