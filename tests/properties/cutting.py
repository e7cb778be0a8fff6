"""Cutting: an abort before and after every call to the driver and to the store, one at a time.

Every store call is one transaction, so it is cut where one opens; every driver call is one `document` (a
read) or one `write`. A cut is a BaseException that nothing in zone9 catches: to the code it is the end of the
process. The world is then run again, as another process would.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from world import World


class Cut(BaseException):
    """Is the end of the process, as far as the code under test can tell."""


@dataclass
class Knife:
    """Counts the calls, and cuts at one point: `2 * n` is before call n, `2 * n + 1` after it."""

    at: int | None = None
    calls: list[str] = field(default_factory=list)
    fell: bool = False

    def before(self, name: str) -> int:
        """Opens a call and returns its number (calls nest: a write confirms itself by reads)."""
        self.calls.append(name)
        number = len(self.calls) - 1
        self._cut(2 * number, name)
        return number

    def after(self, number: int) -> None:
        self._cut(2 * number + 1, self.calls[number])

    def _cut(self, point: int, name: str) -> None:
        if self.at == point and not self.fell:
            self.fell = True
            raise Cut(f"point {point}: {name}")

    def over(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def cut_call(*arguments: Any, **named: Any) -> Any:
            label = f"{name} {' '.join(str(one) for one in arguments[:2])}"
            number = self.before(label)
            try:
                answer = await call(*arguments, **named)
            except Exception:
                self.after(number)  # an error is an answer too
                raise
            self.after(number)
            return answer

        return cut_call


@asynccontextmanager
async def cutting(world: World, knife: Knife) -> AsyncIterator[None]:
    """Puts the knife between the loop and its store and driver."""
    database, region = (
        world.zone9.database,
        (await world.all("SELECT id FROM resources WHERE kind = 'region'"))[0]["id"],
    )
    client = (await world.zone9.drivers.of(region)).client
    begin, single, document, write = database.begin, database.single, client.document, client.write

    def cut_store(opened: Callable[[], Any]) -> Callable[[], Any]:
        @asynccontextmanager
        async def cut_opened() -> AsyncIterator[Any]:
            number = knife.before("store")
            async with opened() as connection:
                yield connection
            knife.after(number)

        return cut_opened

    database.begin, database.single = cut_store(begin), cut_store(single)
    client.document = knife.over("read", document)
    client.write = knife.over("write", write)
    try:
        yield
    finally:
        database.begin, database.single, client.document, client.write = begin, single, document, write


async def settle_under(world: World, resource: str, knife: Knife) -> Any:
    """Runs to the end with the knife in place; time passes outside of it."""
    for _ in range(60):
        async with cutting(world, knife):
            await world.run(resource)
        found = await world.row(resource)
        if found["phase"] == "deleted" or found["convergence"] in {"applied", "failed", "pending_restart"}:
            return found
        await world.pass_time(60)
    raise AssertionError("not settled")
