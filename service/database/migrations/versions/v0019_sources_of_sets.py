"""Which live source a set of features came from.

Revision ID: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of sets that are there nobody knows it."""
    op.add_column("feature_sets", sa.Column("source_id", sa.Text))
