"""The routes of one product, made from the registry: a new product appears by registration alone."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, create_model

from zone9.api.mutations import mutate
from zone9.api.problems import language_of
from zone9.api.shapes import Mutation, Opened, Page, Rehearsal, Rows, etag_of, is_stale, resource_shape
from zone9.api.state import known_parameters, need, page, scope_of, state_of
from zone9.base.errors import Refused
from zone9.model.asking import Answer, Scope
from zone9.model.ports import Product
from zone9.store import drifts, queries

Reader = Callable[..., Awaitable[Sequence[Mapping[str, Any]]]]
Who = Annotated[Scope, Depends(scope_of)]
DryRun = Annotated[bool, Query(description="answers the plan, changes nothing")]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="the ETag that the change is based on")]
Key = Annotated[
    str | None, Header(alias="Idempotency-Key", description="the same request gets the same answer")
]
Name = Annotated[str, Field(min_length=1, max_length=63, description="a DNS label")]
PageSize = Annotated[int, Query(ge=1, le=1000)]
PageToken = Annotated[str | None, Query(max_length=100)]

DONE: dict[int | str, dict[str, Any]] = {
    200: {"model": Mutation | Rehearsal, "description": "nothing is left to do, or a dry run"},
    202: {"model": Mutation, "description": "a job is at work"},
}


class NoBody(BaseModel):
    """A body without members; it may be left out."""

    model_config = ConfigDict(extra="forbid")


def router(product: Product) -> APIRouter:
    """Returns the routes of one kind."""
    routes = APIRouter(prefix=f"/v1/{product.collection}", tags=[product.collection])
    kind = product.kind
    title = "".join(part.title() for part in kind.split("-"))
    create_body: Any = create_model(
        f"{title}Create",
        __config__=ConfigDict(extra="forbid"),
        name=(Name, ...),
        spec=(product.spec_model, ...),
    )
    change_body: Any = create_model(
        f"{title}Change",
        __config__=ConfigDict(extra="forbid"),
        name=(Name | None, None),
        spec=(
            dict[str, Any] | None,
            Field(default=None, description="a JSON merge patch (RFC 7396) of the spec"),
        ),
    )

    @routes.get("", response_model=Page, operation_id=f"list_{product.collection}")
    async def list_(
        request: Request, who: Who, page_size: PageSize = 50, page_token: PageToken = None,
        name: Annotated[str | None, Query(max_length=80)] = None,
    ) -> Any:  # fmt: skip
        known_parameters(request, "page_size", "page_token", "name")
        size, after = page(request)
        async with state_of(request).database.begin() as connection:
            found = await queries.resources(connection, who, kind, name=name, after=after, limit=size + 1)
        language = language_of(request)
        items = [resource_shape(row, product, language) for row in found[:size]]
        more = found[size - 1]["id"] if len(found) > size else None
        return {"items": items, "next_page_token": more, "page_size": size}

    @routes.post("", status_code=202, responses=DONE, operation_id=f"create_{kind}")
    async def create(
        request: Request,
        who: Who,
        body: create_body,
        dry_run: DryRun = False,
        key: Key = None,
    ) -> Response:
        known_parameters(request, "dry_run")
        spec, asked = (await request.json())["spec"], _any(body)

        async def do(connection: Any) -> Answer:
            return await state_of(request).asking.create(
                connection,
                who,
                kind,
                asked.name,
                spec,
                dry_run=dry_run,
            )

        return await mutate(request, who, kind, do, dry_run=dry_run)

    @routes.get("/{ref}", response_model=Opened, operation_id=f"show_{kind}")
    async def show(request: Request, who: Who, ref: str, response: Response) -> Any:
        """A reading that is older than its budget is measured anew: `verifying` names the job."""
        known_parameters(request)
        state = state_of(request)
        row, verifying = await _row(request, who, product, ref, deleted=True), None
        if is_stale(row, product):
            async with state.database.begin() as connection:
                verifying = await state.asking.verify_stale(connection, kind, row["id"])
        response.headers["ETag"] = etag_of(row, state.epoch)
        return {**resource_shape(row, product, language_of(request)), "verifying": verifying}

    @routes.patch("/{ref}", status_code=202, responses=DONE, operation_id=f"change_{kind}")
    async def change(
        request: Request, who: Who, ref: str, body: change_body, dry_run: DryRun = False,
        if_match: IfMatch = None, key: Key = None,
    ) -> Response:  # fmt: skip
        known_parameters(request, "dry_run")
        asked = _any(body)

        async def do(connection: Any) -> Answer:
            return await state_of(request).asking.change(
                connection,
                who,
                kind,
                ref,
                name=asked.name,
                patch=asked.spec,
                if_match=if_match,
                dry_run=dry_run,
            )

        return await mutate(request, who, kind, do, dry_run=dry_run)

    @routes.delete("/{ref}", status_code=202, responses=DONE, operation_id=f"delete_{kind}")
    async def delete(
        request: Request,
        who: Who,
        ref: str,
        dry_run: DryRun = False,
        if_match: IfMatch = None,
        key: Key = None,
    ) -> Response:
        known_parameters(request, "dry_run")

        async def do(connection: Any) -> Answer:
            return await state_of(request).asking.delete(
                connection, who, kind, ref, if_match=if_match, dry_run=dry_run
            )

        return await mutate(request, who, kind, do, dry_run=dry_run)

    for action in product.actions.values():
        _add_action(routes, product, action.name, action.body or NoBody)
    if product.outside:
        _add_requests(routes, product)
    _add_records(routes, product)
    return routes


def _add_action(routes: APIRouter, product: Product, name: str, model: Any) -> None:
    @routes.post(f"/{{ref}}/{name}", status_code=202, responses=DONE, operation_id=f"{name}_{product.kind}")
    async def act(
        request: Request,
        who: Who,
        ref: str,
        body: model | None = None,
        dry_run: DryRun = False,
        key: Key = None,
    ) -> Response:
        known_parameters(request, "dry_run")
        given: dict[str, Any] = {} if body is None else body.model_dump()

        async def do(connection: Any) -> Answer:
            return await state_of(request).asking.act(
                connection, who, product.kind, ref, name, given, dry_run=dry_run
            )

        return await mutate(request, who, product.kind, do, dry_run=dry_run)


def _add_requests(routes: APIRouter, product: Product) -> None:
    kind = product.kind

    @routes.post("/{ref}/verify", status_code=202, responses=DONE, operation_id=f"verify_{kind}")
    async def verify(
        request: Request, who: Who, ref: str, body: NoBody | None = None, key: Key = None
    ) -> Response:
        """Opens a measuring job, or returns the open one: it creates nothing, changes nothing, only looks."""
        known_parameters(request)
        need(who, "member")

        async def do(connection: Any) -> Answer:
            return await state_of(request).asking.verify(connection, who, kind, ref)

        return await mutate(request, who, kind, do)

    @routes.post("/{ref}/reconcile", status_code=202, responses=DONE, operation_id=f"reconcile_{kind}")
    async def reconcile(
        request: Request, who: Who, ref: str, body: NoBody | None = None, key: Key = None
    ) -> Response:
        """Starts a version that was given up again."""
        known_parameters(request)

        async def do(connection: Any) -> Answer:
            return await state_of(request).asking.reconcile(connection, who, kind, ref)

        return await mutate(request, who, kind, do)

    if kind == "region":
        routes.add_api_route(
            "/{ref}/self-test",
            verify,
            methods=["POST"],
            status_code=202,
            responses=DONE,
            operation_id="self_test_region",
        )


def _add_records(routes: APIRouter, product: Product) -> None:
    kind = product.kind

    records: tuple[tuple[str, Reader, str], ...] = (
        ("history", queries.history, "version"),
        ("drifts", drifts.listed, "id"),
        ("proofs", queries.proofs, "id"),
    )
    for name, read, key in records:
        routes.add_api_route(
            f"/{{ref}}/{name}",
            _record(product, read, key, numbered=name != "proofs"),
            response_model=Rows,
            operation_id=f"{name}_of_{kind}",
        )


def _record(product: Product, read: Reader, key: str, *, numbered: bool) -> Any:
    """Returns the route of one list that belongs to a resource, newest first; also to one that is deleted."""

    async def listed(
        request: Request, who: Who, ref: str, page_size: PageSize = 50, page_token: PageToken = None
    ) -> Any:
        known_parameters(request, "page_size", "page_token")
        size, after = page(request)
        below = _number(after) if numbered else after
        row = await _row(request, who, product, ref, deleted=True)
        async with state_of(request).database.begin() as connection:
            found = await read(connection, row["id"], below=below, limit=size + 1)
        more = str(found[size - 1][key]) if len(found) > size else None
        return {"items": [dict(one) for one in found[:size]], "next_page_token": more, "page_size": size}

    return listed


def _number(token: str | None) -> int | None:
    if token is None:
        return None
    if not token.isdecimal() or len(token) > 18:
        raise Refused("page_token is not one of ours", code="bad_page_token", status=400)
    return int(token)


def _any(body: Any) -> Any:
    """A body's model is made from the registry at start, so no type checker can know its fields."""
    return body


async def _row(request: Request, who: Scope, product: Product, ref: str, *, deleted: bool = False) -> Any:
    async with state_of(request).database.begin() as connection:
        row = await queries.resource(connection, who, product.kind, product.prefix, ref, deleted=deleted)
    if row is None:
        raise Refused(
            f"there is no {product.kind} {ref}", code="not_found", status=404, kind=product.kind, ref=ref
        )
    return row
