"""Errors that say that a disk is full, told from all others."""

import errno
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.database.engine import Database, open_database


def store_much(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("PRAGMA max_page_count = 1"))
        connection.execute(text("CREATE TABLE large (value BLOB)"))
        connection.execute(text("INSERT INTO large VALUES (zeroblob(1000000))"))


def read_what_is_not_there(database: Database) -> None:
    with database.read() as connection:
        connection.execute(text("SELECT * FROM nothing"))


def test_sqlite_without_room_for_another_page_is_told(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'peewit.db'}")
    with pytest.raises(OperationalError) as raised:
        store_much(database)
    assert is_disk_full(raised.value)
    with pytest.raises(OperationalError) as raised:
        read_what_is_not_there(database)
    assert not is_disk_full(raised.value)
    database.close()


@pytest.mark.parametrize(
    ("error", "is_full"),
    [
        (OSError(errno.ENOSPC, "no space"), True),
        (OSError(errno.EDQUOT, "quota"), True),
        (OSError(errno.EIO, "broken"), False),
        (OperationalError("INSERT", None, psycopg.errors.DiskFull()), True),
        (OperationalError("INSERT", None, psycopg.errors.AdminShutdown()), False),
        (ValueError("disk is full"), False),
    ],
)
def test_other_errors_go_by_their_codes(error: Exception, is_full: bool) -> None:
    assert is_disk_full(error) is is_full
