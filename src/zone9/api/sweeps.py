"""How the newest pass over a region went, and what speaks against its silence."""

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from zone9.api.problems import language_of, message_in
from zone9.api.resources import Who
from zone9.api.shapes import Words
from zone9.api.state import known_parameters, state_of
from zone9.base.errors import Refused
from zone9.store import inventory, queries

routes = APIRouter(tags=["regions"])


class Sweep(BaseModel):
    """The newest pass; `at` and `good_at` are when passes began, by the database's clock."""

    at: datetime
    good_at: datetime | None = Field(description="the newest pass whose silence about a VM means something")
    good_age_seconds: float | None
    frozen: list[Words] = Field(
        description="why no absence is judged now; empty when the newest pass was good"
    )
    passes: int
    requests: int = Field(description="of the newest pass; reading configs is apart")
    nodes: int
    seconds: float
    skew_seconds: float | None = Field(
        description="the node's clock less that of the process that made the pass"
    )
    gaps: int = Field(description="times that the log had a gap, after which everything was suspect")
    guests: int
    missing: int
    suspects: int = Field(description="VMs whose config is to be read at once")
    oldest_read_at: datetime | None = Field(
        description="of all VMs' configs, when the oldest reading was made"
    )


@routes.get("/v1/regions/{ref}/sweep", response_model=Sweep, operation_id="sweep_of_region")
async def sweep_of_region(request: Request, who: Who, ref: str) -> Any:
    known_parameters(request)
    state = state_of(request)
    product = state.registry["region"]
    async with state.database.begin() as connection:
        region = await queries.resource(connection, who, "region", product.prefix, ref)
        found = None if region is None else await inventory.sweep(connection, region["id"])
    if found is None:
        sentence = f"there is no region {ref}" if region is None else f"no pass over {ref} was made yet"
        raise Refused(sentence, code="not_found", status=404, kind="region", ref=ref)
    language = language_of(request)
    return {**found, "frozen": [message_in(language, one) for one in found["frozen"]]}
