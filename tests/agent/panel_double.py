"""A control plane for the agent's tests: a real TLS server of the standard library, whose answers a test decides."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from zone9.agent import pin
from zone9.sandbox import certificate
from zone9.wire.messages import Config, Enrolled, Enrolment, Status
from zone9.wire.tags import matches


@dataclass
class Double:
    """Is what the server knows, and what it was asked."""

    config: Config | None = None
    url: str = ""
    pin: str = ""
    enrolments: list[Enrolment] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    bound: dict[str, str] = field(default_factory=dict)  # token -> hash of the secret
    away: bool = False
    lose: int = 0  # answers to enrolments that are lost
    refuse: int = 0  # HTTP status of every answer to a device; 0 is none
    changed: threading.Condition = field(default_factory=threading.Condition)

    def set(self, config: Config) -> None:
        with self.changed:
            self.config = config
            self.changed.notify_all()

    def until(self, condition: Any, *, seconds: float = 10) -> Any:
        """Waits until something is so, looking at every change."""
        with self.changed:
            assert self.changed.wait_for(condition, seconds), "it did not come to that"
            return condition()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: Double

    def log_message(self, *_arguments: Any) -> None:
        """Says nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._note()
        if self.double.away:
            return self._answer(503, b'{"code": "away"}')
        if self.path == "/v1/bootstrap":
            return self._enrol(Enrolment.from_bytes(body))
        if self.double.refuse:
            return self._answer(self.double.refuse, b'{"code": "revoked"}')
        with self.double.changed:
            self.double.statuses.append(Status.from_bytes(body))
            self.double.changed.notify_all()
        return self._answer(200, b"{}")

    def do_GET(self) -> None:
        self._note()
        double = self.double
        if double.away:
            return self._answer(503, b'{"code": "away"}')
        if double.refuse:
            return self._answer(double.refuse, b'{"code": "revoked"}')
        have = self.headers.get("If-None-Match")
        failed = self.path.partition("?failed=")[2]
        wait = int(self.headers.get("Prefer", "wait=0").partition("=")[2])
        with double.changed:
            double.changed.wait_for(lambda: double.away or self._newer(have, failed), min(wait, 2))
            config = double.config
            newer = self._newer(have, failed)
        if double.away:
            return self._answer(503, b'{"code": "away"}')
        if config is None or not newer:
            return self._answer(304, b"")
        return self._answer(200, config.to_bytes())

    def _newer(self, have: str | None, failed: str) -> bool:
        config = self.double.config
        return config is not None and not matches(have, config.tag) and not matches(failed, config.tag)

    def _enrol(self, request: Enrolment) -> None:
        double = self.double
        with double.changed:
            double.enrolments.append(request)
            other = double.bound.setdefault(request.token, request.secret_hash) != request.secret_hash
            double.changed.notify_all()
        if double.lose:
            double.lose -= 1
            self.close_connection = True
            return self.connection.close()
        if other:
            return self._answer(409, b'{"code": "token_spent"}')
        return self._answer(200, Enrolled("dev_1", request.product, 1).to_bytes())

    def _note(self) -> None:
        with self.double.changed:
            self.double.asked.append((self.command, self.path, dict(self.headers.items())))
            self.double.changed.notify_all()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_arguments: Any) -> None:
        """Says nothing: connections are cut on purpose."""


@contextmanager
def serving(port: int = 0) -> Iterator[Double]:
    """Serves until the block ends."""
    made = certificate.make(("panel",))
    double = Double()
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"double": double}))
    server.socket = made.context.wrap_socket(server.socket, server_side=True)
    double.url = f"https://127.0.0.1:{server.server_address[1]}"
    double.pin = pin.of_certificate(ssl.PEM_cert_to_DER_cert(made.pem))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        double.away = True
        with double.changed:
            double.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join(5)
