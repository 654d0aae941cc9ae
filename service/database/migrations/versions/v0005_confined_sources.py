"""Sources that were added over HTTP, which may not read every place.

Revision ID: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; who added the sources there are is not known, so they stay as they are."""
    op.add_column("sources", sa.Column("confined_to", sa.Text(), nullable=True))
