"""Relations of a graph that are directed, and kinds that it answers about where 0027 has none."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns that a database lacks."""
    present = {each["name"] for each in sa.inspect(op.get_bind()).get_columns("graphs")}
    for name in ("answers", "directed"):
        if name not in present:
            op.add_column("graphs", sa.Column(name, sa.JSON(none_as_null=True)))
