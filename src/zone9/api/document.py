"""The OpenAPI document says what is true: which errors each operation answers, in which media type, and who may ask.

FastAPI writes down what it knows. Here is added what holds for every operation: problem documents instead of its
own error model, the bearer token, and the headers of answers.
"""

from typing import Any

from fastapi import FastAPI

from zone9.api.problems import MEDIA_TYPE, ProblemDocument

READS = ("400", "401", "403", "404", "500", "503")
WRITES = (*READS, "409", "412", "413", "415", "422")
MEANING = {
    "400": "the request is not well formed, or a parameter is not known",
    "401": "a valid API token is needed",
    "403": "this token may not do that",
    "404": "there is no such thing for this token",
    "409": "it cannot be done in the present state",
    "410": "events after this id are no longer kept",
    "412": "it was changed meanwhile; the current ETag and the difference are in the answer",
    "413": "the body is larger than 1 MiB",
    "415": "the body is not JSON",
    "422": "a value is not acceptable; `errors` has a JSON pointer for each",
    "500": "a fault of zone9's own",
    "503": "the database does not answer; try again",
}
TEXT: dict[str, Any] = {"schema": {"type": "string"}}
HEADERS: dict[str, dict[str, Any]] = {
    "ETag": {"description": "for If-Match: epoch, intent version, hash of what was asked", **TEXT},
    "Location": {"description": "the job", **TEXT},
    "Retry-After": {"description": "seconds", "schema": {"type": "integer"}},
    "Idempotent-Replayed": {"description": "true when this answer was given before", **TEXT},
}
MUTATES = {"post", "patch", "delete"}
EVERYWHERE = {
    "Project": {
        "name": "Zone9-Project",
        "in": "header",
        "description": "an administrator's choice of project, by name or id; `default` when left out",
        "schema": {"type": "string"},
    },
    "Language": {
        "name": "Accept-Language",
        "in": "header",
        "description": "tr or en, for sentences; codes are never translated",
        "schema": {"type": "string"},
    },
}


def install(app: FastAPI) -> None:
    """Makes the application serve the whole document."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            app.openapi_schema = _completed(plain())
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own documented way


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for left_over in ("HTTPValidationError", "ValidationError"):
        schemas.pop(left_over, None)
    model = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(model.pop("$defs", {}))
    schemas["ProblemDocument"] = model
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    components["parameters"] = EVERYWHERE
    components["responses"] = {f"Problem{status}": _problem(status) for status in sorted(MEANING)}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path.startswith("/v1/"):
                operation["security"] = [{"token": []}]
                _add(path, method, operation)
            else:
                operation["responses"].setdefault("500", _ref("500"))
    return document


def _add(path: str, method: str, operation: dict[str, Any]) -> None:
    common = [{"$ref": f"#/components/parameters/{name}"} for name in EVERYWHERE]
    operation["parameters"] = [*operation.get("parameters", []), *common]
    responses = operation["responses"]
    for status in WRITES if method in MUTATES else READS:
        if status == "412" and not any(
            one.get("name") == "If-Match" for one in operation.get("parameters", [])
        ):
            continue
        responses[status] = _ref(status)
    if path == "/v1/events":
        responses["410"] = _ref("410")
    for status, response in responses.items():
        if "$ref" in response:
            continue
        names = ["ETag"] if "{ref}" in path and path.count("/") == 3 and method == "get" else []
        if method in MUTATES:
            names = ["Idempotent-Replayed"]
        if status == "202":
            names += ["ETag", "Location", "Retry-After"]
        if names:
            response["headers"] = {name: HEADERS[name] for name in names}


def _ref(status: str) -> dict[str, Any]:
    return {"$ref": f"#/components/responses/Problem{status}"}


def _problem(status: str) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    return {"description": MEANING[status], "content": content}
