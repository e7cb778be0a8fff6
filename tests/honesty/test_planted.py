"""The honesty test is itself proven: it finds faults that are put in on purpose, and nothing where there is none."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from honesty import settling
from honesty.planted import PLANTED
from honesty.scene import Scene


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    one = await Scene.open(database_url, tmp_path / "key")
    yield one
    await one.close()


def nothing() -> None:
    """Puts no fault in."""


def test_there_are_at_least_ten() -> None:
    assert len(PLANTED) >= 10


@pytest.mark.parametrize("name", PLANTED)
async def test_the_fault_is_found(name: str, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = PLANTED[name]
    await fault.script(scene, lambda: fault.plant(monkeypatch, scene))
    assert scene.lies, "it went unnoticed"
    assert any(fault.found in lie for lie in scene.lies), scene.lies


@pytest.mark.parametrize("name", PLANTED)
async def test_nothing_is_found_without_it(name: str, scene: Scene) -> None:
    await PLANTED[name].script(scene, nothing)
    assert scene.lies == []
    scene.sandbox.accounts.acl.pop(
        next((path for path in scene.sandbox.accounts.acl if "/vms/" in path), ""), None
    )
    scene.sandbox.accounts.changed()
    await settling.settle(scene)
    assert scene.lies == []
