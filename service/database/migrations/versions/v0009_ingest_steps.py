"""Steps that ingest is at, and since when they made no progress.

Revision ID: 0009
"""

import sqlalchemy as sa
from alembic import op

from peewit.service.database.timestamps import Timestamp

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; nothing is done yet."""
    op.create_table(
        "ingest_steps",
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("graph_id", sa.Text),
        sa.Column("source_id", sa.Text),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("file", sa.Text),
        sa.Column("step_seconds", sa.Float(53), nullable=False),
        sa.Column("quiet_seconds", sa.Float(53), nullable=False),
        sa.Column("seen_at", Timestamp(), nullable=False),
        sa.PrimaryKeyConstraint("process", "key", name="pk_ingest_steps"),
    )
