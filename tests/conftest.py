"""Real parts for every test: a PostgreSQL of this session's own, and a database from a migrated template."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from databases import in_database
from postgres_servers import KINDS, Server, Servers
from world import World, make_world
from zone9.sandbox import Sandbox

# Thousands of steps are logged by the cut tests; what matters is asserted.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))

# What lives on the database is tested on both ends of the range that zone9 supports.
ON_BOTH = ("jobs", "reconcile", "store")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "postgres" in metafunc.fixturenames and metafunc.definition.path.parent.name in ON_BOTH:
        metafunc.parametrize("postgres", KINDS, indirect=True, scope="session")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints how often each thing happened in the random scenarios, wherever they were played."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, told in report.user_properties:
            if name == "honesty":
                scenarios, requests, rules = json.loads(str(told))
                fired = ", ".join(f"{rule} {count}" for rule, count in rules)
                terminalreporter.write_line(f"honesty: {scenarios} scenarios, {requests} requests; {fired}")


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with Servers() as both:
        yield both


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest, servers: Servers) -> Server:
    """Returns a running PostgreSQL of this session's own; its migrated template database is `z9_template`."""
    return servers.of(getattr(request, "param", KINDS[0]))


@pytest.fixture
def database_url(postgres: Server) -> Iterator[str]:
    """Yields the address of a database that is as the migrations left it."""
    name = postgres.databases.take()
    yield in_database(postgres.url, name)
    postgres.databases.give_back(name)


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    """Yields a Proxmox with one template; a request that Proxmox's schema forbids fails the test."""
    async with Sandbox(nodes=("pve1", "pve2"), seed=1) as one:
        one.add_template(9000, "pve1")
        yield one
        await asyncio.sleep(0)
        assert not one.violations, one.violations


@pytest.fixture
async def world(database_url: str, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[World]:
    """Yields zone9 joined to the sandbox, with a region, a plan, an image and a network asked for and applied."""
    one = await make_world(database_url, sandbox, tmp_path / "key")
    yield one
    await one.close()
