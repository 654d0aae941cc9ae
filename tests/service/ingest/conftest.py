"""A home whose ingest waits for nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from peewit.service.database.engine import Database, open_database
from peewit.service.settings import Settings
from tests.fresh_databases import fresh


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path / "home", threads=1, settle_seconds=0.0, list_seconds=0.05)
    settings.home.mkdir()
    return settings


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    opened = open_database(fresh(settings.database))
    yield opened
    opened.close()
