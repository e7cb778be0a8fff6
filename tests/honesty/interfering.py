"""Something happens in the middle of a run: before one of its calls to the driver or to the store, once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from world import World

Act = Callable[[], Awaitable[None]]


class Killed(BaseException):
    """Is the end of a process; nothing in zone9 catches it."""


async def kill() -> None:
    raise Killed


class _Moment:
    """Counts calls and acts before one of them."""

    def __init__(self, at: int, act: Act) -> None:
        self._left = at
        self._act = act
        self.came = False

    async def call(self) -> None:
        self._left -= 1
        if self._left == 0 and not self.came:
            self.came = True
            await self._act()


@asynccontextmanager
async def interfering(world: World, client: Any, at: int, act: Act) -> AsyncIterator[_Moment]:
    """Acts before call number `at`, if there are so many."""
    moment, database = _Moment(at, act), world.zone9.database
    begin, single, document, write = database.begin, database.single, client.document, client.write

    def store(opened: Callable[[], Any]) -> Callable[[], Any]:
        @asynccontextmanager
        async def after_the_moment() -> AsyncIterator[Any]:
            await moment.call()
            async with opened() as connection:
                yield connection

        return after_the_moment

    def driver(call: Callable[..., Any]) -> Callable[..., Any]:
        async def after_the_moment(*arguments: Any, **named: Any) -> Any:
            await moment.call()
            return await call(*arguments, **named)

        return after_the_moment

    database.begin, database.single = store(begin), store(single)  # type: ignore[method-assign]
    client.document, client.write = driver(document), driver(write)
    try:
        yield moment
    finally:
        database.begin, database.single = begin, single  # type: ignore[method-assign]
        client.document, client.write = document, write
