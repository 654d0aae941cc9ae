"""Homes and servers of the end-to-end tests."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.end_to_end.processes import REPOSITORY, Home, Server


@pytest.fixture(scope="session", autouse=True)
def _processes(processes: None) -> None:
    """Tests of this room start processes."""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All kernels in the cache that homes share, so that no test waits for a compiler."""
    Home(tmp_path_factory.mktemp("compiled")).run("warm")


@pytest.fixture(scope="session")
def forked(processes: None) -> Iterator[Path]:
    """A program `peewit` whose commands are forks of a process that lives as long as the tests."""
    here = REPOSITORY / "tests" / "end_to_end" / "forked"
    with TemporaryDirectory(prefix="peewit-") as directory:
        peewit = Path(directory, "peewit")
        peewit.write_text(f"#!{sys.executable} -SE\n{(here / 'command.py').read_text()}")
        peewit.chmod(0o700)
        server = subprocess.Popen(
            [sys.executable, "-P", here / "server.py", f"{peewit}-server"],
            env=Home(Path(directory)).environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield peewit


@pytest.fixture
def home(tmp_path: Path, forked: Path) -> Iterator[Home]:
    """An empty home; no process that was started on it outlives the test."""
    home = Home(tmp_path / "home", program=[str(forked)])
    yield home
    home.end()


@pytest.fixture
def real_home(tmp_path: Path) -> Iterator[Home]:
    """The same for commands that are all started for real."""
    home = Home(tmp_path / "home")
    yield home
    home.end()


@pytest.fixture
def server(home: Home) -> Server:
    """`peewit serve` on an empty home."""
    return Server(home)
