"""The span that jobs and pushes follow from, where requests are traced.

Revision ID: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of those that are there nobody knows it."""
    for table in ("jobs", "pushes"):
        op.add_column(table, sa.Column("traceparent", sa.Text))
