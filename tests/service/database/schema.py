"""The schema of a database beside its declaration."""

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from peewit.service.database.tables import metadata


def schema_differences(connection: Connection) -> list[Any]:
    """What alembic finds to differ; of indexes of some rows it knows nothing."""

    def is_declared(_item: Any, name: str | None, kind: str, is_found: bool, twin: Any) -> bool:
        is_of_some = str(name).startswith("uq_") or str(name) == "ix_label_events_of_people"
        return not (kind == "index" and is_found and twin is None and is_of_some)

    options = {"compare_type": True, "include_object": is_declared}
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
