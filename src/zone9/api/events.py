"""Server-Sent Events from the change sequence: `Last-Event-ID` resumes, and 410 says when that is too long ago."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import StreamingResponse

from zone9.api.resources import Who
from zone9.api.state import ApiState, holder_of, known_parameters, state_of
from zone9.base.errors import Problem
from zone9.model.asking import Scope
from zone9.store import events

KEEP_ALIVE_SECONDS = 15.0

routes = APIRouter(tags=["events"])

STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
        "description": "a stream without end",
    }
}


@routes.get("/v1/events", response_class=StreamingResponse, responses=STREAM, operation_id="follow_events")
async def follow(
    request: Request,
    who: Who,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="resumes after this event")
    ] = None,
) -> StreamingResponse:
    known_parameters(request)
    state = state_of(request)
    async with state.database.begin() as connection:
        if last_event_id is None:
            place = await events.newest(connection)
        else:
            place = events.parsed(last_event_id, state.epoch)
            await events.check(connection, place)
    return StreamingResponse(
        _stream(request, state, who, place),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _stream(request: Request, state: ApiState, who: Scope, place: events.Place) -> AsyncIterator[str]:
    yield f"id: {place.text(state.epoch)}\nevent: hello\ndata: {{}}\n\n"
    while not await request.is_disconnected():
        try:
            if await holder_of(request) is None:
                return  # the token was revoked meanwhile
            async with state.database.begin() as connection:
                found, more = await events.read(connection, who, place)
        except Problem:
            return  # the database is away: the client comes back with its last id
        for one in found:
            data = {"kind": one.kind, "resource": one.resource, "at": one.at.isoformat(), **one.data}
            yield f"id: {one.place.text(state.epoch)}\nevent: {one.kind}\ndata: {json.dumps(data)}\n\n"
            place = one.place
        if found:
            continue
        if more:
            await state.bell.wait(0.05)
            continue
        await state.bell.wait(KEEP_ALIVE_SECONDS)
        yield ": still here\n\n"
