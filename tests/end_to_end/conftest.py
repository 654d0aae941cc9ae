"""Homes and servers of the end-to-end tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.processes import Home, Server


@pytest.fixture(scope="session", autouse=True)
def _processes(processes: None) -> None:
    """Tests of this room start processes."""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All kernels in the cache that homes share, so that no test waits for a compiler."""
    Home(tmp_path_factory.mktemp("compiled")).run("warm")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """An empty home; no process that was started on it outlives the test."""
    home = Home(tmp_path / "home")
    yield home
    home.end()


@pytest.fixture
def server(home: Home) -> Server:
    """`peewit serve` on an empty home."""
    return Server(home)
