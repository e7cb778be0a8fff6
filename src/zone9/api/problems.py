"""RFC 9457: every error is `application/problem+json`, with a stable code, pointers, and words in two languages.

The internal half of an error goes to the log with the request's id, and never out.
"""

import http
from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
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
    best, language = 0.0, "en"
    for part in request.headers.get("accept-language", "").split(","):
        tag, _, quality = part.strip().partition(";q=")
        primary = tag.strip().lower().split("-")[0]
        try:
            weight = float(quality) if quality else 1.0
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
                detail=turkish.detail(one.code, {**words, **one.words}, one.message)
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
                detail=str(one["msg"]),
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
        language = language_of(request)
        code = HTTP_CODES.get(error.status_code, "refused")
        document = ProblemDocument(
            title=_title(error.status_code, language),
            status=error.status_code,
            detail=turkish.detail(code, {}, str(error.detail)) if language == "tr" else str(error.detail),
            code=code,
        )
        return _response(document, language, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("fault of our own", path=request.url.path, exc_info=error)
        language = language_of(request)
        text = "zone9 has a fault here; its log says more"
        document = ProblemDocument(
            title=_title(500, language),
            status=500,
            detail=turkish.detail("internal_error", {}, text) if language == "tr" else text,
            code="internal_error",
        )
        return _response(document, language, {})


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
