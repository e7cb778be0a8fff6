"""The one connection to the control plane: outbound, over TLS whose key is pinned, and before that is seen nothing is sent."""

from __future__ import annotations

import hmac
import http.client
import socket
import ssl
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from zone9.agent import pin
from zone9.wire.messages import Config, Enrolled, Enrolment, Status, WireError
from zone9.wire.tags import Tag

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 20.0  # beyond what the server may hold a request for
MOST_BYTES = 64 * 1024 * 1024


class Unreachable(Exception):
    """Means that no answer came; whoever asked goes on with what it has."""


class Refused(Exception):
    """Is an answer that says no. `status` is HTTP's, `code` zone9's own."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Panel:
    """Speaks to one address, on a connection that is kept; not for several threads at once."""

    def __init__(self, url: str, pins: Sequence[str], *, uuid: str, boot_id: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or parts.hostname is None:
            raise ValueError("only https with a pinned key is spoken")
        self._host, self._port, self._pins = parts.hostname, parts.port or 443, tuple(pins)
        self._machine = {"Zone9-Machine": uuid, "Zone9-Boot": boot_id}
        self._connection: http.client.HTTPConnection | None = None

    # -- what is asked ----------------------------------------------------------------------------------

    def enrol(self, request: Enrolment) -> Enrolled:
        """Raises Refused when the token is no good, Unreachable when that is not known."""
        answer = self._ask("POST", "/v1/bootstrap", request.to_bytes())
        return Enrolled.from_bytes(answer.body)

    def config(
        self, product: str, secret: str, have: Tag | None, failed: Tag | None, *, wait: int
    ) -> Config | None:
        """Returns a newer config, or None when nothing has changed for `wait` seconds."""
        path = f"/v1/{product}/config"
        if failed is not None:
            path += f"?failed={str(failed).strip(chr(34))}"
        headers = {"Authorization": f"Bearer {secret}"}
        if have is not None:
            headers["If-None-Match"] = str(have)
        if wait:
            headers["Prefer"] = f"wait={wait}"
        answer = self._ask("GET", path, None, headers, wait=wait)
        return None if answer.status == 304 else Config.from_bytes(answer.body)

    def report(self, product: str, secret: str, status: Status) -> None:
        self._ask("POST", f"/v1/{product}/status", status.to_bytes(), {"Authorization": f"Bearer {secret}"})

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- how --------------------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str] | None = None,
        *,
        wait: int = 0,
    ) -> Answer:
        sent = {**self._machine, "Accept": "application/json", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        kept = self._connection is not None
        try:
            answer = self._once(method, path, body, sent, wait)
        except (OSError, http.client.HTTPException, WireError) as error:
            self.close()
            # A connection that was kept may have been closed meanwhile: nothing was answered, and all may be repeated.
            if not kept:
                raise Unreachable(f"{type(error).__name__}: {error}") from error
            try:
                answer = self._once(method, path, body, sent, wait)
            except (OSError, http.client.HTTPException, WireError) as again:
                self.close()
                raise Unreachable(f"{type(again).__name__}: {again}") from again
        if answer.status >= 500 or answer.status == 429:
            raise Unreachable(f"it answered {answer.status}")
        if answer.status >= 300 and answer.status != 304:
            raise Refused(answer.status, _code(answer.body))
        return answer

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str], wait: int) -> Answer:
        connection = self._connection or self._connect()
        self._connection = connection
        if connection.sock is not None:
            connection.sock.settimeout(ANSWER_SECONDS + wait)
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        data = response.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise WireError("", "the answer is too large")
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, data)

    def _connect(self) -> http.client.HTTPConnection:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the pin decides, below, before a byte of ours is sent
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        raw = socket.create_connection((self._host, self._port), CONNECT_SECONDS)
        try:
            secured = context.wrap_socket(raw, server_hostname=self._host)
        except BaseException:
            raw.close()
            raise
        try:
            seen = pin.of_certificate(secured.getpeercert(binary_form=True) or b"")
            if not any(hmac.compare_digest(seen, one) for one in self._pins):
                raise OSError("the server's key is not the one that is pinned")
        except (OSError, ValueError) as error:
            secured.close()
            raise OSError(str(error)) from error
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.sock = secured
        return connection


def _code(body: bytes) -> str:
    import json  # here: only a refusal needs it

    try:
        return str(json.loads(body)["code"])
    except (ValueError, KeyError, TypeError):
        return "unknown"
