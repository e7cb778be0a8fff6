"""A tiny TLS server on loopback that records what arrives and answers as a test tells it."""

import asyncio
import contextlib
import datetime as dt
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from zone9.base.errors import Later

TOKEN = "z9@pve!ctl=11111111-2222-3333-4444-555555555555"


@dataclass
class Permit:
    """Records when it was asked; `stale_after` is the number of fresh answers before it refuses."""

    steps: list[str] = field(default_factory=list)
    stale_after: int = 1000

    async def confirm(self) -> None:
        self.steps.append("confirm")

    def still_fresh(self) -> None:
        self.steps.append("fresh")
        if self.steps.count("fresh") > self.stale_after:
            raise Later("Another worker took over.", code="stale")


@dataclass(frozen=True)
class Certificate:
    path: Path
    pem: str
    fingerprint: str

    @classmethod
    def make(cls, directory: Path, name: str) -> "Certificate":
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(
                x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
            )
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        pem = made.public_bytes(serialization.Encoding.PEM)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = directory / f"{name}.pem"
        path.write_bytes(pem + secret)
        return cls(path, pem.decode(), made.fingerprint(hashes.SHA256()).hex(":").upper())


@dataclass(frozen=True)
class Seen:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """`drop` closes the connection instead of answering; `before` runs once the request has been read."""

    data: object = None
    status: int = 200
    reason: str = "OK"
    raw: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    before: Callable[[], Awaitable[None]] | None = None


@dataclass
class Server:
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    received: bytearray = field(default_factory=bytearray)
    connections: int = 0
    running: int = 0
    most: int = 0
    answer: Callable[[Seen], Answer] = lambda _seen: Answer({})

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.received += head
                line, *rest = head.decode().strip().split("\r\n")
                method, target, _version = line.split(" ")
                headers = {key.lower(): text for key, _, text in (one.partition(": ") for one in rest)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                seen = Seen(method, target, headers, body)
                self.seen.append(seen)
                self.running += 1
                self.most = max(self.most, self.running)
                answer = self.answer(seen)
                try:
                    if answer.before is not None:
                        await answer.before()
                finally:
                    self.running -= 1
                if answer.drop:
                    break
                content = answer.raw if answer.raw is not None else json.dumps({"data": answer.data}).encode()
                more = "".join(f"{key}: {text}\r\n" for key, text in answer.headers.items())
                top = f"HTTP/1.1 {answer.status} {answer.reason}\r\nContent-Length: {len(content)}\r\n{more}\r\n"
                writer.write(top.encode() + content)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def _listen(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    context: ssl.SSLContext | None,
) -> AsyncIterator[int]:
    """Listens on a free port of loopback, and waits for its connections to end."""
    talks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        await talk(reader, writer)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        _done, left = await asyncio.wait(talks, timeout=1) if talks else (set(), set())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await listening.wait_closed()


@contextlib.asynccontextmanager
async def slow_road(url: str, delay: float) -> AsyncIterator[str]:
    """Relays to a server after `delay` seconds, so that the TLS handshake takes that long."""
    port = int(url.rsplit(":", 1)[1])

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(delay)
        back, forth = await asyncio.open_connection("127.0.0.1", port)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()
            with contextlib.suppress(ConnectionError):
                await sink.wait_closed()

        await asyncio.gather(pump(reader, forth), pump(back, writer))

    async with _listen(relay, None) as slow:
        yield f"https://127.0.0.1:{slow}"


@contextlib.asynccontextmanager
async def serve(certificate: Certificate) -> AsyncIterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.path)
    server = Server()
    async with _listen(server.talk, context) as port:
        server.url = f"https://127.0.0.1:{port}"
        yield server
