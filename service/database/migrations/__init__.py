"""Migrations: steps from one version of the schema to the next, run by `open_database`.

A new database gets the present tables at once, an older one the steps it lacks. A step is a file in
`versions`, written by hand beside the change in `peewit.service.database.tables`; a test compares
the two on both back ends. The schema is only ever migrated forwards.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text

from peewit.service.database.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

NEWEST: Final = "0024"
"""The last step, by which a present database is recognized without loading alembic."""

_VERSION_TABLE: Final = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""
"""As alembic makes it, which takes longer to load than all the rest."""

_ADVISORY_LOCK: Final = 0x70656577  # "peew"; held while one process migrates on PostgreSQL

Transaction = Callable[[], AbstractContextManager[Connection]]


class DatabaseVersionError(RuntimeError):
    """The database is at a schema that this version of the program does not work with."""


def upgrade(read: Transaction, write: Transaction) -> None:
    """Bring a database to the present schema, in one transaction, safe among concurrent starts.

    On SQLite ``write`` locks the file from the start of its transaction. Raises
    `DatabaseVersionError` for a revision that this code does not know.
    """
    with read() as connection:
        if _is_current(connection):
            return
    with write() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        if revision_of(connection) is None:
            metadata.create_all(connection, checkfirst=False)  # tables of others are not ours
            connection.execute(text(_VERSION_TABLE))
            insert = text("INSERT INTO alembic_version VALUES (:newest)")
            connection.execute(insert, {"newest": NEWEST})
        elif not _is_current(connection):
            from alembic import command  # noqa: PLC0415 - slow; other databases need none

            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def require_present(read: Transaction) -> None:
    """Raise `DatabaseVersionError` unless the database has the present schema; changes nothing."""
    with read() as connection:
        if not _is_current(connection):
            raise DatabaseVersionError(
                "the database must be at the newest schema, got an earlier one; restart a service, "
                "which migrates it"
            )


def newest_revision() -> str:
    """The revision of the schema that this code works on."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as above

    return str(ScriptDirectory.from_config(_config()).get_current_head())


def revision_of(connection: Connection) -> str | None:
    """The revision that a database is at; None where nothing was created."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def require_known(revision: str) -> None:
    """Raise `DatabaseVersionError` unless this code knows the revision."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as above

    scripts = ScriptDirectory.from_config(_config())
    if revision < str(scripts.get_base()):
        raise DatabaseVersionError(
            f"the database must be at schema {scripts.get_base()} or after it, got {revision}: "
            "schemas of before the first release are not read"
        )
    if revision not in {script.revision for script in scripts.walk_revisions()}:
        raise DatabaseVersionError(
            f"the database must be at schema {newest_revision()} or before it, "
            f"got the unknown {revision}; install the newer version that wrote it"
        )


def _config() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", "peewit.service.database:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _is_current(connection: Connection) -> bool:
    """True at the newest revision, False before it; raises beyond it."""
    found = revision_of(connection)
    if found not in (None, NEWEST):
        require_known(found)
    return found == NEWEST
