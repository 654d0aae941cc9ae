"""Whether edges may be deleted, and what parallel ones mean.

Revision ID: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Graphs that are there delete nothing and add up weights."""
    for name, value in (("deletions", "off"), ("parallel", "sum")):
        op.add_column("graphs", sa.Column(name, sa.Text, nullable=False, server_default=value))
