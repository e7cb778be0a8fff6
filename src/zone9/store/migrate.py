"""Brings a database to the newest version. One process at a time does it, under an advisory lock."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from zone9.base.errors import Never
from zone9.store.urls import sync_url

LOCK = 0x7A6F6E6539  # "zone9"
OLDEST_POSTGRESQL = 150000


def migrate(url: str, revision: str = "head") -> None:
    """Raises Never when the server is older than PostgreSQL 15."""
    engine = create_engine(sync_url(url))
    try:
        with engine.connect() as connection:
            version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
            if version < OLDEST_POSTGRESQL:
                raise Never(
                    f"PostgreSQL 15 or newer is needed, this is {version // 10000}", code="postgresql_too_old"
                )
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": LOCK})
            connection.commit()
            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
            connection.commit()
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": LOCK})
            connection.commit()
    finally:
        engine.dispose()
