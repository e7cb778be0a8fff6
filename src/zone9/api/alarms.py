"""Alarms: what somebody has to look at, and who has done so."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from zone9.api.mutations import once
from zone9.api.problems import language_of, message_in
from zone9.api.resources import Key, NoBody, PageSize, PageToken, Who
from zone9.api.state import known_parameters, need, page, state_of
from zone9.store import alarms
from zone9.store.database import Row

routes = APIRouter(prefix="/v1/alarms", tags=["alarms"])


class Alarm(BaseModel):
    """An alarm; the same again, while it is open, counts up."""

    id: str
    kind: str
    resource: str
    resource_kind: str
    resource_name: str
    project: str | None
    text: str
    times: int
    first_at: datetime
    last_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None


class AlarmPage(BaseModel):
    """A page of alarms, newest first."""

    items: list[Alarm]
    next_page_token: str | None
    page_size: int


@routes.get("", response_model=AlarmPage, operation_id="list_alarms")
async def list_alarms(
    request: Request,
    who: Who,
    page_size: PageSize = 50,
    page_token: PageToken = None,
    everything: Annotated[bool, Query(alias="all", description="also those that were acknowledged")] = False,
) -> Any:
    known_parameters(request, "page_size", "page_token", "all")
    size, below = page(request)
    async with state_of(request).database.begin() as connection:
        found = await alarms.listed(connection, who, below=below, limit=size + 1, all_of_them=everything)
    more = found[size - 1]["id"] if len(found) > size else None
    return {
        "items": [_shown(one, language_of(request)) for one in found[:size]],
        "next_page_token": more,
        "page_size": size,
    }


@routes.post("/{alarm}/acknowledge", response_model=Alarm, operation_id="acknowledge_alarm")
async def acknowledge_alarm(
    request: Request, who: Who, alarm: str, body: NoBody | None = None, key: Key = None
) -> Response:
    known_parameters(request)
    need(who, "operator")

    async def do(connection: Any) -> tuple[Response, str | None]:
        found = await alarms.acknowledge(connection, who, alarm)
        return JSONResponse(jsonable_encoder(_shown(found, language_of(request))), 200), None

    return await once(request, who, do)


def _shown(row: Row, language: str) -> dict[str, Any]:
    told = message_in(language, {"code": row["kind"], "text": row["text"], "words": row["words"]})
    assert told is not None
    return {**{key: row[key] for key in Alarm.model_fields if key != "text"}, "text": told["text"]}
