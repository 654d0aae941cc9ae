"""Fixtures of all tests of the service."""

from collections.abc import Iterator

import pytest

from peewit.service.database.engine import Database, open_database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty database of each kind that is there."""
    database = open_database(database_url)
    yield database
    database.close()
