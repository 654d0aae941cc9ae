"""Column names of sources and graphs, and rows that are left out.

Revision ID: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; what is there keeps the usual names and loses no row."""
    json = sa.JSON(none_as_null=True)
    op.add_column("graphs", sa.Column("columns", json))
    op.add_column("sources", sa.Column("columns", json))
    op.add_column(
        "sources", sa.Column("max_bad_rows", sa.BigInteger, nullable=False, server_default="0")
    )
    op.add_column("files", sa.Column("n_bad_rows", sa.BigInteger))
