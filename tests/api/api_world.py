"""A client of the API with an administrator's token, and the world behind it."""

from dataclasses import dataclass

import httpx2

from world import World
from zone9.store import tokens
from zone9.store.database import run


@dataclass
class Api:
    """Is a client with an administrator's token, and the world behind it."""

    client: httpx2.AsyncClient
    world: World
    token: str

    async def token_of(self, role: str, *, project: str | None = "prj_test") -> dict[str, str]:
        """Makes a token and returns the headers that carry it."""
        async with self.world.zone9.database.begin() as connection:
            _, plain = await tokens.create(connection, name=f"a-{role}", role=role, project=project)
        return {"Authorization": f"Bearer {plain}"}

    async def project(self, id_: str, name: str) -> None:
        async with self.world.zone9.database.begin() as connection:
            await run(connection, "INSERT INTO projects (id, name) VALUES (:id, :name)", id=id_, name=name)
