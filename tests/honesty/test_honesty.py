"""Random scenarios: after every step nothing untrue may be shown, and in the end everything converges."""

import json
from collections.abc import Callable

import pytest

from honesty.machine import Tally
from honesty.playing import play
from postgres_servers import Server

SCENARIOS, STEPS, LEAST, MOST_ROUNDS = 20, 50, 20, 5


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_nothing_untrue_is_ever_shown(
    postgres: Server, record_property: Callable[[str, object], None]
) -> None:
    tally = Tally()
    for seed in range(MOST_ROUNDS):
        try:
            play(postgres.databases, scenarios=SCENARIOS, steps=STEPS, tally=tally, seed=seed)
        except Exception as error:  # Hypothesis has words of its own for what does not come again
            raise AssertionError("\n".join(tally.stories) or "no untruth, but an error") from error
        if seed and min(tally.rules.values()) >= LEAST:
            break
    record_property("honesty", json.dumps([tally.scenarios, tally.requests, tally.rules.most_common()]))
    rare = {name: count for name, count in tally.rules.items() if count < LEAST}
    assert not rare, f"these happened too rarely: {rare}"
