"""The application: routes from the registry, limits on what comes in, and one OpenAPI document."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zone9.api import events, health, jobs, problems, tenancy
from zone9.api.resources import router
from zone9.api.state import ApiState
from zone9.model.ports import Product

log = structlog.get_logger("zone9.api")

BODY_LIMIT = 2**20
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": problems.ProblemDocument, "description": "a problem (RFC 9457)"}
    for code in (400, 401, 403, 404, 409, 410, 412, 413, 415, 422, 503)
}


def create_app(state: ApiState) -> FastAPI:
    """Returns the application of one API process."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        listening = asyncio.create_task(state.bell.listen())
        try:
            yield
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening

    app = described(state.registry, lifespan=lifespan)
    app.state.zone9 = state
    return app


def described(registry: Any, **more: Any) -> FastAPI:
    """Returns the application without a state: enough for its OpenAPI document."""
    app = FastAPI(
        title="zone9",
        version="1",
        summary="What was asked, and what was measured",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        responses=PROBLEMS,
        redirect_slashes=False,
        separate_input_output_schemas=False,
        **more,
    )
    products: list[Product] = list(registry.values())
    for product in products:
        app.include_router(router(product))
    for one in (jobs, events, tenancy, health):
        app.include_router(one.routes)
    problems.install(app)
    app.add_middleware(Door)
    _say_media_types(app)
    return app


def _say_media_types(app: FastAPI) -> None:
    """Says in the document that errors are problem+json, and that a bearer token is needed."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema:
            return app.openapi_schema
        document = plain()
        document.setdefault("components", {})["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"}
        }
        for path, operations in document["paths"].items():
            for operation in operations.values():
                if path.startswith("/v1/"):
                    operation["security"] = [{"token": []}]
                for status, response in operation["responses"].items():
                    if status[0] in "45" and "application/json" in response.get("content", {}):
                        kept = response["content"].pop("application/json")
                        response["content"][
                            problems.MEDIA_TYPE if path.startswith("/v1/") else "application/json"
                        ] = kept
        app.openapi_schema = document
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own documented way


class Door:
    """Gives each request an id, bounds its body, wants JSON, and says what became of it in one line of log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request_id, status = time.perf_counter(), uuid.uuid4().hex[:16], 0
        headers = dict(scope["headers"])

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        with structlog.contextvars.bound_contextvars(request=request_id):
            refusal = await _refusal(scope, headers, receive)
            if isinstance(refusal, JSONResponse):
                await refusal(scope, receive, sending)
            else:
                await self._app(scope, refusal, sending)
            log.info(
                "request",
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round((time.perf_counter() - began) * 1000, 1),
            )


async def _refusal(scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> JSONResponse | Receive:
    """Reads the body up to the limit; returns the answer to what is too large or not JSON, else a replaying receive."""
    if scope["method"] in {"GET", "HEAD", "OPTIONS"}:
        return receive
    chunks: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        chunks.append(message.get("body", b""))
        length += len(chunks[-1])
        if length > BODY_LIMIT:
            return _problem(
                413, "body_too_large", "the body is too large; 1 MiB at most", "Content Too Large"
            )
        if not message.get("more_body"):
            break
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if length and kind not in {b"application/json", b"application/merge-patch+json"}:
        return _problem(
            415, "unsupported_media_type", "the body must be application/json", "Unsupported Media Type"
        )
    body, given = b"".join(chunks), False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _problem(status: int, code: str, detail: str, title: str) -> JSONResponse:
    document = problems.ProblemDocument(title=title, status=status, detail=detail, code=code)
    return JSONResponse(
        document.model_dump(mode="json", exclude_none=True), status, media_type=problems.MEDIA_TYPE
    )
