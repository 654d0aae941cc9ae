"""Arrivals that a wrong clock may have stamped: why they wait, and when the clock was called right.

Revision ID: 0026
"""

import sqlalchemy as sa
from alembic import op

from peewit.service.database.timestamps import Timestamp

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both to the graphs."""
    op.add_column("graphs", sa.Column("arrivals_fault", sa.Text()))
    op.add_column("graphs", sa.Column("clock_right_at", Timestamp()))
