"""Tests of commands start an embedded PostgreSQL, also as root, where it has a user of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_processes import open_directory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    yield from open_directory()
