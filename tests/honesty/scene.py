"""One zone9, one sandbox, and the question after every step: does zone9 say anything that is not so?

Nothing here tells zone9 what changed: its work comes from its own queue, its own clock and its own passes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import psycopg

from honesty.book import Book, Wanted
from honesty.interfering import Act, Killed, interfering
from honesty.truth import differs
from world import ADMIN, World, make_world
from zone9.api.shapes import resource_shape
from zone9.base.errors import Problem
from zone9.sandbox import Sandbox
from zone9.store import queries
from zone9.store.database import Database, rows

NODES = ("pve1", "pve2")
BUDGET_SECONDS = 60
TASKS = "SELECT id, task_name, args FROM procrastinate_jobs WHERE status = 'todo' ORDER BY id LIMIT 1"


class Scene:
    """Is an installation that people, operators and trouble are let loose on."""

    def __init__(self, sandbox: Sandbox, world: World, url: str, region: str) -> None:
        self.region = region
        self.sandbox = sandbox
        self.world = world
        self.book = Book(sandbox)
        self.eyes = Database(url)  # of its own, so that what befalls zone9's connections does not befall it
        self.lies: list[str] = []
        self.told: dict[str, Mapping[str, Any]] = {}  # each server's row at the last look
        self.missing: set[int] = set()
        self.healing: list[tuple[int, Callable[[], None]]] = []
        self.steps = 0

    @classmethod
    async def open(cls, url: str, key_file: Path) -> Self:
        sandbox = await Sandbox(nodes=NODES, seed=1).start()
        sandbox.add_template(9000, "pve1")
        world = await make_world(url, sandbox, key_file, task_patience=0.05)
        world.zone9.loop._sleep = _no_pause
        region = str((await world.find("region", "r1"))["id"])
        return cls(sandbox, world, url, region)

    async def close(self) -> None:
        await self.eyes.close()
        await self.world.close()
        await self.sandbox.stop()

    # -- zone9's own work ------------------------------------------------------------------------------

    async def work(self, most: int = 4, *, at: int = 0, act: Act | None = None) -> None:
        """Does what is due, as a worker would; with `act`, that happens before call number `at` of the first task."""
        with suppress(Problem):
            await self.world.due()
        for number in range(most):
            task = await self._next_task()
            if task is None:
                return
            await self._do(task, at, act if number == 0 else None)

    async def _next_task(self) -> Mapping[str, Any] | None:
        found = await self.look(TASKS)
        if not found:
            return None
        await self.look(
            "UPDATE procrastinate_jobs SET status = 'doing' WHERE id = :id RETURNING id", id=found[0]["id"]
        )
        return found[0]

    async def _do(self, task: Mapping[str, Any], at: int, act: Act | None) -> None:
        zone9 = self.world.zone9
        runner = zone9.loop.run if task["task_name"] == "zone9.reconcile" else zone9.measuring.run
        argument = next(iter(task["args"].values()))
        killed = False
        try:
            if act is None:
                await runner(argument)
            else:
                client = (await zone9.drivers.of(self.region)).client
                async with interfering(self.world, client, at, act):
                    await runner(argument)
        except Killed:
            killed = True
            zone9.passes._rows.clear()  # what a process remembers dies with it
        except Problem:
            pass  # the run ends here; the resource's own time brings it back
        if killed:  # the task of a dead worker comes back, unless another one waits
            await self.look(
                """
                UPDATE procrastinate_jobs SET status = 'todo' WHERE id = :id AND NOT EXISTS (
                    SELECT FROM procrastinate_jobs o WHERE o.lock = procrastinate_jobs.lock AND o.status = 'todo')
                RETURNING id
                """,
                id=task["id"],
            )
        await self.look(
            "DELETE FROM procrastinate_jobs WHERE id = :id AND status = 'doing' RETURNING id", id=task["id"]
        )

    async def lose_database(self) -> None:
        """Ends every connection of zone9's, as a restart of PostgreSQL does."""
        connection = await psycopg.AsyncConnection.connect(self.eyes.url, autocommit=True)
        async with connection:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    async def sweep(self) -> None:
        await self.world.zone9.passes.once(self.region)

    # -- looking ---------------------------------------------------------------------------------------

    async def look(self, sql: str, **values: Any) -> list[Mapping[str, Any]]:
        """Runs one statement beside zone9."""
        for _try in range(2):
            with suppress(Problem):
                async with self.eyes.single() as connection:
                    return list(await rows(connection, sql, **values))
        raise AssertionError("the database is away for good")

    async def servers(self) -> dict[str, Mapping[str, Any]]:
        found = await self.look("SELECT *, z9_now() AS now FROM resources WHERE kind = 'server'")
        return {str(one["id"]): one for one in found}

    async def step(self, deed: Callable[[], Awaitable[Any]]) -> None:
        """Does one thing and looks whether everything that zone9 says is so."""
        self.steps += 1
        await deed()
        await self.check()
        for _when, heal in [one for one in self.healing if one[0] <= self.steps]:
            heal()
        self.healing = [one for one in self.healing if one[0] > self.steps]

    def heal_in(self, steps: int, heal: Callable[[], None]) -> None:
        """Lets trouble pass after so many steps."""
        self.healing.append((self.steps + steps, heal))

    def heal(self) -> None:
        """Lets all trouble pass."""
        for _when, heal in self.healing:
            heal()
        self.healing.clear()
        self.sandbox.faults.clear()

    async def check(self) -> None:
        now = await self.servers()
        for server, row in now.items():
            self._check_verdict(server, row, self.told.get(server))
        await self._check_freshness()
        await self._check_guests()
        self.lies += [f"wrong write: {wrong}" for wrong in self.book.judge()]
        self.told = now

    def _check_verdict(self, server: str, row: Mapping[str, Any], before: Mapping[str, Any] | None) -> None:
        self.book.wanted.setdefault(server, Wanted())
        measured_before = None if before is None else before["measured_at"]
        was_green = before is not None and before["convergence"] == "applied"
        if row["phase"] == "deleted" or row["health"] == "missing":
            gone_before = before is not None and (before["phase"], before["health"]) == (
                row["phase"],
                row["health"],
            )
            # One that it was pointed at and has not taken over yet is not the one that is said to be gone.
            there = [vm for vm in self.book.living(server) if vm.vmid == row["facts"].get("vmid")]
            if not gone_before and not row["spec"]["forget"] and there:
                self.lies.append(
                    f"false absence: {row['name']} is {row['phase']}/{row['health']}, VM {there[0].vmid} is there"
                )
            return
        if row["convergence"] != "applied" or row["phase"] != "live":
            return
        versions = {row["intent_version"], row["applied_version"], row["observed_intent_version"]}
        if len(versions) > 1:
            self.lies.append(f"false green: {row['name']} is applied, with versions {sorted(versions)}")
        if row["measured_at"] == measured_before:
            if not was_green or before is None or row["applied_version"] != before["applied_version"]:
                self.lies.append(f"false green: {row['name']} is applied, and nothing was measured")
            return
        self._check_green(server, row)

    def _check_green(self, server: str, row: Mapping[str, Any]) -> None:
        """Compares a verdict that is new and green with the VM as zone9's own readings met it."""
        name, there = row["name"], self.book.living(server)
        placed = [vm for vm in there if vm.vmid == row["facts"].get("vmid")]
        if not placed:
            self.lies.append(f"false green: {name} is applied, and has no VM")
            return
        config, running = self.book.reads_of(placed[0])
        if config is None or running is None:
            self.lies.append(f"false green: {name} is applied, and its VM was not read after the last write")
            return
        seen = replace(config, running=running)
        if wrong := differs(seen, row):
            self.lies.append(f"false green: {name} is applied, but {'; '.join(wrong)}")

    async def _check_freshness(self) -> None:
        """Asks for what the API shows: no state may be older than its budget."""
        product = self.world.zone9.products["server"]
        async with self.eyes.begin() as connection:
            listed = await queries.resources(connection, ADMIN, "server", name=None, after=None, limit=100)
        for row in listed:
            shown = resource_shape(row, product, "en")["state"]
            age = None if row["measured_at"] is None else (row["now"] - row["measured_at"]).total_seconds()
            if shown["health"] != "unknown" and (age is None or age > BUDGET_SECONDS):
                self.lies.append(
                    f"false green: {row['name']} is shown {shown['chip']}, measured {age} seconds ago"
                )

    async def _check_guests(self) -> None:
        found = await self.look("SELECT vmid FROM guests WHERE missing_since IS NOT NULL")
        missing = {int(one["vmid"]) for one in found}
        for vmid in missing - self.missing:
            if vmid in self.sandbox.vms:
                self.lies.append(f"false absence: VM {vmid} is listed as missing, and is there")
        self.missing = missing


async def _no_pause(_seconds: float) -> None:
    """Is the pause between readings, which the sandbox does not need."""
    await asyncio.sleep(0)
