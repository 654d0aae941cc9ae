"""Graphs may ask for no spectral error: they keep every edge while these are within a budget.

Revision ID: 0024
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Those that there are keep what they asked for."""
    if op.get_bind().dialect.name == "postgresql":
        op.alter_column("graphs", "epsilon", nullable=True)
        return
    # SQLite would make the table anew, on which all others depend
    op.add_column("graphs", sa.Column("epsilon_asked", sa.Float(53)))
    op.execute("UPDATE graphs SET epsilon_asked = epsilon")
    op.drop_column("graphs", "epsilon")
    op.execute("ALTER TABLE graphs RENAME COLUMN epsilon_asked TO epsilon")
