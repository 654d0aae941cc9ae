"""Whether this process can work: database in its present schema, home that takes files."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from service.database import Database
from service.migrations import DatabaseVersionError, upgrade
from service.settings import Settings


class NotReady(RuntimeError):
    """Something that every request needs is out of order."""


def require_ready(settings: Settings, database: Database) -> None:
    """Raise `NotReady` with the first thing that is out of order."""
    with _named("the database must answer"):
        upgrade(
            database.read, database.write
        )  # which only looks when the schema is the present one
    with _named("LAPWING_HOME must be writable"), tempfile.TemporaryFile(dir=settings.home) as file:
        file.write(b"0")


@contextmanager
def _named(rule: str) -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, DatabaseVersionError, OSError) as error:
        raise NotReady(f"{rule}, got {type(error).__name__}; the server's log says more") from error
