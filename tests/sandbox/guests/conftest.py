"""Real guests for the tests, where QEMU is installed."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from guest_kit import all_gone

from zone9.sandbox.guests import missing, tiny
from zone9.sandbox.guests.qemu import QemuGuests


@pytest.fixture(scope="session")
def image() -> tiny.Tiny:
    """Is the tiny guest; where it cannot be had this skips, but in CI it is an error."""
    try:
        missing.check()
        return tiny.ready()
    except missing.Missing as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
async def guests(image: tiny.Tiny, tmp_path: Path) -> AsyncIterator[QemuGuests]:
    running = QemuGuests(image, limit=3)
    yield running
    pids = list(running.processes().values())
    await running.close()
    await all_gone(pids)
