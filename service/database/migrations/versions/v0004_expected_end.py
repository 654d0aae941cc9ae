"""Expected end of running jobs, and an index that finds the freshest predictions.

Revision ID: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TIMESTAMP = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    """Add the column and the index."""
    op.add_column("jobs", sa.Column("expected_end_at", _TIMESTAMP, nullable=True))
    op.create_index(
        op.f("ix_jobs_graph_id_kind_status_snapshot_labels_seq_finished_at"),
        "jobs",
        ["graph_id", "kind", "status", "snapshot", "labels_seq", "finished_at"],
        unique=False,
    )
