"""Commits that a database carries out and whose answer never comes, as when it dies right then."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from service.database import Database


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
