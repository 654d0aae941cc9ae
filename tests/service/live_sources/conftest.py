"""Fixtures of the tests of live sources."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.settings import Settings
from tests.fresh_databases import fresh


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", threads=1)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    opened = open_database(fresh(settings.database))
    yield opened
    opened.close()


@pytest.fixture
def graph(catalog: Catalog) -> GraphRecord:
    """A graph that takes changes."""
    return catalog.create(
        GraphSettings(name="g", expected_nodes=40, seed=1, deletions="exact", parallel="replace")
    )
