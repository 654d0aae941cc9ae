"""The schema of a database beside its declaration."""

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from peewit.service.database.tables import metadata


def schema_differences(connection: Connection) -> list[Any]:
    """What alembic finds to differ; of unique indexes of some rows it knows nothing."""

    def is_declared(_item: Any, name: str | None, kind: str, is_found: bool, twin: Any) -> bool:
        return not (kind == "index" and is_found and twin is None and str(name).startswith("uq_"))

    options = {"compare_type": True, "include_object": is_declared}
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
