"""A set of features whose ingest is killed at any line is in the graph once, whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peewit.service.catalog import Catalog, GraphSettings
from peewit.service.database.engine import open_database
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.settings import Settings
from tests.end_to_end.processes import REPOSITORY
from tests.service.ingest.test_feature_commit import Home

N_DEATHS = 8
FIRST = {"a": [1.0], "b": [2.0]}
SECOND = {"b": [5.0], "c": [6.0], "d": [7.0]}


def open_home(directory: Path) -> Home:
    settings = Settings(home=directory, threads=1)
    database = open_database(settings.database)
    return Home(database, settings, Catalog(database).get("g"))


def prepared(directory: Path) -> Path:
    """A home whose graph has features, and more that wait."""
    directory.mkdir()
    database = open_database(Settings(home=directory).database)
    Catalog(database).create(GraphSettings(name="g", expected_nodes=10, seed=1))
    database.close()
    home = open_home(directory)
    home.give(FIRST)
    home.ingest()
    home.give(SECOND, "add")
    home.database.close()
    return directory


def run(*points: str) -> str:
    """Processes that die; what those that did not have printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.dying", "features", "g", *points],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_a_set_is_in_the_graph_once_wherever_its_ingest_was_killed(tmp_path: Path) -> None:
    n_lines = int(run(f"{prepared(tmp_path / 'whole')}:0"))
    lines = [number * n_lines // N_DEATHS for number in range(1, N_DEATHS + 1)]
    homes = [prepared(tmp_path / str(line)) for line in lines]
    assert run(*(f"{home}:{line}" for home, line in zip(homes, lines, strict=True))) == ""
    seen = set()
    for directory in homes:
        home = open_home(directory)
        version = home.graph.features_version
        seen.add((version, len(home.store.versions()), home.snapshots.latest()))
        expected = FIRST if version == 1 else FIRST | SECOND
        assert home.rows() == expected, "readers see the one or the other"
        Ingestor(home.database, home.settings).ingest_graph(home.graph_id)
        assert home.rows() == FIRST | SECOND
        ended = Manifest(home.database).features.last_ended(home.graph_id)
        assert ended is not None
        assert (ended.status, ended.features_version, ended.n_new_nodes) == ("committed", 2, 2)
        assert home.graph.progress.n_nodes == 4
        assert home.graph.progress.snapshot == 2
        home.database.close()
    assert {(1, 1, 1), (1, 2, 1), (1, 2, 2), (2, 2, 2)} <= seen, "deaths at every stage"
