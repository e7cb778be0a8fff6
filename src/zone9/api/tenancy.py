"""Projects and API tokens."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from zone9.api.mutations import once
from zone9.api.resources import Key, Name, NoBody, PageSize, PageToken, Who
from zone9.api.shapes import Rows
from zone9.api.state import known_parameters, need, page, state_of
from zone9.base.errors import FieldProblem, Refused
from zone9.model.asking import RANK, Role
from zone9.reconcile.specs import check_name
from zone9.store import projects, tokens
from zone9.store.database import Row

routes = APIRouter(tags=["tenancy"])


class ProjectCreate(BaseModel):
    """A project; `quota` is the most of a kind that it may have, a kind left out is free."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    quota: dict[
        Annotated[str, Field(pattern=r"^[a-z-]{1,40}$")], Annotated[int, Field(ge=0, le=1_000_000)]
    ] = Field(default_factory=dict, max_length=50)


class Project(BaseModel):
    """What every user resource belongs to."""

    id: str
    name: str
    quota: dict[str, int]
    created_at: datetime


class TokenCreate(BaseModel):
    """A token for the project that is asked in, or (role admin) for the whole installation."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    role: Role


class Token(BaseModel):
    """A token without its secret."""

    id: str
    name: str
    role: Role
    project: str | None
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class NewToken(Token):
    """A token as it is shown once."""

    token: str


@routes.get("/v1/projects", response_model=Rows, operation_id="list_projects")
async def list_projects(
    request: Request, who: Who, page_size: PageSize = 50, page_token: PageToken = None
) -> Any:
    known_parameters(request, "page_size", "page_token")
    need(who, "admin")
    size, after = page(request)
    async with state_of(request).database.begin() as connection:
        found = await projects.listed(connection, after=after, limit=size + 1)
    return _page(found, size)


@routes.post("/v1/projects", status_code=201, response_model=Project, operation_id="create_project")
async def create_project(request: Request, who: Who, body: ProjectCreate, key: Key = None) -> Response:
    known_parameters(request)
    need(who, "admin")
    check_name(body.name)

    async def do(connection: Any) -> tuple[Response, str | None]:
        made = await projects.create(connection, body.name, body.quota, actor=who.actor)
        return JSONResponse(jsonable_encoder(dict(made)), 201), None

    return await once(request, who, do)


@routes.get("/v1/tokens", response_model=Rows, operation_id="list_tokens")
async def list_tokens(
    request: Request, who: Who, page_size: PageSize = 50, page_token: PageToken = None
) -> Any:
    known_parameters(request, "page_size", "page_token")
    need(who, "owner")
    size, after = page(request)
    async with state_of(request).database.begin() as connection:
        found = await tokens.listed(connection, who, after=after, limit=size + 1)
    listed = _page(found, size)
    listed["items"] = [_token(one) for one in found[:size]]
    return listed


@routes.post("/v1/tokens", status_code=201, response_model=NewToken, operation_id="create_token")
async def create_token(request: Request, who: Who, body: TokenCreate, key: Key = None) -> Response:
    """Shows the token this once."""
    known_parameters(request)
    need(who, "owner")
    check_name(body.name)
    if RANK[body.role] > RANK[who.role]:
        sentence = "a token cannot make one with more rights than it has"
        raise Refused(
            sentence, code="forbidden", status=403, fields=(FieldProblem("/role", sentence, "forbidden"),)
        )

    async def do(connection: Any) -> tuple[Response, str | None]:
        project = None if body.role == "admin" else who.project
        made, plain = await tokens.create(
            connection, name=body.name, role=body.role, project=project, actor=who.actor
        )
        return JSONResponse(jsonable_encoder({**_token(made), "token": plain}), 201), None

    return await once(request, who, do, secret=True)


@routes.post("/v1/tokens/{token}/revoke", response_model=Token, operation_id="revoke_token")
async def revoke_token(
    request: Request, who: Who, token: str, body: NoBody | None = None, key: Key = None
) -> Response:
    known_parameters(request)
    need(who, "owner")
    state = state_of(request)

    async def do(connection: Any) -> tuple[Response, str | None]:
        revoked = await tokens.revoke(connection, who, token)
        return JSONResponse(jsonable_encoder(_token(revoked)), 200), None

    answer = await once(request, who, do)
    state.forget(token)
    return answer


def _token(row: Row) -> dict[str, Any]:
    return {
        **{key: row[key] for key in Token.model_fields if key != "project"},
        "project": row["project_name"],
    }


def _page(found: list[Row], size: int) -> dict[str, Any]:
    more = found[size - 1]["id"] if len(found) > size else None
    return {"items": [dict(one) for one in found[:size]], "next_page_token": more, "page_size": size}
