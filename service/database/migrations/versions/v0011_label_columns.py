"""Named columns of labels.

Revision ID: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Present labels become those of the column without a name."""
    op.drop_index("ix_label_events_graph_id_node_seq", "label_events")
    with op.batch_alter_table("label_events") as table:
        table.add_column(sa.Column("column_name", sa.Text, nullable=False, server_default=""))
        table.drop_constraint("pk_label_events", type_="primary")
        table.create_primary_key("pk_label_events", ["graph_id", "column_name", "seq"])
    op.create_index(
        "ix_label_events_graph_id_column_name_node_seq",
        "label_events",
        ["graph_id", "column_name", "node", "seq"],
    )
