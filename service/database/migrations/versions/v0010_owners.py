"""Who made a job, a push or a set of features.

Revision ID: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nobody knows who made what is there."""
    for table in ("jobs", "pushes", "feature_sets"):
        op.add_column(table, sa.Column("owner", sa.Text))
