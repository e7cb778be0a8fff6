"""Errors are decisions: the class says what happens next, the message says why.

    Problem
    ├── Refused       the caller asked for something that cannot be; nothing was changed
    ├── Later         a passing fault: try again after `delay` seconds, for ever
    │   └── Unreachable   nobody answered, so nothing is known
    └── Never         zone9 gives up on this version until somebody asks again

Every error carries two messages: `public` is one sentence for whoever asked (no secret, no internal
address), `internal` is for the log. `code` is stable and never translated; `words` holds the values that a
translated sentence needs.
"""

from dataclasses import dataclass, field
from typing import Any


class Problem(Exception):
    """Is the root of all errors that zone9 raises on purpose."""

    code = "problem"

    def __init__(self, public: str, *, code: str | None = None, internal: str = "", **words: Any) -> None:
        super().__init__(internal or public)
        self.public = public
        self.internal = internal or public
        if code is not None:
            self.code = code
        self.words = words


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """Names one part of a request that is wrong; `pointer` is a JSON pointer (RFC 6901)."""

    pointer: str
    message: str
    code: str = "invalid"
    words: dict[str, Any] = field(default_factory=dict)


class Refused(Problem):
    """Is the caller's fault: an HTTP 4xx with `status`, and a list of the fields that are wrong."""

    code = "refused"

    def __init__(
        self,
        public: str,
        *,
        code: str | None = None,
        status: int = 422,
        fields: tuple[FieldProblem, ...] = (),
        internal: str = "",
        **words: Any,
    ) -> None:
        super().__init__(public, code=code, internal=internal, **words)
        self.status = status
        self.fields = fields


class Later(Problem):
    """Will pass: the loop comes back after `delay` seconds, or after its own back-off when None."""

    code = "later"

    def __init__(
        self,
        public: str,
        *,
        delay: float | None = None,
        code: str | None = None,
        internal: str = "",
        **words: Any,
    ) -> None:
        super().__init__(public, code=code, internal=internal, **words)
        self.delay = delay


class Unreachable(Later):
    """Means that nobody answered; whatever was being measured is unknown, not absent."""

    code = "unreachable"


class Never(Problem):
    """Will not pass by waiting: the version has failed until a new intent or a request."""

    code = "never"
