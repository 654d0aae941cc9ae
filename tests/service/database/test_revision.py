"""The revision differs after every commit, and after no other moment."""

from contextlib import closing

from sqlalchemy import insert, select

from peewit.service.database.engine import Database
from peewit.service.database.revision import Revision
from peewit.service.database.tables import workers


def is_quiet(revision: Revision) -> bool:
    """Whether it stays at last: a server of PostgreSQL counts commits to other databases, too."""
    return any(not revision.has_changed() for _ in range(100))


def test_it_changes_with_every_commit_and_with_nothing_else(database: Database) -> None:
    with closing(Revision(database)) as revision:
        assert revision.has_changed()  # nobody has looked before
        with database.read() as connection:
            connection.execute(select(workers)).all()
        assert is_quiet(revision)
        for name in ("a", "b"):
            with database.write() as connection:
                connection.execute(insert(workers).values(id=name, lanes=[]))
            assert revision.has_changed()
            assert is_quiet(revision)


def test_one_that_was_closed_has_changed(database: Database) -> None:
    revision = Revision(database)
    revision.has_changed()
    revision.close()
    assert revision.has_changed()
    revision.close()
