"""Commits that a database carries out and whose answer never comes, as when it dies right then."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from peewit.service.database.engine import Database
from peewit.service.jobs.job import JobStatus


@contextmanager
def commits_unanswered(database: Database) -> Iterator[None]:
    """Within the block every commit of a writer is carried out, and raises."""

    def lose_answer(connection: Connection) -> None:
        if not connection.get_execution_options()["sqlite_writes"]:
            return
        connection.connection.commit()
        raise OperationalError("COMMIT", None, ConnectionError("the server closed the connection"))

    event.listen(database.engine, "commit", lose_answer)
    try:
        yield
    finally:
        event.remove(database.engine, "commit", lose_answer)


@contextmanager
def first_success_fails(database: Database, *, is_carried_out: bool) -> Iterator[None]:
    """Within the block the first commit that ends a job well raises, carried out or not."""
    is_ending, is_over = threading.local(), threading.Event()

    def look(
        _connection: Connection, _cursor: object, statement: str, parameters: object, *_: object
    ) -> None:
        is_update = statement.startswith("UPDATE jobs")
        is_ending.value = is_update and JobStatus.SUCCEEDED.value in str(parameters)

    def fail(connection: Connection) -> None:
        if is_over.is_set() or not getattr(is_ending, "value", False):
            return
        is_over.set()
        if is_carried_out:
            connection.connection.commit()
        raise OperationalError("COMMIT", None, ConnectionError("the server closed the connection"))

    event.listen(database.engine, "before_cursor_execute", look)
    event.listen(database.engine, "commit", fail)
    try:
        yield
    finally:
        event.remove(database.engine, "before_cursor_execute", look)
        event.remove(database.engine, "commit", fail)
    assert is_over.is_set(), "no job ended well"
