"""Nodes that were asked to be forgotten.

Revision ID: 0014
"""

import sqlalchemy as sa
from alembic import op

from peewit.service.database.timestamps import Timestamp

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody asked so far."""
    op.add_column(
        "graphs", sa.Column("erasures_seq", sa.BigInteger, nullable=False, server_default="0")
    )
    op.create_table(
        "erasures",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("n_nodes", sa.BigInteger, nullable=False),
        sa.Column("n_known", sa.BigInteger, nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("erase_by", Timestamp(), nullable=False),
        sa.Column("struck_at", Timestamp()),
        sa.Column("erased_at", Timestamp()),
        sa.Column("snapshot", sa.BigInteger),
        sa.Column("sources", sa.JSON),
        sa.Column("owner", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_erasures"),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], ondelete="CASCADE", name="fk_erasures_graph_id"
        ),
        sa.CheckConstraint("status IN ('hidden', 'erased')", name="ck_erasures_status"),
    )
    op.create_index("ix_erasures_graph_id_status", "erasures", ["graph_id", "status"])
    op.create_table(
        "erased_nodes",
        sa.Column("erasure_id", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("dense", sa.BigInteger),
        sa.PrimaryKeyConstraint("erasure_id", "number", name="pk_erased_nodes"),
        sa.ForeignKeyConstraint(
            ["erasure_id"], ["erasures.id"], ondelete="CASCADE", name="fk_erased_nodes_erasure_id"
        ),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], ondelete="CASCADE", name="fk_erased_nodes_graph_id"
        ),
    )
    op.create_index("ix_erased_nodes_graph_id", "erased_nodes", ["graph_id"])
