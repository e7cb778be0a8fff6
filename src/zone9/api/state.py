"""What the API's routes share in one process, and who is asking."""

import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog
from fastapi import Request

from zone9.base.errors import Refused
from zone9.base.sealing import Sealer
from zone9.model.asking import Role, Scope
from zone9.model.ports import Product
from zone9.reconcile.asking import Asking
from zone9.store import projects, tokens
from zone9.store.database import Database
from zone9.store.listening import Bell

REMEMBERED_SECONDS = 15.0
MOST_REMEMBERED = 10_000
PAGE_TOKEN = re.compile(r"[0-9a-z_]{1,80}")


@dataclass
class ApiState:
    """Is one API process: its database, its use cases, its memory of tokens."""

    database: Database
    asking: Asking
    registry: Mapping[str, Product]
    sealer: Sealer
    epoch: int
    bell: Bell
    counted: tuple[float, str] | None = None  # what /metrics said last, and until when
    _holders: dict[bytes, tuple[float, tokens.Holder]] = field(default_factory=dict)

    async def holder(self, plain: str) -> tokens.Holder | None:
        """Returns who a token stands for; remembered for 15 s, which bounds how long a revoked one still works."""
        hashed = tokens.hashed(plain)
        known = self._holders.get(hashed)
        now = time.monotonic()
        if known is not None and known[0] > now:
            return known[1]
        found = await tokens.holder_of(self.database, hashed)
        self._holders.pop(hashed, None)
        if found is not None:
            if len(self._holders) >= MOST_REMEMBERED:
                self._holders.clear()
            self._holders[hashed] = (now + REMEMBERED_SECONDS, found)
        return found

    def forget(self, token: str) -> None:
        """Forgets a token that was revoked here."""
        self._holders = {key: one for key, one in self._holders.items() if one[1].token != token}


def state_of(request: Request) -> ApiState:
    state: ApiState = request.app.state.zone9
    return state


async def holder_of(request: Request) -> tokens.Holder | None:
    """Returns who the request's bearer token stands for now."""
    scheme, _, plain = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not plain.strip():
        return None
    return await state_of(request).holder(plain.strip())


async def scope_of(request: Request) -> Scope:
    """Returns who asks, and for which project. Raises Refused (401, 403, 404)."""
    state = state_of(request)
    holder = await holder_of(request)
    if holder is None:
        raise Refused("a valid API token is needed", code="unauthenticated", status=401)
    structlog.contextvars.bind_contextvars(token=holder.token)
    project, ref = holder.project, request.headers.get("zone9-project")
    if project is None or ref is not None:
        async with state.database.begin() as connection:
            found = await projects.find(connection, ref or projects.DEFAULT)
        if project is not None and (found is None or found["id"] != project):
            # Whether there is such a project is no business of another project's token.
            raise Refused("this token is for another project", code="other_project", status=403)
        if found is None:
            raise Refused("there is no such project", code="project_not_found", status=404)
        project = str(found["id"])
    return Scope(token=holder.token, actor=f"token:{holder.name}", role=holder.role, project=project)


def need(scope: Scope, role: Role) -> None:
    """Raises Refused (403) when the token's role is below."""
    if not scope.may(role):
        raise Refused("this token may not do that", code="forbidden", status=403)


def body_hash(request: Request, scope: Scope, body: bytes) -> bytes:
    """Returns what makes a request the same request: project, method, path, query, If-Match and body."""
    parts = [
        scope.project or "",
        request.method,
        str(request.url.path),
        str(request.url.query),
        request.headers.get("if-match", ""),
    ]
    return hashlib.sha256(json.dumps(parts).encode() + b"\n" + body).digest()


def known_parameters(request: Request, *names: str) -> None:
    """Raises Refused (400) for a query parameter that nobody knows: a misspelt filter must not show everything."""
    for name in request.query_params:
        if name not in names:
            raise Refused(
                f"there is no query parameter {name}", code="unknown_parameter", status=400, parameter=name
            )
        if len(request.query_params.getlist(name)) > 1:
            raise Refused(
                f"the query parameter {name} is given twice",
                code="repeated_parameter",
                status=400,
                parameter=name,
            )


def page(request: Request) -> tuple[int, str | None]:
    """Returns the page's size and where it begins. Raises Refused (400)."""
    text = request.query_params.get("page_size", "50")
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise Refused("page_size is a number from 1 to 1000", code="bad_page_size", status=400)
    token = request.query_params.get("page_token")
    if token is not None and not PAGE_TOKEN.fullmatch(token):
        raise Refused("page_token is not one of ours", code="bad_page_token", status=400)
    return int(text), token
