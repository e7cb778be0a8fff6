"""The record of who asked for what, and of how long it took."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute((Path(__file__).parent / "0002_record.sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("zone9 restores a backup instead of going back")
