"""Every VM and container of every region: shown, grouped, given to a project, and taken under management when asked.

What is shown is what passes saw. A guest's config is never shown: it may hold what its owner keeps secret.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from zone9.api.mutations import mutate, once
from zone9.api.resources import DONE, DryRun, Key, Name, PageSize, PageToken, Who
from zone9.api.state import known_parameters, need, page, state_of
from zone9.base.errors import FieldProblem, Refused
from zone9.model.asking import Answer, Scope
from zone9.products.servers.adopting import as_asked
from zone9.store import attribution, inventory, projects
from zone9.store.database import Connection, Row

ACTS_SHOWN = 50

routes = APIRouter(tags=["guests"])


class Guest(BaseModel):
    """A VM or container as the newest pass saw it."""

    region: str
    region_name: str
    vmid: int
    type: Literal["qemu", "lxc"]
    node: str
    name: str | None
    status: str = Field(
        description="Proxmox's word; unknown when no good pass confirms it, missing when it is gone"
    )
    tags: list[str]
    pool: str | None
    template: bool
    origin: Literal["managed", "adopted", "unknown"]
    server: str | None = Field(description="the server whose VM it is")
    server_name: str | None
    project: str | None
    first_seen_at: datetime
    changed_at: datetime
    missing_since: datetime | None
    read_at: datetime | None = Field(description="when its config was read last")
    listed_at: datetime | None = Field(description="when the newest good pass began")


class Act(BaseModel):
    """What somebody did to a guest in Proxmox; `touched` names config keys, or the task."""

    at: datetime
    who: str
    what: str
    touched: list[str]


class GuestWithActs(Guest):
    """A guest, and the newest of what others did to it."""

    acts: list[Act]


class GuestPage(BaseModel):
    """A page of guests, by region and VMID."""

    items: list[Guest]
    next_page_token: str | None
    page_size: int


class GuestGroup(BaseModel):
    """Guests that share a pool, tag or node in one region; `key` is null for those without."""

    region: str
    key: str | None
    guests: int
    managed: int
    running: int
    not_seen: int = Field(description="whose status is unknown or missing")


class GuestGroups(BaseModel):
    """All groups."""

    items: list[GuestGroup]


class GuestChange(BaseModel):
    """Whose the guest is: a project's name or id, or null for nobody's."""

    model_config = ConfigDict(extra="forbid")

    project: Annotated[str, Field(min_length=1, max_length=80)] | None


class Manage(BaseModel):
    """How the server is called that the VM becomes; its own name when left out."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None


Text = Annotated[str | None, Query(max_length=100)]


def _narrowed(
    region: Text = None,
    pool: Text = None,
    tag: Text = None,
    node: Text = None,
    type: Annotated[Literal["qemu", "lxc"] | None, Query()] = None,
    origin: Annotated[Literal["managed", "adopted", "unknown"] | None, Query()] = None,
    status: Text = None,
    project: Text = None,
    q: Annotated[str | None, Query(max_length=100, description="a part of the name, or the VMID")] = None,
) -> inventory.Filter:
    return inventory.Filter(region, pool, tag, node, type, origin, status, project, q)


Narrowed = Annotated[inventory.Filter, Depends(_narrowed)]
FILTERS = ("region", "pool", "tag", "node", "type", "origin", "status", "project", "q")


@routes.get("/v1/guests", response_model=GuestPage, operation_id="list_guests")
async def list_guests(
    request: Request, who: Who, narrowed: Narrowed, page_size: PageSize = 50, page_token: PageToken = None
) -> Any:
    """An administrator sees all guests, everybody else those of the token's project."""
    known_parameters(request, *FILTERS, "page_size", "page_token")
    size, token = page(request)
    async with state_of(request).database.begin() as connection:
        found = await inventory.guests(connection, who, narrowed, after=_after(token), limit=size + 1)
    more = f"{found[size - 1]['region']}_{found[size - 1]['vmid']}" if len(found) > size else None
    return {"items": [dict(one) for one in found[:size]], "next_page_token": more, "page_size": size}


@routes.get("/v1/guests/groups", response_model=GuestGroups, operation_id="group_guests")
async def group_guests(
    request: Request, who: Who, narrowed: Narrowed, by: Literal["region", "pool", "tag", "node"] = "region"
) -> Any:
    """Counts guests by region and pool, tag or node; with tags, a guest counts once for each."""
    known_parameters(request, *FILTERS, "by")
    async with state_of(request).database.begin() as connection:
        found = await inventory.groups(connection, who, narrowed, by)
    return {"items": [dict(one) for one in found]}


@routes.get("/v1/guests/{region}/{vmid}", response_model=GuestWithActs, operation_id="show_guest")
async def show_guest(request: Request, who: Who, region: str, vmid: str) -> Any:
    known_parameters(request)
    async with state_of(request).database.begin() as connection:
        found = await _guest(connection, who, region, vmid)
        acts = await inventory.acts(connection, found["region"], found["vmid"], limit=ACTS_SHOWN)
    return {**found, "acts": [dict(one) for one in acts]}


@routes.patch("/v1/guests/{region}/{vmid}", response_model=Guest, operation_id="attribute_guest")
async def attribute_guest(
    request: Request, who: Who, region: str, vmid: str, body: GuestChange, key: Key = None
) -> Response:
    """Says whose a guest is that zone9 did not make; nothing is written to Proxmox."""
    known_parameters(request)
    need(who, "admin")

    async def do(connection: Any) -> tuple[Response, str | None]:
        found = await _guest(connection, who, region, vmid, lock=True)
        project = None if body.project is None else await _project(connection, body.project)
        if await attribution.attribute(connection, found, project):
            await attribution.note(connection, found, project, actor=who.actor)
        shown = Guest.model_validate(dict(await _guest(connection, who, region, vmid)))
        return JSONResponse(jsonable_encoder(shown), 200), None

    return await once(request, who, do)


@routes.post(
    "/v1/guests/{region}/{vmid}/manage", status_code=202, responses=DONE, operation_id="manage_guest"
)
async def manage_guest(
    request: Request, who: Who, region: str, vmid: str, body: Manage | None = None, dry_run: DryRun = False,
    key: Key = None,
) -> Response:  # fmt: skip
    """Takes a VM under management as it is. An administrator takes one that is nobody's into the project named.

    Nothing is written to the VM, but for a uuid of its own where it has none; `release` undoes it.
    """
    known_parameters(request, "dry_run")
    need(who, "operator")

    async def do(connection: Any) -> Answer:
        found = await _guest(connection, who, region, vmid, lock=True)
        if found["status"] not in {"running", "stopped"}:
            sentence = f"VM {found['vmid']} was not seen running or stopped by the newest passes"
            raise Refused(sentence, code="link_not_read", status=409, vmid=found["vmid"])
        given = False
        if found["origin"] == "adopted" and found["project_id"] is None and who.may("admin"):
            given = await attribution.attribute(connection, found, who.project)
        answer = await state_of(request).asking.create(
            connection,
            who,
            "server",
            (body.name if body is not None else None) or found["name"] or f"vm-{found['vmid']}",
            as_asked(found["region"], found["vmid"], running=found["status"] == "running"),
            dry_run=dry_run,
            cause="manage",
        )
        if given:
            await attribution.note(connection, found, who.project, actor=who.actor)
        return answer

    return await mutate(request, who, "server", do, dry_run=dry_run)


async def _guest(connection: Connection, who: Scope, region: str, vmid: str, *, lock: bool = False) -> Row:
    number = int(vmid) if vmid.isascii() and vmid.isdecimal() and len(vmid) < 10 else 0
    found = await inventory.guest(connection, who, region, number, lock=lock) if number else None
    if found is None:
        raise Refused(
            f"there is no guest {vmid} in {region}", code="not_found", status=404, kind="guest", ref=vmid
        )
    return found


async def _project(connection: Connection, ref: str) -> str:
    found = await projects.find(connection, ref)
    if found is None:
        sentence = "there is no such project"
        problem = FieldProblem("/project", sentence, "project_not_found")
        raise Refused(sentence, code="project_not_found", fields=(problem,))
    return str(found["id"])


def _after(token: str | None) -> tuple[str, int] | None:
    if token is None:
        return None
    region, _, vmid = token.rpartition("_")
    if not region or not vmid.isdecimal() or len(vmid) > 9:
        raise Refused("page_token is not one of ours", code="bad_page_token", status=400)
    return region, int(vmid)
