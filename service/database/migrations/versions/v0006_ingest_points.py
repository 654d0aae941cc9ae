"""Ingest history of graphs.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TIMESTAMP = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "ingest_points",
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("at", _TIMESTAMP, nullable=False),
        sa.Column("n_nodes", sa.BigInteger(), nullable=False),
        sa.Column("edges_seen", sa.BigInteger(), nullable=False),
        sa.Column("edges_kept", sa.BigInteger(), nullable=False),
        sa.Column("n_records", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["graph_id"],
            ["graphs.id"],
            name=op.f("fk_ingest_points_graph_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("graph_id", "at", name=op.f("pk_ingest_points")),
    )
