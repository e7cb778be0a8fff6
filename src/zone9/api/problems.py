"""RFC 9457: every error is `application/problem+json`, with a stable code, pointers, and words in two languages.

The internal half of an error goes to the log with the request's id, and never out.
"""

import http
import re
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from zone9.api import turkish
from zone9.base.errors import Later, Problem, Refused

log = structlog.get_logger("zone9.api")

MEDIA_TYPE = "application/problem+json"
HTTP_CODES = {
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}


class FieldError(BaseModel):
    """One part of the request that is wrong."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body")
    code: str
    detail: str


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str = Field(description="stable, never translated")
    errors: list[FieldError] = []
    retryable: bool = False
    current_etag: str | None = None
    diff: dict[str, Any] | None = None


def language_of(request: Request) -> str:
    """Returns `tr` or `en`: the better liked of the two by Accept-Language; English when it says nothing."""
    return language_in(request.headers)


def language_in(headers: Headers) -> str:
    """Returns the same from a request's headers alone."""
    best, language = 0.0, "en"
    for part in headers.get("accept-language", "").split(","):
        tag, _, quality = part.replace(" ", "").lower().partition(";q=")
        primary = tag.split("-")[0]
        try:
            weight = float(quality or 1)
        except ValueError:
            continue
        if primary in {"tr", "en"} and weight > best:
            best, language = weight, primary
    return language


def message_in(language: str, message: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns a stored message (of a verdict or a job) in the reader's language."""
    if message is None:
        return None
    text = str(message.get("text", ""))
    words = dict(message.get("words") or {})
    if language == "tr":
        text = turkish.detail(str(message.get("code")), words, text)
    return {"code": message.get("code"), "text": text}


def answer(request: Request, problem: Problem) -> JSONResponse:
    """Returns the answer to an error that zone9 raised on purpose."""
    status = problem.status if isinstance(problem, Refused) else 503 if isinstance(problem, Later) else 500
    words = problem.words
    headers = {}
    if status == 503:
        headers["Retry-After"] = "2"
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(words.get("etag"), str):
        headers["ETag"] = words["etag"]
    fields = problem.fields if isinstance(problem, Refused) else ()
    language = language_of(request)
    document = ProblemDocument(
        title=_title(status, language),
        status=status,
        detail=turkish.detail(problem.code, words, problem.public) if language == "tr" else problem.public,
        code=problem.code,
        errors=[
            FieldError(
                pointer=one.pointer,
                code=one.code,
                detail=turkish.field(one.code, {**words, **one.words}, one.message)
                if language == "tr"
                else one.message,
            )
            for one in fields
        ],
        retryable=status == 503,
        current_etag=words.get("etag"),
        diff=words.get("diff"),
    )
    if status >= 500:
        log.warning("request failed", code=problem.code, why=problem.internal, path=request.url.path)
    return _response(document, language, headers)


def plain(headers: Headers, status: int, code: str, text: str, **more: str) -> JSONResponse:
    """Returns the answer to an error that the framework (or the door) found, with no values in its sentence."""
    language = language_in(headers)
    document = ProblemDocument(
        title=_title(status, language),
        status=status,
        detail=turkish.detail(code, {}, text) if language == "tr" else text,
        code=code,
    )
    return _response(document, language, more)


def install(app: FastAPI) -> None:
    """Makes every error of the framework a problem document as well."""

    @app.exception_handler(Problem)
    async def ours(request: Request, error: Problem) -> JSONResponse:
        return answer(request, error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        language = language_of(request)
        found = error.errors()
        in_body = all(one["loc"] and one["loc"][0] == "body" for one in found)
        broken = any(one["type"] == "json_invalid" for one in found)
        status = 422 if in_body and not broken else 400
        code = "bad_json" if broken else "invalid_spec" if in_body else "bad_parameter"
        fields = [
            FieldError(
                pointer="" if broken else "/" + "/".join(_escaped(part) for part in one["loc"][1:]),
                code=str(one["type"]),
                detail=turkish.field(str(one["type"]), one.get("ctx") or {}, str(one["msg"]))
                if language == "tr"
                else str(one["msg"]).removeprefix("Value error, "),
            )
            for one in found
        ]
        text = fields[0].detail if fields else "the request is not valid"
        words: dict[str, object] = {"pointer": fields[0].pointer if fields else ""}
        document = ProblemDocument(
            title=_title(status, language),
            status=status,
            detail=turkish.detail(code, words, text) if language == "tr" else text,
            code=code,
            errors=fields,
        )
        return _response(document, language, {})

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        code = HTTP_CODES.get(error.status_code, "refused")
        more = dict(error.headers or {})
        if error.status_code == 405:
            more["Allow"] = ", ".join(_allowed(app, request))
        return plain(request.headers, error.status_code, code, str(error.detail), **more)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("fault of our own", path=request.url.path, exc_info=error)
        return plain(request.headers, 500, "internal_error", "zone9 has a fault here; its log says more")


def _allowed(app: FastAPI, request: Request) -> list[str]:
    """Returns the methods of this path by our own document: the framework names those of one route alone."""
    methods: set[str] = set()
    for path, operations in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), request.url.path):
            methods |= {method.upper() for method in operations}
    return sorted(methods)


def _title(status: int, language: str) -> str:
    if language == "tr":
        return turkish.TITLE.get(status, "Hata")
    return http.HTTPStatus(status).phrase


def _escaped(part: Any) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _response(document: ProblemDocument, language: str, headers: dict[str, str]) -> JSONResponse:
    body = document.model_dump(mode="json", exclude_none=True)
    return JSONResponse(
        body, document.status, media_type=MEDIA_TYPE, headers={"Content-Language": language, **headers}
    )
