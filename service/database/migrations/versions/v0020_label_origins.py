"""Where labels come from: given, random, suggested or imported.

Revision ID: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of labels that are there nobody knows it: they count as given."""
    op.add_column(
        "label_events", sa.Column("origin", sa.Text, nullable=False, server_default="given")
    )
