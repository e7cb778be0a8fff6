"""zone9 and a sandbox joined in one process: the loop is driven by hand, so that a test decides when what runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zone9.model.asking import Answer, Scope
from zone9.sandbox import Sandbox
from zone9.store.database import row, rows, run
from zone9.store.waking import claim_due
from zone9.wiring import Zone9, compose

PROJECT = "prj_test"
ADMIN = Scope(token="tok_test", actor="tester", role="admin", project=PROJECT)


@dataclass
class World:
    """Is a whole installation under a test's hand."""

    zone9: Zone9
    sandbox: Sandbox
    queue: list[str] = field(default_factory=list)

    async def close(self) -> None:
        await self.zone9.close()

    # -- asking ---------------------------------------------------------------------------------

    async def create(self, kind: str, name: str, spec: Mapping[str, Any]) -> Answer:
        async with self.zone9.database.begin() as connection:
            return await self.zone9.asking.create(connection, ADMIN, kind, name, spec)

    async def change(self, kind: str, ref: str, **change: Any) -> Answer:
        async with self.zone9.database.begin() as connection:
            return await self.zone9.asking.change(connection, ADMIN, kind, ref, **change)

    async def act(self, ref: str, action: str, **body: Any) -> Answer:
        async with self.zone9.database.begin() as connection:
            return await self.zone9.asking.act(connection, ADMIN, "server", ref, action, body)

    async def delete(self, kind: str, ref: str) -> Answer:
        async with self.zone9.database.begin() as connection:
            return await self.zone9.asking.delete(connection, ADMIN, kind, ref)

    async def server(self, name: str = "web1", **spec: Any) -> Answer:
        asked = {"region": "r1", "plan": "small", "image": "tiny", "networks": [{"network": "lan"}], **spec}
        return await self.create("server", name, asked)

    # -- running --------------------------------------------------------------------------------

    async def run(self, resource: str) -> None:
        """Makes one run of the loop, as a worker would on a wake-up."""
        await self.zone9.loop.run(resource)

    async def settle(self, resource: str, *, runs: int = 40, seconds: float = 60.0) -> Mapping[str, Any]:
        """Runs until nothing is in flight, moving the database's clock on where a run waits."""
        for _ in range(runs):
            await self.run(resource)
            found = await self.row(resource)
            if found["phase"] == "deleted" or found["convergence"] in {
                "applied",
                "failed",
                "pending_restart",
            }:
                return found
            if (found["message"] or {}).get("code") == "absence_unproven":
                await self.sweep()
            await self.pass_time(seconds)
        raise AssertionError(f"not settled after {runs} runs: {dict(await self.row(resource))}")

    async def pass_time(self, seconds: float) -> None:
        async with self.zone9.database.begin() as connection:
            await run(connection, "UPDATE z9_clock SET shift = shift + make_interval(secs => :s)", s=seconds)

    async def sweep(self, region: str = "r1") -> frozenset[str]:
        """Makes one pass over a region; returns the servers that it woke."""
        return await self.zone9.passes.once((await self.find("region", region))["id"])

    async def attribute(self, vmid: int, project: str | None = PROJECT) -> None:
        """Says whose a VM is that zone9 did not make."""
        async with self.zone9.database.begin() as connection:
            await run(
                connection,
                "UPDATE guests SET project = :project WHERE vmid = :vmid",
                project=project,
                vmid=vmid,
            )

    async def due(self) -> list[str]:
        async with self.zone9.database.begin() as connection:
            return await claim_due(connection)

    # -- looking --------------------------------------------------------------------------------

    async def row(self, resource: str) -> Mapping[str, Any]:
        async with self.zone9.database.begin() as connection:
            found = await row(connection, "SELECT * FROM resources WHERE id = :id", id=resource)
            assert found is not None
            return found

    async def find(self, kind: str, name: str) -> Mapping[str, Any]:
        [found] = await self.all(
            "SELECT * FROM resources WHERE kind = :kind AND name = :name AND phase <> 'deleted'",
            kind=kind,
            name=name,
        )
        return found

    async def job(self, job: str | None) -> Mapping[str, Any]:
        async with self.zone9.database.begin() as connection:
            found = await row(connection, "SELECT * FROM jobs WHERE id = :id", id=job)
            assert found is not None
            return found

    async def all(self, sql: str, **values: Any) -> list[Mapping[str, Any]]:
        async with self.zone9.database.begin() as connection:
            return list(await rows(connection, sql, **values))

    def writes(self) -> list[str]:
        """Returns what was written to Proxmox, as `METHOD path`."""
        return [f"{one.method} {one.path}" for one in self.sandbox.requests if one.method != "GET"]


async def make_world(database_url: str, sandbox: Sandbox, key_file: Path, **options: Any) -> World:
    """Joins zone9 to a sandbox and attaches it as a region, with what a server needs."""
    zone9 = compose(database_url, key_file, **{"settle_seconds": 35.0, "task_patience": 0.5, **options})
    world = World(zone9, sandbox)
    try:
        async with zone9.database.begin() as connection:
            await run(connection, "INSERT INTO projects (id, name) VALUES (:id, 'default')", id=PROJECT)
        await attach(world)
    except BaseException:
        await world.close()
        raise
    return world


async def attach(world: World) -> None:
    token_id, secret = world.sandbox.token.split("=", 1)
    region = {
        "urls": [world.sandbox.url],
        "fingerprint": world.sandbox.fingerprint,
        "token_id": token_id,
        "token_secret": secret,
        "vmid_first": 10_000,
        "vmid_last": 10_999,
    }
    made = [
        await world.create("region", "r1", region),
        await world.create("plan", "small", {"cores": 1, "memory_mib": 512, "disk_gib": 4}),
        await world.create("image", "tiny", {"region": "r1", "vmid": 9000}),
        await world.create(
            "network", "lan", {"region": "r1", "vlan": None, "cidr": "10.10.0.0/24", "gateway": "10.10.0.1"}
        ),
    ]
    for one in made:
        found = await world.settle(one.resource)
        assert found["convergence"] == "applied", dict(found)
