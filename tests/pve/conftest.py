from collections.abc import AsyncIterator

import pytest
from pve_tls_server import TOKEN, Certificate, Server, serve

from zone9.pve.client import Client, Endpoint


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("tls"), "node")


@pytest.fixture(scope="session")
def other_certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return Certificate.make(tmp_path_factory.mktemp("tls"), "impostor")


@pytest.fixture
async def server(certificate: Certificate) -> AsyncIterator[Server]:
    async with serve(certificate) as running:
        yield running


@pytest.fixture
async def client(server: Server, certificate: Certificate) -> AsyncIterator[Client]:
    endpoint = Endpoint((server.url,), TOKEN, fingerprint=certificate.fingerprint)
    async with Client(endpoint, read_timeout=5) as made:
        yield made
