"""Live sources: tables and topics that are followed by position, and what was refused of them.

Revision ID: 0016
"""

import sqlalchemy as sa
from alembic import op

from peewit.service.database.timestamps import Timestamp

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_RowNumber = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """All sources so far list files."""
    op.add_column("sources", sa.Column("kind", sa.Text, nullable=False, server_default="files"))
    op.add_column("sources", sa.Column("position", sa.JSON(none_as_null=True)))
    op.add_column("sources", sa.Column("lag", sa.BigInteger))
    for name in ("n_reads", "n_refused"):
        counter = sa.Column(name, sa.BigInteger, nullable=False, server_default="0")
        op.add_column("sources", counter)
    op.create_table(
        "refusals",
        sa.Column("id", _RowNumber, autoincrement=True),
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("source_id", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_refusals"),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], ondelete="CASCADE", name="fk_refusals_graph_id"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["sources.id"], ondelete="CASCADE", name="fk_refusals_source_id"
        ),
    )
    op.create_index("ix_refusals_graph_id", "refusals", ["graph_id"])
    op.create_index("ix_refusals_source_id_id", "refusals", ["source_id", "id"])
