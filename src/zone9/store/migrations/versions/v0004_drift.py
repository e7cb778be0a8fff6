"""What was read back as asked, and what was found changed from outside since."""

from pathlib import Path

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute((Path(__file__).parent / "0004_drift.sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("zone9 restores a backup instead of going back")
