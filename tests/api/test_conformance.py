"""The API against its own OpenAPI document: generated requests find no 5xx and no answer that the document forbids."""

import json
import secrets
from pathlib import Path
from typing import Any

import psycopg
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.generation import GenerationMode

from api_kit import SERVER
from postgres_servers import Server
from served import Served, serving
from zone9.api.app import described
from zone9.products.registry import registry

CHECKED_IN = Path(__file__).parents[2] / "docs" / "openapi.json"
DOCUMENT = described(registry()).openapi()
OPERATIONS = [
    one.ok()
    for one in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    if one.ok().path != "/v1/events"  # it never ends; test_streams tries it
]
TAKES_SOMETHING = [one for one in OPERATIONS if one.path.startswith("/v1/")]
checks.load_all_checks()
CHECKS = checks.CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "unsupported_method",
        "ignored_auth",
    ]
)
# What is there: a request that names it gets further than one that names nothing.
THERE = {
    "regions": "r1",
    "plans": "small",
    "images": "tiny",
    "networks": "lan",
    "servers": "web1",
    "ssh-keys": "key1",
}


@pytest.fixture(scope="module")
def served(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Any:
    # A process may come back to this module after another one's tests, and then makes it anew.
    name = f"z9_conformance_{secrets.token_hex(6)}"
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE z9_template STRATEGY file_copy")
    key_file = tmp_path_factory.mktemp("key") / "key"
    with serving(postgres.url.replace("/postgres?", f"/{name}?"), key_file, worker=False) as one:
        one.do(one.world.create("server", "web1", SERVER))
        yield one


def test_the_checked_in_document_is_the_one_that_is_served() -> None:
    assert json.loads(CHECKED_IN.read_text()) == DOCUMENT, "run `make openapi`"


def generated(served: Served, operation: Any, mode: GenerationMode) -> None:
    @seed(9)
    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def send(case: Any, named: bool) -> None:
        if mode is GenerationMode.POSITIVE and named and "ref" in (case.path_parameters or {}):
            case.path_parameters["ref"] = THERE[case.path.split("/")[2]]
        case.call_and_validate(base_url=served.url, headers=served.headers, checks=CHECKS, timeout=20)

    send()


@pytest.mark.parametrize("operation", OPERATIONS, ids=[one.label for one in OPERATIONS])
def test_requests_by_the_document(served: Served, operation: Any) -> None:
    generated(served, operation, GenerationMode.POSITIVE)


@pytest.mark.parametrize("operation", TAKES_SOMETHING, ids=[one.label for one in TAKES_SOMETHING])
def test_requests_against_the_document(served: Served, operation: Any) -> None:
    generated(served, operation, GenerationMode.NEGATIVE)
