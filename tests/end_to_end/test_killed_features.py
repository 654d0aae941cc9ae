"""A set of features whose ingest is killed at any line is in the graph once, whole."""

from pathlib import Path

import pytest

from peewit.service.inbox.manifest import Manifest
from tests.end_to_end.killed import killed_homes, open_home
from tests.service.ingest.test_feature_commit import Home

N_DEATHS = 8
FIRST = {"a": [1.0], "b": [2.0]}
SECOND = {"b": [5.0], "c": [6.0], "d": [7.0]}


def prepare(home: Home) -> None:
    """Features in the graph, and more that wait."""
    home.give(FIRST)
    home.ingest()
    home.give(SECOND, "add")


@pytest.mark.slow
def test_a_set_is_in_the_graph_once_wherever_its_ingest_was_killed(tmp_path: Path) -> None:
    _, homes = killed_homes("features", tmp_path, prepare, N_DEATHS)
    seen = set()
    for directory in homes:
        home = open_home(directory)
        version = home.graph.features_version
        seen.add((version, len(home.store.versions()), home.snapshots.latest()))
        expected = FIRST if version == 1 else FIRST | SECOND
        assert home.rows() == expected, "readers see the one or the other"
        home.ingest()
        assert home.rows() == FIRST | SECOND
        ended = Manifest(home.database).feature_log.last_ended(home.graph_id)
        assert ended is not None
        assert (ended.status, ended.features_version, ended.n_new_nodes) == ("committed", 2, 2)
        assert home.graph.progress.n_nodes == 4
        assert home.graph.progress.snapshot == 2
        home.database.close()
    assert {(1, 1, 1), (1, 2, 1), (1, 2, 2), (2, 2, 2)} <= seen, "deaths at every stage"
