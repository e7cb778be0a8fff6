"""The agent against a control plane that answers, is away, loses answers, and says no."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from panel_double import Double, serving
from zone9.agent.disk import BLOCK, Disk
from zone9.agent.machine import Machine
from zone9.agent.pulling import Agent, ApplyFailed
from zone9.wire.messages import Config

UUID = "0a0a0a0a-0000-4000-8000-000000000001"
BOOT = "0b0b0b0b-0000-4000-8000-000000000001"
TOKEN = "t" * 32


class Applied:
    """Applies by noting; refuses documents that say so."""

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.broken = True
        self.slow = 0.0

    def apply(self, config: Config) -> None:
        time.sleep(self.slow)
        if config.document.get("bad") and self.broken:
            raise ApplyFailed("line 3: no such thing")
        self.versions.append(config.version)

    def evidence(self) -> dict[str, Any]:
        return {"versions": self.versions[-1:]}


def config(version: int, *, epoch: int = 1, **document: Any) -> Config:
    return Config("lb", epoch, version, document)


@pytest.fixture
def double() -> Iterator[Double]:
    with serving() as one:
        yield one


def machine(double: Double, *, token: str | None = TOKEN, uuid: str = UUID, boot: str = BOOT) -> Machine:
    return Machine(uuid, boot, double.url, (double.pin,), token)


@contextmanager
def running(double: Double, directory: Path, applier: Applied, who: Machine | None = None) -> Iterator[Agent]:
    agent = Agent(
        who or machine(double), Disk(directory), "lb", applier, log=lambda _line: None, status_seconds=0.2,
        hold_seconds=2, first_pause=0.05, failed_pause=0.2,
    )  # fmt: skip
    thread = threading.Thread(target=agent.run, daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        agent.stop()
        with double.changed:
            double.changed.notify_all()
        thread.join(10)
        assert not thread.is_alive()


def reported(double: Double, version: int) -> Callable[[], bool]:
    return lambda: bool(double.statuses) and double.statuses[-1].applied_version == version


def test_it_enrols_pulls_applies_and_reports(double: Double, tmp_path: Path) -> None:
    applier = Applied()
    double.set(config(1))
    with running(double, tmp_path, applier):
        double.until(reported(double, 1))
        double.set(config(2))
        double.until(reported(double, 2))
        double.set(config(9))
        double.until(reported(double, 9))
    assert applier.versions == [1, 2, 9]
    [enrolment] = double.enrolments
    assert (enrolment.token, enrolment.uuid, enrolment.boot_id) == (TOKEN, UUID, BOOT)
    numbers = [one.seq for one in double.statuses]
    assert numbers == sorted(set(numbers))
    last = double.statuses[-1]
    assert (last.config_hash, last.evidence) == (config(9).tag.digest, {"versions": [9]})
    for _method, path, headers in double.asked:
        assert (headers["Zone9-Machine"], headers["Zone9-Boot"]) == (UUID, BOOT)
        assert path == "/v1/bootstrap" or headers["Authorization"].startswith("Bearer ")


def test_b30_what_is_fetched_is_not_reported_before_it_is_applied(double: Double, tmp_path: Path) -> None:
    applier = Applied()
    double.set(config(1))
    with running(double, tmp_path, applier):
        double.until(reported(double, 1))
        applier.slow = 0.8
        double.set(config(2))
        seen = len(double.statuses)
        double.until(lambda: len(double.statuses) >= seen + 2)
        assert {one.applied_version for one in double.statuses[seen : seen + 2]} == {1}
        double.until(reported(double, 2))


def test_b28_a_version_that_failed_is_tried_again_without_a_new_one(double: Double, tmp_path: Path) -> None:
    applier = Applied()
    double.set(config(13))
    with running(double, tmp_path, applier):
        double.until(reported(double, 13))
        double.set(config(14, bad=True))
        double.until(lambda: double.statuses[-1].failed_version == 14)
        told = double.statuses[-1]
        assert (told.applied_version, told.error) == (13, "line 3: no such thing")
        asked = double.until(lambda: [one for one in double.asked if "failed=" in one[1]])
        assert asked[-1][1] == f"/v1/lb/config?failed={config(14, bad=True).tag}".replace('"', "")
        assert asked[-1][2]["If-None-Match"] == str(config(13).tag)
        applier.broken = False
        double.until(reported(double, 14))
        assert double.statuses[-1].failed_version is None


def test_b18_a_repaired_version_comes_at_once_after_a_bad_one(double: Double, tmp_path: Path) -> None:
    applier = Applied()
    with running(double, tmp_path, applier) as agent:
        double.set(config(13))
        double.until(reported(double, 13))
        agent._failed_pause = 30.0
        double.set(config(14, bad=True))
        double.until(lambda: double.statuses[-1].failed_version == 14)
        began = time.monotonic()
        double.set(config(15))
        double.until(reported(double, 15))
        assert time.monotonic() - began < 20, "it did not wait for the failed one's next try"
    assert applier.versions == [13, 15]


def test_the_panel_is_away_and_the_agent_restarts_meanwhile(double: Double, tmp_path: Path) -> None:
    double.set(config(3))
    with running(double, tmp_path, Applied()):
        double.until(reported(double, 3))
    double.away = True
    again = Applied()
    with running(double, tmp_path, again):
        deadline = time.monotonic() + 5
        while not again.versions and time.monotonic() < deadline:
            time.sleep(0.02)
        assert again.versions == [3], "the last good config is served before anybody is asked"
        double.statuses.clear()
        double.away = False
        double.until(reported(double, 3))
        double.set(config(4))
        double.until(reported(double, 4))
    assert len(double.enrolments) == 1


def test_b34_an_answer_that_was_lost_is_asked_for_again_with_the_same_secret(
    double: Double, tmp_path: Path
) -> None:
    double.lose = 2
    double.set(config(1))
    with running(double, tmp_path, Applied()):
        double.until(reported(double, 1))
    assert len(double.enrolments) >= 3
    assert len({one.secret_hash for one in double.enrolments}) == 1


def test_b35_a_spent_token_in_the_serial_is_not_redeemed_again(double: Double, tmp_path: Path) -> None:
    double.set(config(1))
    for boot in range(4):
        who = machine(double, boot=f"0b0b0b0b-0000-4000-8000-00000000000{boot}")
        double.statuses.clear()
        with running(double, tmp_path, Applied(), who):
            double.until(reported(double, 1))
    assert len(double.enrolments) == 1


def test_b36_a_copied_disk_takes_no_identity_with_it(double: Double, tmp_path: Path) -> None:
    double.set(config(1))
    with running(double, tmp_path, Applied()):
        double.until(reported(double, 1))
    secrets = {one[2].get("Authorization") for one in double.asked} - {None}
    double.asked.clear()
    clone = machine(double, uuid="0c0c0c0c-0000-4000-8000-000000000001")
    with running(double, tmp_path, Applied(), clone):
        double.until(lambda: len(double.enrolments) >= 2)
        assert double.enrolments[-1].uuid == clone.uuid
        assert double.enrolments[-1].secret_hash != double.enrolments[0].secret_hash
    assert not [one for one in double.asked if one[2].get("Authorization") in secrets]


def test_refused_it_goes_on_serving_and_takes_only_a_token_that_it_has_not_used(
    double: Double, tmp_path: Path
) -> None:
    double.set(config(1))
    with running(double, tmp_path, Applied()) as agent:
        double.until(reported(double, 1))
        double.refuse = 401
        asked = len(double.asked)
        double.until(lambda: len(double.asked) > asked + 3)
        assert len(double.enrolments) == 1
        assert agent.disk.config() == config(1)
    with running(double, tmp_path, Applied(), machine(double, token="n" * 32)):
        double.until(lambda: len(double.enrolments) == 2)
        double.refuse = 0
        double.statuses.clear()
        double.until(reported(double, 1))


def test_an_older_version_of_the_same_epoch_is_not_taken(double: Double, tmp_path: Path) -> None:
    applier = Applied()
    double.set(config(5))
    with running(double, tmp_path, applier):
        double.until(reported(double, 5))
        double.set(config(4))
        asked = len(double.asked)
        double.until(lambda: len(double.asked) > asked + 3)
        assert applier.versions == [5]
        double.set(config(2, epoch=2))
        double.until(lambda: double.statuses[-1].epoch == 2)
    assert applier.versions == [5, 2]


def test_another_key_gets_not_a_byte(double: Double, tmp_path: Path) -> None:
    stranger = Machine(UUID, BOOT, double.url, ("0" * 64,), TOKEN)
    with running(double, tmp_path, Applied(), stranger):
        time.sleep(0.5)
    assert double.asked == []


def test_the_next_key_is_trusted_too(double: Double, tmp_path: Path) -> None:
    double.set(config(1))
    with running(double, tmp_path, Applied(), Machine(UUID, BOOT, double.url, ("0" * 64, double.pin), TOKEN)):
        double.until(reported(double, 1))


def test_plain_http_is_refused(tmp_path: Path) -> None:
    agent = Agent(
        Machine(UUID, BOOT, "http://127.0.0.1:1", ("0" * 64,), TOKEN), Disk(tmp_path), "lb", Applied()
    )
    with pytest.raises(ValueError, match="https"):
        agent.enrolled()


def test_the_counter_is_above_every_number_before_a_power_cut(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    numbers = [disk.next_number() for _ in range(BLOCK + 5)]
    assert numbers == sorted(set(numbers))
    assert Disk(tmp_path).next_number() > numbers[-1]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff", b'{"product": "lb"}'])
def test_a_damaged_file_is_no_config(tmp_path: Path, damage: bytes) -> None:
    disk = Disk(tmp_path)
    disk.keep_config(config(1))
    assert disk.config() == config(1)
    (tmp_path / "config.json").write_bytes(damage)
    assert disk.config() is None
    (tmp_path / "identity.json").write_bytes(damage)
    assert disk.identity() is None
