"""Who gave a label, opinions beside the labels that stand, and nodes reserved for annotators.

Revision ID: 0022
"""

import sqlalchemy as sa
from alembic import op

from peewit.service.database.timestamps import Timestamp

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of labels that are there nobody knows who gave them."""
    op.add_column("label_events", sa.Column("annotator", sa.Text))
    op.add_column(
        "label_events",
        sa.Column("by_majority", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.execute(
        "CREATE INDEX ix_label_events_of_people ON label_events (graph_id, column_name, seq) "
        "WHERE annotator IS NOT NULL AND origin <> 'imported'"
    )
    op.create_table(
        "opinions",
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("column_name", sa.Text, nullable=False, server_default=""),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("annotator", sa.Text),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("is_first", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("created_at", Timestamp(), nullable=False),
        sa.Column("withdrawn_at", Timestamp()),
        sa.PrimaryKeyConstraint("graph_id", "column_name", "node", "number", name="pk_opinions"),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], ondelete="CASCADE", name="fk_opinions_graph_id"
        ),
    )
    op.execute(
        "CREATE UNIQUE INDEX uq_opinions_annotator "
        "ON opinions (graph_id, column_name, node, annotator) WHERE withdrawn_at IS NULL"
    )
    op.create_table(
        "reservations",
        sa.Column("graph_id", sa.Text, nullable=False),
        sa.Column("column_name", sa.Text, nullable=False, server_default=""),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("strategy", sa.Text, nullable=False),
        sa.Column("expires_at", Timestamp(), nullable=False),
        sa.PrimaryKeyConstraint("graph_id", "column_name", "node", name="pk_reservations"),
        sa.ForeignKeyConstraint(
            ["graph_id"], ["graphs.id"], ondelete="CASCADE", name="fk_reservations_graph_id"
        ),
    )
