"""Devices, bootstrap tokens and alarms."""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute((Path(__file__).parent / "0006_devices.sql").read_text())


def downgrade() -> None:
    raise NotImplementedError("zone9 restores a backup instead of going back")
