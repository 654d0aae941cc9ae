"""What live sources hold: edges, labels or features.

Revision ID: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """All sources so far hold edges."""
    op.add_column("sources", sa.Column("holds", sa.Text, nullable=False, server_default="edges"))
    op.add_column("sources", sa.Column("label_column", sa.Text))
