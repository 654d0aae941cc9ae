"""Repairs that somebody asked for.

Revision ID: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody asked so far."""
    op.add_column("graphs", sa.Column("repair_wanted", sa.Text))
