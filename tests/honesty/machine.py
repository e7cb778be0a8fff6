"""The state machine: random intents, deeds of operators, trouble, kills; after each, nothing untrue may be shown.

All deeds are one rule of Hypothesis's: of many rules it leaves most out of a scenario, and here it is the mixture that
finds things.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from honesty import asking, settling
from honesty.scene import Scene
from zone9.sandbox.state import Vm

ANY = st.integers(0, 99)
SEED = st.integers(0, 2**32 - 1)
Draw = Callable[[Any], Any]
Step = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Deed:
    """Is one thing that can happen: how likely, when it can, and what is done."""

    weight: int
    when: Callable[["Honesty"], Any]
    do: Callable[["Honesty", Draw], Step]


DEEDS: dict[str, Deed] = {}


def deed(
    name: str, *, weight: int = 2, when: Callable[["Honesty"], Any] = bool
) -> Callable[[Callable[["Honesty", Draw], Step]], Callable[["Honesty", Draw], Step]]:
    """Enters a function into the table of deeds; it draws what it needs and returns what is to be done."""

    def enter(do: Callable[["Honesty", Draw], Step]) -> Callable[["Honesty", Draw], Step]:
        DEEDS[name] = Deed(weight, when, do)
        return do

    return enter


class Tally:
    """Counts over all scenarios of a session."""

    def __init__(self) -> None:
        self.rules: Counter[str] = Counter()
        self.scenarios = 0
        self.requests = 0
        self.lies: list[str] = []
        self.stories: list[str] = []


class Honesty(RuleBasedStateMachine):
    """Is one scenario. Subclasses say where its database is and what is counted."""

    tally: Tally
    take: Callable[[], str]
    give_back: Callable[[str], None]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.url = type(self).take()
        self.files = tempfile.TemporaryDirectory(prefix="z9-honesty-")
        self.scene = self.wait(Scene.open(self.url, Path(self.files.name) / "key"))
        self.names = 0
        self.story: list[str] = []

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(coroutine)

    @initialize(seed=SEED, power=st.sampled_from(("on", "off")), network=st.booleans())
    def one_server(self, seed: int, power: str, network: bool) -> None:
        self.seed = seed

        async def made() -> None:
            await asking.create(self.scene, self.name(), power=power, network=network)
            await self.scene.work(4)
            await self.scene.sweep()

        self.wait(self.scene.step(made))

    @rule(data=st.data())
    def something(self, data: st.DataObject) -> None:
        """Does one thing, counts it, and fails when anything untrue was shown."""
        possible = [name for name, one in DEEDS.items() for _ in range(one.weight) if one.when(self)]
        # Hypothesis likes some numbers better than others; every deed is to have its chance.
        name = Random(f"{self.seed} {self.scene.steps} {data.draw(SEED)}").choice(possible)
        self.tally.rules[name] += 1
        self.story.append(name)
        self.wait(self.scene.step(DEEDS[name].do(self, data.draw)))
        self.honest()

    def honest(self) -> None:
        """Fails when anything untrue was found, with the deeds that led to it."""
        if self.scene.lies:
            self.tally.lies += self.scene.lies
            self.tally.stories.append(f"{self.scene.lies} after {', '.join(self.story)}")
            raise AssertionError(self.tally.stories[-1])

    def teardown(self) -> None:
        try:
            if not self.scene.lies:
                self.wait(settling.settle(self.scene))
                self.honest()
            assert not self.scene.sandbox.violations, self.scene.sandbox.violations
        finally:
            self.tally.scenarios += 1
            self.tally.requests += len(self.scene.sandbox.requests)
            self.wait(self.scene.close())
            self.loop.close()
            self.files.cleanup()
            type(self).give_back(self.url)

    # -- who there is ----------------------------------------------------------------------------------

    def live(self) -> list[tuple[str, Mapping[str, Any]]]:
        return [(server, row) for server, row in sorted(self.scene.told.items()) if row["phase"] == "live"]

    def own(self) -> list[Vm]:
        """Returns the VMs that are a server's."""
        book = self.scene.book
        return [vm for _vmid, vm in sorted(self.scene.sandbox.vms.items()) if book.owner(vm) is not None]

    def theirs(self) -> list[Vm]:
        return sorted(self.scene.book.strangers(), key=lambda vm: vm.vmid)

    def lost(self) -> list[str]:
        return [server for server, row in self.live() if row["health"] == "missing"]

    def linked(self) -> list[str]:
        return [server for server, row in self.live() if row["spec"]["link"] is not None]

    def calm(self) -> bool:
        """Tells whether there is work to trouble, and not much trouble yet."""
        return bool(self.live()) and len(self.scene.healing) < 2

    def server(self, number: int) -> str:
        found = self.live()
        return found[number % len(found)][0]

    def vm(self, number: int) -> Vm:
        found = self.own()
        return found[number % len(found)]

    def free_number(self, number: int) -> int:
        """Returns a number that no VM has: zone9's next ones, or others."""
        first = 10_000 if number % 2 else 300
        return next(one for one in range(first + number % 7, 99_999) if one not in self.scene.sandbox.vms)

    def name(self) -> str:
        self.names += 1
        return f"s{self.names}"
