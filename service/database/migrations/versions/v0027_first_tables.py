"""The first tables, which a new database gets from `peewit.service.database.tables`.

Revision ID: 0027, as twenty-six came before anything was released.
"""

revision = "0027"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Do nothing: the steps begin here."""
