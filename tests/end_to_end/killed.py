"""Homes of one graph whose writer was killed at lines all over its work, by `dying`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.settings import Settings
from tests.end_to_end.processes import REPOSITORY
from tests.service.ingest.test_feature_commit import Home


def open_home(directory: Path) -> Home:
    """The home of a directory; its database is to be closed."""
    settings = Settings(home=directory, threads=1)
    database = open_database(settings.database)
    return Home(database, settings, Catalog(database).get("g"))


def killed_homes(
    work: str, directory: Path, prepare: Callable[[Home], None], n_deaths: int
) -> tuple[Path, list[Path]]:
    """A home whose work was done, and others where it was killed, from early to its last line.

    What `dying` calls ``work`` is what ``prepare`` gives a new home to do.
    """
    whole = _prepared(directory / "whole", prepare)
    n_lines = int(_run(work, f"{whole}:0"))
    lines = [number * n_lines // n_deaths for number in range(1, n_deaths + 1)]
    homes = [_prepared(directory / str(line), prepare) for line in lines]
    assert _run(work, *map("{}:{}".format, homes, lines)) == "", "all were killed"
    return whole, homes


def _prepared(directory: Path, prepare: Callable[[Home], None]) -> Path:
    directory.mkdir()
    database = open_database(Settings(home=directory).database)
    Catalog(database).create(GraphSettings(name="g", expected_nodes=10, seed=1))
    database.close()
    home = open_home(directory)
    prepare(home)
    home.database.close()
    return directory


def _run(work: str, *points: str) -> str:
    """Processes that die; the numbers that those have printed that did not."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.dying", work, "g", *points],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), *sys.path])},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    return " ".join(line for line in done.stdout.splitlines() if line.isdigit())
