"""Migrations: steps from one version of the schema to the next, run by `open_database`.

A new database gets the present tables at once, an older one the steps it lacks, and one of before
the first step is refused. A step is a file in `versions`, written by hand beside the change in
`peewit.service.database.tables`. The schema is only ever migrated forwards.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, text

from peewit.service.database.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

FIRST: Final = "0027"
"""The first step: databases of before it were never released, and none of them is read."""

NEWEST: Final = "0029"
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
    `DatabaseVersionError` for a revision of before `FIRST` or after `NEWEST`, and changes nothing.
    """
    with read() as connection:
        if _known_revision(connection) == NEWEST:
            return
    with write() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
        revision = _known_revision(connection)
        if revision is None:
            metadata.create_all(connection, checkfirst=False)  # tables of others are not ours
            connection.execute(text(_VERSION_TABLE))
            insert = text("INSERT INTO alembic_version VALUES (:newest)")
            connection.execute(insert, {"newest": NEWEST})
        elif revision != NEWEST:
            from alembic import command  # noqa: PLC0415 - slow; other databases need none

            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def require_present(read: Transaction) -> None:
    """Raise `DatabaseVersionError` unless the database has the present schema; changes nothing."""
    with read() as connection:
        revision = _known_revision(connection)
        if revision != NEWEST:
            raise DatabaseVersionError(
                f"{_name_of(connection)} must be at schema {NEWEST}, got {revision or 'none'}; "
                "restart a service, which makes it"
            )


def require_known(revision: str, *, of: str) -> None:
    """Raise `DatabaseVersionError` for a revision of before `FIRST` or after `NEWEST`."""
    if revision < FIRST:
        raise DatabaseVersionError(
            f"{of} must be at schema {NEWEST}, got {revision}, which is older than the "
            "first release; ingest and label anew in a new PEEWIT_HOME with a new "
            "database. This one stays as it is"
        )
    if revision > NEWEST:
        raise DatabaseVersionError(
            f"{of} must be at schema {NEWEST}, got the later {revision}; install the newer version "
            "that wrote it"
        )


def _known_revision(connection: Connection) -> str | None:
    """The revision that a database is at, None where nothing was created; raises for others."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if revision is not None:
        require_known(revision, of=_name_of(connection))
    return revision


def _name_of(connection: Connection) -> str:
    """A database as messages name it, without its password."""
    url = connection.engine.url
    kind = url.get_backend_name()
    return f"the database {url.database if kind == 'sqlite' else url.set(drivername=kind)}"


def _config() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 - as above

    config = Config()
    config.set_main_option("script_location", "peewit.service.database:migrations")
    config.set_main_option("path_separator", "os")
    return config
