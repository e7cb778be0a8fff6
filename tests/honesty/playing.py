"""Plays scenarios: a bounded number from a fixed seed, or as many as fit into a time."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress

import structlog
from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisException
from hypothesis.stateful import run_state_machine_as_test

from databases import Databases, in_database
from honesty import deeds
from honesty.machine import Honesty, Tally


def play(databases: Databases, *, scenarios: int, steps: int, tally: Tally, seed: int) -> None:
    """Plays scenarios and counts what happened; raises AssertionError where zone9 said what is not so."""
    logging.getLogger("aiohttp.server").setLevel(
        logging.CRITICAL
    )  # an answer that is lost on purpose is no news
    for name in deeds.names():
        tally.rules.setdefault(name, 0)
    names: dict[str, str] = {}

    def take() -> str:
        name = databases.take()
        url = in_database(databases.url, name)
        names[url] = name
        return url

    machine = type(
        "Played",
        (Honesty,),
        {
            "tally": tally,
            "take": staticmethod(take),
            "give_back": staticmethod(lambda url: databases.give_back(names.pop(url))),
        },
    )
    run_state_machine_as_test(
        seeded(seed)(machine),
        settings=settings(
            max_examples=scenarios,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )


def play_for(databases: Databases, seconds: float, told: Callable[[Tally], None]) -> Tally:
    """Plays until the time is over, from another seed each time, or until something is found."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    tally, end, seed = Tally(), time.monotonic() + seconds, int(time.time())
    with suppress(AssertionError, HypothesisException):  # it stands in the tally
        while time.monotonic() < end:
            play(databases, scenarios=4, steps=50, tally=tally, seed=seed)
            seed += 1
            told(tally)
    return tally
