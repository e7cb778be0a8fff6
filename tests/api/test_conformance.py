"""The API against its own OpenAPI document: generated requests find no 5xx and no answer that the document forbids."""

import json
from pathlib import Path

import pytest
import schemathesis
from api_world import Api
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from zone9.api.app import described
from zone9.wiring import registry

CHECKED_IN = Path(__file__).parents[2] / "docs" / "openapi.json"
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def test_the_checked_in_document_is_the_one_that_is_served() -> None:
    assert json.loads(CHECKED_IN.read_text()) == described(registry()).openapi(), "run `make openapi`"
