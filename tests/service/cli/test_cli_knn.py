"""`peewit graph knn`, without a server."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.service.cli.conftest import Peewit
from tests.service.featured import clusters, feature_table

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def graph(peewit: Peewit, tmp_path: Path) -> str:
    pq.write_table(feature_table(clusters()), tmp_path / "features.parquet")
    peewit("graph", "create", "g", "--expected-nodes", 60)
    assert peewit("features", "g", tmp_path / "features.parquet").exit_code == 0
    return "g"


def test_edges_are_made_and_ingested(peewit: Peewit, graph: str) -> None:
    done = peewit("graph", "knn", graph, "--k", 5, "--metric", "cosine", "--json").json
    assert done["job"]["status"] == "succeeded"
    assert done["job"]["parameters"] == {"k": 5, "metric": "cosine"}
    assert [file["status"] for file in done["files"]] == ["committed"]
    assert done["progress"]["edges_seen"] == done["job"]["result"]["n_edges"] > 150
    again = peewit("graph", "knn", graph)
    assert again.exit_code == 1
    assert "its deletions are off; make another graph" in again.err


def test_outcome_is_told(peewit: Peewit, graph: str, tmp_path: Path) -> None:
    pq.write_table(
        pq.read_table(tmp_path / "features.parquet").slice(0, 50), tmp_path / "fewer.parquet"
    )
    peewit("features", graph, tmp_path / "fewer.parquet")
    options = ("--weights", "heat", "--width", 0.01, "--method", "approximate", "--n-probes", 1)
    told = peewit("graph", "knn", graph, "--k", 3, *options)
    assert told.exit_code == 0
    assert "edges between the 3 nearest of 50 nodes, width 0.01" in told.out
    assert "100.0% of the true neighbors were found, by 50 nodes" in told.out
    assert "10 nodes have no features, and got no edges" in told.err
    assert "weights are the least there is; raise width" in told.err


def test_what_features_do_not_allow_is_told(peewit: Peewit, graph: str) -> None:
    failed = peewit("graph", "knn", graph, "--k", 60)
    assert failed.exit_code == 1
    assert "k must be below the number of nodes with features" in failed.err
    peewit("graph", "create", "empty")
    assert "has no features yet" in peewit("graph", "knn", "empty").err
