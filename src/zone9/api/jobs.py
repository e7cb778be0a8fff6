"""Jobs: what automation polls. `Prefer: wait=N` holds the answer until the job has moved on or N seconds passed."""

import asyncio
import re
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response

from zone9.api.mutations import once
from zone9.api.problems import language_of
from zone9.api.resources import Key, NoBody, PageSize, PageToken, Who
from zone9.api.shapes import Job, JobPage, job_shape
from zone9.api.state import known_parameters, need, page, state_of
from zone9.base.errors import Refused
from zone9.model.states import JobStatus
from zone9.store import queries

LONGEST_WAIT = 55
OPEN = ("queued", "running", "waiting")

routes = APIRouter(prefix="/v1/jobs", tags=["jobs"])


@routes.get("", response_model=JobPage, operation_id="list_jobs")
async def list_(
    request: Request,
    who: Who,
    page_size: PageSize = 50,
    page_token: PageToken = None,
    resource: Annotated[str | None, Query(max_length=80)] = None,
    status: JobStatus | None = None,
    kind: Annotated[str | None, Query(max_length=40)] = None,
) -> Any:
    known_parameters(request, "page_size", "page_token", "resource", "status", "kind")
    size, below = page(request)
    async with state_of(request).database.begin() as connection:
        found = await queries.jobs(
            connection,
            who,
            resource_id=resource,
            status=None if status is None else str(status),
            kind=kind,
            below=below,
            limit=size + 1,
        )
    language = language_of(request)
    more = found[size - 1]["id"] if len(found) > size else None
    return {
        "items": [job_shape(row, language) for row in found[:size]],
        "next_page_token": more,
        "page_size": size,
    }


@routes.get("/{job}", response_model=Job, operation_id="show_job")
async def show(
    request: Request,
    who: Who,
    job: str,
    response: Response,
    prefer: Annotated[
        str | None, Header(alias="Prefer", description="wait=N holds the answer up to 55 s")
    ] = None,
) -> Any:
    known_parameters(request)
    state = state_of(request)
    seconds = _wait(prefer)
    until = asyncio.get_running_loop().time() + seconds
    first: Any = None
    while True:
        async with state.database.begin() as connection:
            row = await queries.job(connection, who, job)
        if row is None:
            raise Refused(f"there is no job {job}", code="not_found", status=404, kind="job", ref=job)
        seen = (row["status"], row["steps"], row["needs"])
        first = seen if first is None else first
        left = until - asyncio.get_running_loop().time()
        if row["status"] not in OPEN or seen != first or left <= 0 or await request.is_disconnected():
            break
        # Steps move without an event, so they are looked at every half second.
        await state.bell.wait(min(left, 0.5))
    if row["status"] in OPEN:
        response.headers["Retry-After"] = "1"
    if seconds:
        response.headers["Preference-Applied"] = f"wait={seconds}"
    return job_shape(row, language_of(request))


@routes.post("/{job}/cancel", response_model=Job, operation_id="cancel_job")
async def cancel(
    request: Request, who: Who, job: str, body: NoBody | None = None, key: Key = None
) -> Response:
    """Ends an open job; its version is not gone on with until somebody asks again."""
    known_parameters(request)
    need(who, "operator")
    state = state_of(request)

    async def do(connection: Any) -> tuple[Response, str | None]:
        await state.asking.cancel(connection, who, job)
        row = await queries.job(connection, who, job)
        assert row is not None
        shape = Job.model_validate(job_shape(row, language_of(request)))
        return Response(shape.model_dump_json(), 200, media_type="application/json"), None

    return await once(request, who, do)


def _wait(prefer: str | None) -> int:
    found = re.search(r"(?:^|[,;\s])wait=(\d{1,5})(?:$|[,;\s])", prefer or "")
    return 0 if found is None else min(int(found[1]), LONGEST_WAIT)
