"""The dashboard as a browser meets it, without a browser: a real server, forms, cookies."""

from collections.abc import Iterator

import pytest

from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.settings import Settings
from tests.service.api.conftest import Api, bring_communities, serving, settings

__all__ = ["settings"]


@pytest.fixture
def pages(settings: Settings) -> Iterator[Api]:
    """A server on an empty home, without keys."""
    with serving(settings, create=create_app) as api:
        yield api


@pytest.fixture(scope="session")
def shown(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with a graph of 60 nodes, labeled and solved; tests only look at it."""
    home = tmp_path_factory.mktemp("shown")
    settings = Settings(home=home, database_url=None, admin_key_file=None)
    with serving(settings, create=create_app) as api:
        bring_communities(api)
        api.solve("stable-hfs", cross_validate=0)
        yield api
