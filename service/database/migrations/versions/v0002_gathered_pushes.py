"""Pushes that are gathered into files, and what the last listing of a source came to.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TIMESTAMP = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Add the columns; a push of the first version is the one push of its file."""
    for name in ("listed_at", "error_at"):
        op.add_column("sources", sa.Column(name, _TIMESTAMP, nullable=True))
    op.add_column("sources", sa.Column("error", sa.Text(), nullable=True))
    op.add_column(
        "sources", sa.Column("n_failures", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column(
        "graphs", sa.Column("pushed_bytes", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column(
        "pushes", sa.Column("position", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("pushes", sa.Column("file_id", sa.BigInteger(), nullable=True))
    op.add_column("pushes", sa.Column("content", sa.LargeBinary(), nullable=True))
    op.add_column(
        "pushes", sa.Column("is_alone", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.execute(
        "UPDATE pushes SET"
        " file_id = (SELECT files.id FROM files WHERE files.push_id = pushes.id),"
        " position = (SELECT files.position FROM files WHERE files.push_id = pushes.id)"
    )
    op.execute(
        "UPDATE graphs SET pushed_bytes = (SELECT COALESCE(SUM(pushes.n_bytes), 0)"
        " FROM pushes JOIN files ON files.id = pushes.file_id"
        " WHERE pushes.graph_id = graphs.id AND files.status = 'pending')"
    )
    op.create_index(
        op.f("ix_pushes_graph_id_file_id_position"),
        "pushes",
        ["graph_id", "file_id", "position"],
        unique=False,
    )
