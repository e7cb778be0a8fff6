"""Why: the token must never reach a server that is not the pinned one, not even its first byte.

The pin is checked inside the TLS handshake: `SSLContext.sslobject_class` (documented by Python for this) is
replaced by a class whose `do_handshake` compares the certificate's SHA-256 before it returns, so no caller of
the context can have a connection that was not checked. This module never trusts the system's authorities,
and never accepts an endpoint that pins nothing.
"""

import hashlib
import hmac
import re
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_SHA256 = re.compile(r"[0-9a-f]{64}")


def normal_fingerprint(text: str) -> str:
    """Returns 64 lower-case hex digits; takes colons and spaces as `pvenode cert info` prints them."""
    plain = text.replace(":", "").replace(" ", "").lower()
    if not _SHA256.fullmatch(plain):
        raise ValueError("a fingerprint is the SHA-256 of a certificate: 64 hex digits")
    return plain


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Says where a cluster is, who we are there, and how we know that it is the one.

    `fingerprint` may hold several, separated by commas: each node has a certificate of its own. `token` is
    `user@realm!name=secret` and is left out of every representation.
    """

    urls: tuple[str, ...]
    token: str = field(repr=False)
    fingerprint: str = ""
    ca_pem: str = ""

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("a region needs at least one address")
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme != "https" or not parts.hostname or parts.username or parts.path.strip("/"):
                raise ValueError("a region's address must be https://host[:port]")
        if bool(self.fingerprint) == bool(self.ca_pem):
            raise ValueError("a region pins either a fingerprint or a certificate authority")
        if "!" not in self.token or "=" not in self.token or not self.token.isprintable():
            raise ValueError("a token is user@realm!name=secret")
        if self.fingerprint:
            _ = self.pins

    @property
    def pins(self) -> frozenset[str]:
        return frozenset(normal_fingerprint(one) for one in self.fingerprint.split(",") if one.strip())

    @property
    def token_id(self) -> str:
        """Is the part of the token that Proxmox shows in tasks and logs."""
        return self.token.split("=", 1)[0]


def context(endpoint: Endpoint) -> ssl.SSLContext:
    """Makes the TLS context that trusts this endpoint and nothing else."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    if endpoint.ca_pem:
        made.load_verify_locations(cadata=endpoint.ca_pem)
        return made
    pins = endpoint.pins

    class Pinned(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            der = self.getpeercert(binary_form=True) or b""
            seen = hashlib.sha256(der).hexdigest()
            if not any(hmac.compare_digest(seen, pin) for pin in pins):
                raise ssl.SSLCertVerificationError(f"the server's certificate is {seen}, which is not pinned")

    # The pin is the identity: a chain or a name would add nothing to it.
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    made.sslobject_class = Pinned
    return made
