"""The record: who asked for what, and how long things took."""

import json
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from zone9.api.resources import PageSize, PageToken, Who
from zone9.api.state import known_parameters, need, page, state_of
from zone9.base.errors import Refused
from zone9.store import audit, convergences

routes = APIRouter(tags=["record"])


class AuditEntry(BaseModel):
    """One entry; `entry` is the very text that `hash` covers (after the hash before it and a line feed)."""

    seq: int
    at: str
    actor: str
    action: str
    kind: str | None = None
    name: str | None = None
    resource: str | None = None
    project: str | None = None
    intent_version: int | None = None
    entry: str
    hash: str


class AuditPage(BaseModel):
    """A page of the audit, oldest first unless asked otherwise."""

    items: list[AuditEntry]
    next_page_token: str | None
    page_size: int


class AuditHead(BaseModel):
    """The end of the chain; noted elsewhere, it shows later whether the chain was made anew."""

    seq: int
    hash: str
    head: str


class Percentiles(BaseModel):
    """How long versions of one kind took in one region from being asked for to being read back; seconds."""

    kind: str
    region: str | None
    region_name: str | None
    count: int
    p50: float
    p95: float
    p99: float
    longest: float


class UnderWay(BaseModel):
    """Versions that are asked for and not read back yet; `oldest` is seconds."""

    kind: str
    region: str | None
    region_name: str | None
    count: int
    oldest: float


class ConvergenceReport(BaseModel):
    """What converged within the window, and what is under way now."""

    window: int
    converged: list[Percentiles]
    under_way: list[UnderWay]


@routes.get("/v1/audit", response_model=AuditPage, operation_id="list_audit")
async def list_audit(
    request: Request,
    who: Who,
    page_size: PageSize = 50,
    page_token: PageToken = None,
    order: Literal["oldest", "newest"] = "oldest",
) -> Any:
    """An administrator sees the whole chain, an owner what belongs to the project."""
    known_parameters(request, "page_size", "page_token", "order")
    need(who, "owner")
    size, token = page(request)
    if token is not None and not token.isdecimal():
        raise Refused("page_token is not one of ours", code="bad_page_token", status=400)
    async with state_of(request).database.begin() as connection:
        found = await audit.listed(
            connection, who, after=min(int(token or 0), 2**62), limit=size + 1, newest=order == "newest"
        )
    items = [{**json.loads(one["entry"]), **one} for one in found[:size]]
    more = str(found[size - 1]["seq"]) if len(found) > size else None
    return {"items": items, "next_page_token": more, "page_size": size}


@routes.get("/v1/audit/head", response_model=AuditHead, operation_id="audit_head")
async def audit_head(request: Request, who: Who) -> Any:
    known_parameters(request)
    need(who, "admin")
    async with state_of(request).database.begin() as connection:
        head = await audit.head(connection)
    return {"seq": head.seq, "hash": head.hash, "head": str(head)}


@routes.get("/v1/convergence", response_model=ConvergenceReport, operation_id="convergence")
async def convergence(
    request: Request,
    who: Who,
    window: Annotated[int, Query(ge=60, le=34_560_000, description="seconds")] = 86_400,
) -> Any:
    """An administrator's numbers are over all projects, everybody else's over the token's own."""
    known_parameters(request, "window")
    project = None if who.may("admin") else who.project
    async with state_of(request).database.begin() as connection:
        done = await convergences.percentiles(connection, window_seconds=window, project=project)
        open_ones = await convergences.under_way(connection, project=project)
    return {
        "window": window,
        "converged": [asdict(one) for one in done],
        "under_way": [asdict(one) for one in open_ones],
    }
