"""The recorded answers of Proxmox's own code, replayed against the sandbox."""

import os
from collections import Counter
from dataclasses import dataclass

import pytest
import recorded_files
from furnishing import furnish, furnish_earlier, furnish_second
from renaming import OTHER, SAME, Renaming
from replaying import Notes, Replay, data_directory, load_rows

from zone9.sandbox import Durations, Sandbox

FIRST, SECOND = "pve-9.2-recorded.jsonl", "pve-9.2-recorded-2.jsonl"
# All of 462, 1344 and 1806 are equal on a quiet machine; on a busy one a task may be over a moment too soon.
FLOOR_FIRST = 459
FLOOR_SECOND = 1338
FLOOR_RENAMED = 1770
# Rows that stand in the list with a reason; it only ever falls.
LEFT_OUT_CEILING = 107


@pytest.fixture(autouse=True)
def _recordings() -> None:
    if data_directory() is None:
        if os.environ.get("CI"):
            pytest.fail("the recordings are missing: set ZONE9_TEST_DATA")
        pytest.skip("no recordings here: set ZONE9_TEST_DATA to the directory that holds them")


def durations() -> Durations:
    return Durations(list_lag=10.0)


@dataclass
class Count:
    """Is what a pass came to."""

    equal: int = 0
    compared: int = 0


TOTALS: dict[str, Count] = {}


def report(name: str, replays: list[Replay], flows: dict[int, str], *, renamed: bool) -> Count:
    equal = sum(len(replay.equal) for replay in replays)
    different = {number: why for replay in replays for number, why in replay.different.items()}
    count = Count(equal, equal + len(different))
    total = TOTALS.setdefault("replay, renamed" if renamed else "replay", Count())
    total.equal, total.compared = total.equal + count.equal, total.compared + count.compared
    print(f"  {name}{', renamed' if renamed else ''}: {count.equal} of {count.compared} equal")
    if os.environ.get("REPLAY_VERBOSE"):
        print(Counter(flows[number] for number in different))
        for number, why in sorted(different.items()):
            print(f"  {number} [{flows[number]}] {why}")
    return count


def node_of(rename: Renaming) -> tuple[str]:
    return (rename.text("pve1"),)


async def first(rename: Renaming) -> Count:
    """Replays 483 requests in the order in which they were sent."""
    notes = Notes.load()
    rows = load_rows(FIRST)
    async with Sandbox(node_of(rename), manual_clock=True, durations=durations(), seed=1) as sandbox:
        replay = Replay("1", sandbox, notes, rename)
        furnish(sandbox, replay)
        await replay.run([row for row in rows if "run" not in row])
    async with Sandbox(node_of(rename), manual_clock=True, durations=durations(), seed=1) as sandbox:
        earlier = Replay("1", sandbox, notes, rename)
        furnish(sandbox, earlier)
        furnish_earlier(sandbox, earlier)
        await earlier.run([row for row in rows if "run" in row])
    flows = {row["n"]: row["flow"] for row in rows}
    return report(FIRST, [replay, earlier], flows, renamed=rename is not SAME)


async def second(rename: Renaming) -> Count:
    """Replays the parts of the second recording, each against a sandbox of its own."""
    notes = Notes.load()
    rows = load_rows(SECOND)
    replays = []
    for part in dict.fromkeys(row["part"] for row in rows):
        async with (
            Sandbox(node_of(rename), manual_clock=True, durations=durations(), seed=1) as sandbox,
            recorded_files.web_server() as port,
        ):
            replay = Replay("2", sandbox, notes, rename)
            replay.serve(port)
            furnish(sandbox, replay)
            furnish_second(sandbox, replay)
            await replay.run([row for row in rows if row["part"] == part])
            replays.append(replay)
    flows = {row["n"]: f"{row['part']} {row['flow']}" for row in rows}
    return report(SECOND, replays, flows, renamed=rename is not SAME)


async def test_first_recording() -> None:
    assert (await first(SAME)).equal >= FLOOR_FIRST


async def test_second_recording() -> None:
    assert (await second(SAME)).equal >= FLOOR_SECOND


async def test_both_with_other_names_and_numbers() -> None:
    """Nothing that the sandbox answers hangs on the names and numbers that were recorded."""
    one, two = await first(OTHER), await second(OTHER)
    assert one.equal + two.equal >= FLOOR_RENAMED


def test_the_sum_of_both() -> None:
    """Prints the totals; at least 95 of 100 comparable rows are equal, and few are not compared."""
    for name, count in TOTALS.items():
        print(f"{name}: {count.equal} of {count.compared} equal")
        assert count.equal >= 0.95 * count.compared
    notes = Notes.load()
    skipped = [row for row in load_rows(SECOND) if ("2", row.get("flow")) in notes.flows and "request" in row]
    assert len(notes.left_out) + len(skipped) <= LEFT_OUT_CEILING
