"""Fixtures of the tests of the inbox."""

import pytest

from peewit.service.database.engine import Database
from peewit.service.inbox.manifest import Manifest


@pytest.fixture
def manifest(database: Database) -> Manifest:
    """The manifest of an empty database."""
    return Manifest(database)
