"""Who is asking: API tokens, login tickets and their CSRF tokens.

Every way of not being somebody is the same 401 with an empty body; only the reason phrase differs
(pve-facts 6.4).
"""

import hashlib
import hmac
import secrets
from urllib.parse import unquote

from aiohttp import web

from zone9.sandbox.accounts import Accounts
from zone9.sandbox.answers import Unauthenticated
from zone9.sandbox.clock import Clock

TICKET_LIFE = 7200
FAILED = "Authentication failed!"


class Tickets:
    """Signs tickets and checks what a request carries."""

    def __init__(self, accounts: Accounts, clock: Clock) -> None:
        self._accounts = accounts
        self._clock = clock
        self._key = secrets.token_bytes(32)

    def authenticate(self, request: web.BaseRequest, *, writes: bool, opened: bool) -> str:
        """Answers the user or token, or raises the 401."""
        header = request.headers.get("Authorization", "")
        if header.startswith("PVEAPIToken"):
            who = self._accounts.by_token(unquote(header.removeprefix("PVEAPIToken")[1:]))
            if who is None:
                raise Unauthenticated(FAILED)
            return who
        ticket = self._cookie(request)
        if not ticket:
            if opened:
                return ""
            raise Unauthenticated("No ticket")
        who = self.check(ticket)
        if who is None:
            if opened:
                return ""
            raise Unauthenticated("permission denied - invalid PVE ticket")
        if (
            writes
            and not opened
            and not self._csrf_holds(request.headers.get("CSRFPreventionToken", ""), who)
        ):
            raise Unauthenticated("Permission denied - invalid csrf token")
        return who

    def ticket(self, userid: str) -> str:
        stamp = f"{int(self._clock.now()):08X}"
        return f"PVE:{userid}:{stamp}::{self._sign(f'PVE:{userid}:{stamp}')}"

    def csrf(self, userid: str) -> str:
        stamp = f"{int(self._clock.now()):08X}"
        return f"{stamp}:{self._sign(f'CSRF:{userid}:{stamp}')}"

    def check(self, ticket: str) -> str | None:
        """Answers whose ticket it is while it lasts."""
        plain, _, signature = ticket.partition("::")
        parts = plain.split(":")
        if len(parts) != 3 or not hmac.compare_digest(signature.encode(), self._sign(plain).encode()):
            return None
        age = self._clock.now() - int(parts[2], 16)
        return parts[1] if -300 < age < TICKET_LIFE else None

    @staticmethod
    def _cookie(request: web.BaseRequest) -> str:
        for part in request.headers.get("Cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name in {"PVEAuthCookie", "__Host-PVEAuthCookie"}:
                return unquote(value)
        return ""

    def _csrf_holds(self, token: str, userid: str) -> bool:
        stamp, _, signature = token.partition(":")
        return hmac.compare_digest(signature.encode(), self._sign(f"CSRF:{userid}:{stamp}").encode())

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
