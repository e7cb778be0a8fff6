"""A sandbox for each test, and a client of it."""

from collections.abc import AsyncIterator

import pytest
from sandbox_api import Api
from upload_api import TENANT, client

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
    """Asks as a token that may also take snapshots, make pools and open consoles."""
    api = await client(sandbox, "admin", "PVEAdmin")
    yield api
    await api.close()


@pytest.fixture
async def tenant(sandbox: Sandbox) -> AsyncIterator[Api]:
    """Asks as a token that may upload, but neither delete volumes nor reach the network."""
    sandbox.add_storage("small", content=("iso", "images"), path="/var/lib/small", total=2**20)
    sandbox.add_storage("tiny", content=("images", "import"), path="/var/lib/tiny", total=2**18)
    api = await client(sandbox, "tenant", TENANT)
    yield api
    await api.close()


@pytest.fixture
async def keeper(sandbox: Sandbox) -> AsyncIterator[Api]:
    """Asks as a token that may also delete volumes and reach the network."""
    api = await client(sandbox, "keeper", TENANT | {"Datastore.Allocate", "Sys.AccessNetwork"})
    yield api
    await api.close()
