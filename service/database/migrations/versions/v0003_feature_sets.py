"""Sets of features that wait for ingest, and what became of them.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_TIMESTAMP = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "feature_sets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("graph_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("n_rows", sa.BigInteger(), nullable=False),
        sa.Column("n_columns", sa.BigInteger(), nullable=False),
        sa.Column("is_sparse", sa.Boolean(), nullable=False),
        sa.Column("n_bytes", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("features_version", sa.BigInteger(), nullable=True),
        sa.Column("n_new_nodes", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("row", sa.BigInteger(), nullable=True),
        sa.Column("value", sa.Text(), nullable=True),
        sa.Column("created_at", _TIMESTAMP, nullable=False),
        sa.Column("finished_at", _TIMESTAMP, nullable=True),
        sa.CheckConstraint("mode IN ('replace', 'add')", name=op.f("ck_feature_sets_mode")),
        sa.CheckConstraint(
            "status IN ('pending', 'committed', 'refused')", name=op.f("ck_feature_sets_status")
        ),
        sa.ForeignKeyConstraint(
            ["graph_id"],
            ["graphs.id"],
            name=op.f("fk_feature_sets_graph_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feature_sets")),
        sa.UniqueConstraint("graph_id", "position", name=op.f("uq_feature_sets_graph_id_position")),
    )
    op.create_index(
        op.f("ix_feature_sets_graph_id_status_position"),
        "feature_sets",
        ["graph_id", "status", "position"],
        unique=False,
    )
