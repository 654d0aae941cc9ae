"""Files that leave a graph again, and sources whose changed files replace earlier ones.

Revision ID: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_STATUSES = "'pending', 'committed', 'quarantined', 'duplicate', 'retracting', 'retracted'"


def upgrade() -> None:
    """Nothing is retracted or replaced yet."""
    op.add_column("sources", _flag("replaces"))
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("ck_files_status", "files")
    # SQLite makes the table anew, without its check
    with op.batch_alter_table("files", table_kwargs={"sqlite_autoincrement": True}) as table:
        table.add_column(sa.Column("retractable", sa.Text))
        table.add_column(_flag("inserts_only"))
        table.create_check_constraint("ck_files_status", f"status IN ({_STATUSES})")


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())
