"""Pushes no longer keep the span of the request that brought them; jobs do.

Revision ID: 0023
"""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Which request brought a push is known by its idempotency key and owner."""
    op.drop_column("pushes", "traceparent")
