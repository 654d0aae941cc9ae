"""Revision of a database: differs after every commit of anybody, and is cheap to ask for.

SQLite counts the commits that a connection sees; PostgreSQL's snapshot changes with every
transaction that writes. So a process that waits for work asks for this, ten times a second, and
looks at the tables only after a commit.
"""

import sqlite3
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from peewit.service.database.engine import Database

_DATA_VERSION: Final = "PRAGMA data_version"
_SNAPSHOT: Final = "SELECT CAST(pg_current_snapshot() AS text)"


class Revision:
    """The revision as its own connection sees it, which never begins a transaction.

    One thread at a time may use it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._last: object = None

    def present(self) -> object:
        """A value that is equal to an earlier one only where nothing was committed since."""
        connection = self._connection
        try:
            return self._read(connection or self._connect())
        except DBAPIError:
            self.close()
            if connection is None:
                raise
        return self._read(self._connect())  # the server was started again meanwhile

    def has_changed(self) -> bool:
        """Whether anything was committed since the last call; true at first."""
        before, self._last = self._last, self.present()
        return self._last != before

    def close(self) -> None:
        """Close the connection; the next question opens another one."""
        if self._connection is not None:
            self._connection.invalidate()  # not one that another transaction should be given
            self._connection.close()
            self._connection = None

    def _read(self, connection: Connection) -> object:
        if self._database.is_sqlite:  # past SQLAlchemy, which takes ten times as long as this does
            try:
                state = connection.connection.driver_connection.execute(_DATA_VERSION).fetchone()  # type: ignore[union-attr]
            except sqlite3.Error as error:
                raise OperationalError(_DATA_VERSION, None, error) from error
        else:
            state = connection.exec_driver_sql(_SNAPSHOT).scalar_one()
        # SQLite counts per connection: equal counts of two connections say nothing.
        return connection, state

    def _connect(self) -> Connection:
        self._connection = self._database.engine.connect().execution_options(
            isolation_level="AUTOCOMMIT"
        )
        return self._connection
