"""The ground, and Procrastinate's own tables at the version we pin."""

from pathlib import Path

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    # Straight to psycopg: several statements in one call only go without parameters.
    driver.execute((Path(__file__).parent / "0001_ground.sql").read_text())
    driver.execute(SchemaManager.get_schema())


def downgrade() -> None:
    raise NotImplementedError("zone9 restores a backup instead of going back")
