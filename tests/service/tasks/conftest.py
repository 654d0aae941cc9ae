"""A graph with features, and its home, for the jobs that work on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from peewit.service.database.engine import Database, open_database
from peewit.service.settings import Settings
from peewit.service.tasks.warm_graphs import WarmGraphs
from tests.service.featured import Featured, clusters
from tests.service.solvable import graphs_within


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", threads=1)


@pytest.fixture
def database(settings: Settings, database_url: str) -> Iterator[Database]:
    settings.home.mkdir()
    database = open_database(database_url)
    yield database
    database.close()


@pytest.fixture
def graph(database: Database, settings: Settings) -> Featured:
    graph = Featured.create(database, settings)
    graph.give(clusters())
    return graph


@pytest.fixture
def solver() -> WarmGraphs:
    return graphs_within(2**34)
