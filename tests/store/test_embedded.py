"""The embedded PostgreSQL's own user, which root makes at the first start on a machine."""

import pwd
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from zone9.base.errors import Never
from zone9.store import embedded


class Machine:
    """Has no such user until the first `useradd` has ended, as a new machine; `refusal` is what that says."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.calls: list[list[str]] = []
        self._is_made = False

    def getpwnam(self, name: str) -> str:
        if not self._is_made:
            raise KeyError(name)
        return name

    def run(self, command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        self.calls.append(command)
        time.sleep(0.05)  # the others look meanwhile
        self._is_made = not self.refusal
        return subprocess.CompletedProcess(command, int(bool(self.refusal)), "", self.refusal)


def on(machine: Machine, patch: pytest.MonkeyPatch) -> Machine:
    patch.setattr(pwd, "getpwnam", machine.getpwnam)
    patch.setattr(subprocess, "run", machine.run)
    return machine


def test_of_many_first_starts_at_once_one_makes_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = on(Machine(), monkeypatch)
    with ThreadPoolExecutor(4) as starts:
        for start in [starts.submit(embedded._make_user) for _ in range(4)]:
            start.result()
    assert len(machine.calls) == 1


def test_a_user_that_cannot_be_made_is_said_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    on(Machine("useradd: cannot lock /etc/passwd; try again later."), monkeypatch)
    with pytest.raises(Never, match="cannot lock /etc/passwd"):
        embedded._make_user()
