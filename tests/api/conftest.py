"""The API in this process, over a real database and the sandbox; its client speaks to it as ASGI."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from api_world import Api
from world import World
from zone9.api.app import create_app
from zone9.api.state import ApiState
from zone9.store import tokens
from zone9.store.listening import Bell


@pytest.fixture
async def api(world: World) -> AsyncIterator[Api]:
    zone9 = world.zone9
    state = ApiState(zone9.database, zone9.asking, zone9.products, zone9.sealer, 1, Bell(zone9.database.url))
    async with zone9.database.begin() as connection:
        _, plain = await tokens.create(connection, name="first", role="admin", project=None)
    app = create_app(state)
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {plain}"}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://zone9", headers=headers) as client,
    ):
        yield Api(client, world, plain)
