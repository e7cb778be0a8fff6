"""Who this installation is: one row, made at first start, with the epoch that a restore raises.

The epoch is part of every ETag and of every event id, so that nothing said before a restore is believed after
it. `ready` is what a load balancer in front of the API asks: does the database answer, and is it the one that
this code was written for.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from zone9.base.errors import Unreachable
from zone9.base.ids import new_id
from zone9.store.database import Database, row, run


@dataclass(frozen=True, slots=True)
class Installation:
    """Is the installation's own id and its epoch."""

    id: str
    epoch: int


async def ensure(database: Database) -> Installation:
    """Returns who we are; the first caller of all makes the row, and all others read the same one."""
    async with database.begin() as connection:
        await run(
            connection,
            "INSERT INTO installation (id) VALUES (:id) ON CONFLICT (only_row) DO NOTHING",
            id=new_id("z9i"),
        )
    async with database.begin() as connection:
        found = await row(connection, "SELECT id, epoch FROM installation")
        assert found is not None
        return Installation(str(found["id"]), int(found["epoch"]))


async def ready(database: Database) -> bool:
    """Tells whether the database answers and its migrations are the newest that this code knows."""
    try:
        async with database.begin() as connection:
            found = await row(connection, "SELECT version_num FROM alembic_version")
    except Unreachable:
        return False
    return found is not None and found["version_num"] == newest_migration()


@cache
def newest_migration() -> str | None:
    """Returns the revision that `migrate` would bring a database to."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config).get_current_head()
