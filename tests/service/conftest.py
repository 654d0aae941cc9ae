"""Fixtures of all tests of the service."""

from collections.abc import Iterator

import pytest
import structlog

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest

# with plain tracebacks, as the product logs them; others hold all variables and take .1 s a frame
_console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _console])


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An empty database of each kind that is there."""
    database = open_database(database_url)
    yield database
    database.close()


@pytest.fixture
def catalog(database: Database) -> Catalog:
    return Catalog(database)


@pytest.fixture
def manifest(database: Database) -> Manifest:
    return Manifest(database)


@pytest.fixture
def graph_id(database: Database) -> str:
    """That of a graph with nothing in it."""
    return Catalog(database).create(GraphSettings(name="g")).id
