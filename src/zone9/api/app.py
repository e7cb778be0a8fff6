"""The application: routes from the registry, what runs beside them, and one OpenAPI document."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import structlog
from fastapi import FastAPI

from zone9.api import alarms, document, events, guests, health, jobs, problems, record, sweeps, tenancy
from zone9.api.door import Door
from zone9.api.resources import router
from zone9.api.state import ApiState
from zone9.base.errors import Problem
from zone9.model.ports import Product
from zone9.store import audit, idempotency
from zone9.store import events as change_sequence

log = structlog.get_logger("zone9.api")

TRIM_SECONDS = 600.0
HEAD_SECONDS = 3600.0


def create_app(state: ApiState) -> FastAPI:
    """Returns the application of one API process."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        beside = [asyncio.create_task(state.bell.listen()), asyncio.create_task(_trimming(state))]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    app = described(state.registry, lifespan=lifespan)
    app.state.zone9 = state
    return app


def described(registry: Mapping[str, Product], **more: Any) -> FastAPI:
    """Returns the application without a state: enough for its OpenAPI document."""
    app = FastAPI(
        title="zone9",
        version="1",
        summary="What was asked, and what was measured",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        redirect_slashes=False,
        separate_input_output_schemas=False,
        **more,
    )
    for product in registry.values():
        app.include_router(router(product))
    for one in (guests, sweeps, alarms, jobs, events, record, tenancy, health):
        app.include_router(one.routes)
    problems.install(app)
    app.add_middleware(Door)
    document.install(app)
    return app


async def _trimming(state: ApiState) -> None:
    """Removes events and idempotency keys whose time is over; any process may, and several do no harm.

    Once an hour the audit's head goes to the log, which is kept where the database cannot write.
    """
    said: float | None = None
    while True:
        try:
            await change_sequence.trim(state.database)
            await idempotency.trim(state.database)
            if said is None or time.monotonic() - said >= HEAD_SECONDS:
                async with state.database.begin() as connection:
                    log.info("audit", head=str(await audit.head(connection)))
                said = time.monotonic()
        except Problem as error:
            log.warning("trimming put off", why=error.internal)
        await asyncio.sleep(TRIM_SECONDS)
