"""A sandbox for each test, and a client of it."""

from collections.abc import AsyncIterator

import pytest
from sandbox_api import Api

from zone9.sandbox import Sandbox


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    """Is a cluster whose tasks are over before their request returns, with a template 9000."""
    async with Sandbox(("pve1", "pve2"), seed=7) as sandbox:
        sandbox.add_template(9000)
        yield sandbox


@pytest.fixture
async def slow() -> AsyncIterator[Sandbox]:
    """Is a cluster whose clock stands still until it is advanced."""
    async with Sandbox(("pve1", "pve2"), manual_clock=True, seed=7) as sandbox:
        sandbox.add_template(9000)
        yield sandbox


@pytest.fixture
async def api(sandbox: Sandbox) -> AsyncIterator[Api]:
    api = Api(sandbox)
    yield api
    await api.close()


@pytest.fixture
async def slow_api(slow: Sandbox) -> AsyncIterator[Api]:
    api = Api(slow)
    yield api
    await api.close()


@pytest.fixture
async def wide_api(sandbox: Sandbox) -> AsyncIterator[Api]:
    """Asks as a token that may also take snapshots and make pools."""
    token = sandbox.accounts.add_token("admin@pve!wide")
    for who in ("admin@pve", "admin@pve!wide"):
        sandbox.accounts.grant("/", who, "PVEAdmin")
    api = Api(sandbox, token)
    yield api
    await api.close()
