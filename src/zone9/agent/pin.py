"""The key of the server, and nothing else, is what an appliance trusts: a fresh machine's clock may be wrong.

A pin is the SHA-256 of a certificate's SubjectPublicKeyInfo (RFC 7469 section 2.4), so that a new certificate over the
same key keeps it.
"""

from __future__ import annotations

import hashlib

SEQUENCE, VERSION = 0x30, 0xA0
KEY_PLACE = 5  # after serial number, signature, issuer, validity and subject (RFC 5280 section 4.1)


def of_certificate(der: bytes) -> str:
    """Returns the pin of a certificate. Raises ValueError for what is no certificate."""
    _, certificate, _ = _element(der, SEQUENCE)
    _, body, _ = _element(certificate, SEQUENCE)
    if body[:1] == bytes([VERSION]):
        body = _element(body)[2]
    for _field in range(KEY_PLACE):
        body = _element(body)[2]
    whole, _, _ = _element(body, SEQUENCE)
    return hashlib.sha256(whole).hexdigest()


def _element(data: bytes, kind: int = -1) -> tuple[bytes, bytes, bytes]:
    """Takes the first DER element off: whole, its content, and what comes after it."""
    if len(data) < 2 or (kind != -1 and data[0] != kind):
        raise ValueError("this is no certificate")
    length, start = data[1], 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4 or len(data) < 2 + count:
            raise ValueError("this is no certificate")
        length, start = int.from_bytes(data[2 : 2 + count], "big"), 2 + count
    end = start + length
    if end > len(data):
        raise ValueError("this is no certificate")
    return data[:end], data[start:end], data[end:]
