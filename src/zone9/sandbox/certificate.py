"""A self-signed certificate for one run, and its fingerprint to pin."""

import datetime as dt
import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Certificate:
    """Is the certificate as PEM, its SHA-256 fingerprint (AA:BB:...), and a context that serves it."""

    pem: str
    fingerprint: str
    context: ssl.SSLContext


def make(nodes: tuple[str, ...]) -> Certificate:
    """Makes a key and a certificate for loopback and the nodes' names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, nodes[0])])
    now = dt.datetime.now(dt.UTC)
    names: list[x509.GeneralName] = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.DNSName("localhost"),
    ]
    names += [x509.DNSName(node) for node in nodes]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=730))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # OpenSSL loads a key from a file only.
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "node.pem"
        path.touch(mode=0o600)
        path.write_bytes(pem + secret)
        context.load_cert_chain(path)
    digest = certificate.fingerprint(hashes.SHA256()).hex().upper()
    fingerprint = ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))
    return Certificate(pem.decode(), fingerprint, context)
