"""Column at fault of a refused set of features.

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("feature_sets", sa.Column("argument", sa.Text(), nullable=True))
