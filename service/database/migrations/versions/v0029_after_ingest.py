"""Jobs that wait until what was sent to their graph is read."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column that a database lacks."""
    present = {each["name"] for each in sa.inspect(op.get_bind()).get_columns("jobs")}
    if "after_ingest" not in present:
        column = sa.Column("after_ingest", sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column("jobs", column)
