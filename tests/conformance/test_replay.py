"""The recorded answers of Proxmox's own code, replayed against the sandbox."""

import os
from collections import Counter

import pytest
import recorded_files
from replaying import Notes, Replay, data_directory, furnish, furnish_earlier, furnish_second, load_rows

from zone9.sandbox import Durations, Sandbox

FIRST, SECOND = "pve-9.2-recorded.jsonl", "pve-9.2-recorded-2.jsonl"
# What is reached today; it only ever rises.
FLOOR_FIRST = 462
FLOOR_SECOND = 1344


@pytest.fixture(autouse=True)
def _recordings() -> None:
    if data_directory() is None:
        if os.environ.get("CI"):
            pytest.fail("the recordings are missing: set ZONE9_TEST_DATA")
        pytest.skip("no recordings here: set ZONE9_TEST_DATA to the directory that holds them")


def durations() -> Durations:
    return Durations(list_lag=10.0)


def report(name: str, replays: list[Replay], flows: dict[int, str]) -> int:
    equal = sum(len(replay.equal) for replay in replays)
    different = {number: why for replay in replays for number, why in replay.different.items()}
    print(f"replay: {equal} of {equal + len(different)} equal ({name})")
    if os.environ.get("REPLAY_VERBOSE"):
        print(Counter(flows[number] for number in different))
        for number, why in sorted(different.items()):
            print(f"  {number} [{flows[number]}] {why}")
    return equal


async def test_first_recording() -> None:
    """Replays 483 requests in the order in which they were sent."""
    notes = Notes.load()
    rows = load_rows(FIRST)
    async with Sandbox(("pve1",), manual_clock=True, durations=durations(), seed=1) as sandbox:
        replay = Replay("1", sandbox, notes)
        furnish(sandbox, replay)
        await replay.run([row for row in rows if "run" not in row])
    async with Sandbox(("pve1",), manual_clock=True, durations=durations(), seed=1) as sandbox:
        earlier = Replay("1", sandbox, notes)
        furnish(sandbox, earlier)
        furnish_earlier(sandbox, earlier)
        await earlier.run([row for row in rows if "run" in row])
    flows = {row["n"]: row["flow"] for row in rows}
    assert report(FIRST, [replay, earlier], flows) >= FLOOR_FIRST


async def test_second_recording() -> None:
    """Replays the parts of the second recording, each against a sandbox of its own."""
    notes = Notes.load()
    rows = load_rows(SECOND)
    replays = []
    for part in dict.fromkeys(row["part"] for row in rows):
        async with (
            recorded_files.web_server() as port,
            Sandbox(("pve1",), manual_clock=True, durations=durations(), seed=1) as sandbox,
        ):
            replay = Replay("2", sandbox, notes)
            replay.serve(port)
            furnish(sandbox, replay)
            furnish_second(sandbox, replay)
            await replay.run([row for row in rows if row["part"] == part])
            replays.append(replay)
    flows = {row["n"]: f"{row['part']} {row['flow']}" for row in rows}
    assert report(SECOND, replays, flows) >= FLOOR_SECOND
