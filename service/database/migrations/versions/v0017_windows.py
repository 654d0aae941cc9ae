"""Windows of graphs, and horizons that somebody asked for.

Revision ID: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Graphs keep all edges so far."""
    op.add_column("graphs", sa.Column("window", sa.JSON(none_as_null=True)))
    op.add_column("graphs", sa.Column("horizon_wanted", sa.Float(53)))
