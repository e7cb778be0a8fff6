"""How a mutation is answered: 202 with a job, 200 with nothing left to do, a rehearsal, or a replay.

All in the one transaction of the change: the stored answer of an Idempotency-Key stands or falls with it.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.encoders import jsonable_encoder

from zone9.api.problems import language_of
from zone9.api.shapes import etag_of, job_shape, resource_shape
from zone9.api.state import ApiState, body_hash, state_of
from zone9.base.errors import Refused
from zone9.model.asking import Answer, Scope
from zone9.store import idempotency, queries

Do = Callable[[Any], Awaitable[Answer]]


class _Rehearsed(Exception):
    """Carries a dry run's answer out of the transaction that is rolled back for it."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


async def mutate(request: Request, scope: Scope, kind: str, do: Do, *, dry_run: bool = False) -> Response:
    """Carries out a change and answers it."""

    async def answered(connection: Any) -> tuple[Response, str | None]:
        answer = await do(connection)
        if dry_run:
            raise _Rehearsed(answer)
        return await _told(state_of(request), connection, request, scope, kind, answer), answer.job

    try:
        return await once(request, scope, answered)
    except _Rehearsed as rehearsed:
        answer = rehearsed.answer
        plan = [one.as_json() for one in answer.plan or ()]
        return _json(200, {"plan": plan, "diffs": [dict(one) for one in answer.diffs]}, {})


async def once(
    request: Request,
    scope: Scope,
    do: Callable[[Any], Awaitable[tuple[Response, str | None]]],
    *,
    secret: bool = False,
) -> Response:
    """Runs a change in one transaction; with an Idempotency-Key the same request gets the same answer again."""
    state = state_of(request)
    key = request.headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= 255 and key.isprintable() and key.isascii()):
        raise Refused(
            "an Idempotency-Key has 1 to 255 printable characters", code="bad_parameter", status=400
        )
    hashed = body_hash(request, scope, await request.body()) if key is not None else b""
    async with state.database.begin() as connection:
        if key is not None:
            known = await idempotency.recall(
                connection, state.sealer, token=scope.token, key=key, body_hash=hashed
            )
            if known is not None:
                headers = {**known.headers, "Idempotent-Replayed": "true"}
                return Response(known.body, known.status, headers=headers, media_type="application/json")
        response, job = await do(connection)
        if key is not None:
            kept = {
                name: value
                for name, value in response.headers.items()
                if name.lower() not in {"content-length", "content-type"}
            }
            stored = idempotency.Stored(response.status_code, kept, bytes(response.body))
            await idempotency.store(
                connection,
                state.sealer,
                stored,
                token=scope.token,
                key=key,
                body_hash=hashed,
                job=job,
                secret=secret,
            )
        return response


async def _told(
    state: ApiState, connection: Any, request: Request, scope: Scope, kind: str, answer: Answer
) -> Response:
    product, language = state.registry[kind], language_of(request)
    structlog.contextvars.bind_contextvars(resource=answer.resource, job=answer.job)
    row = await queries.resource(connection, scope, kind, product.prefix, answer.resource, deleted=True)
    assert row is not None
    headers = {"ETag": etag_of(row, state.epoch)}
    job = None
    if answer.job is not None:
        found = await queries.job(connection, scope, answer.job)
        assert found is not None
        job = job_shape(found, language)
        headers |= {"Location": f"/v1/jobs/{answer.job}", "Retry-After": "1"}
    body = {"resource": resource_shape(row, product, language), "job": job}
    return _json(200 if job is None else 202, body, headers)


def _json(status: int, body: Any, headers: dict[str, str]) -> Response:
    text = json.dumps(jsonable_encoder(body), ensure_ascii=False)
    return Response(text, status, headers=headers, media_type="application/json")
