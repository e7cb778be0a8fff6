"""Reads side by side: their results in order, and one error as itself."""

import asyncio

import pytest

from zone9.base.errors import Unreachable
from zone9.base.together import together


async def test_results_come_in_the_order_of_the_calls_not_of_their_ends() -> None:
    second_is_done = asyncio.Event()

    async def first() -> int:
        await second_is_done.wait()
        return 1

    async def second() -> int:
        second_is_done.set()
        return 2

    assert await asyncio.wait_for(together(first(), second()), 5) == (1, 2)
    assert await together() == ()


async def test_an_error_is_raised_as_itself_and_ends_the_others() -> None:
    ended = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        await asyncio.sleep(0)  # the other has begun
        raise Unreachable("the region does not answer")

    with pytest.raises(Unreachable, match="does not answer"):
        await asyncio.wait_for(together(waits(), fails()), 5)
    assert ended == ["waits"]
