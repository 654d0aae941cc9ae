"""`peewit graph filter-features`, beside the library's `filter_features`."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from peewit import filter_features
from peewit.solvers.graph import Graph
from tests.service.cli.conftest import Peewit
from tests.service.featured import clusters, feature_table

pytestmark = pytest.mark.usefixtures("processes")

N_NODES = 60


@pytest.fixture
def expected(peewit: Peewit, tmp_path: Path) -> dict[str, np.ndarray]:
    """What becomes of the features of each node; the last one has none."""
    u, v = np.random.default_rng(0).integers(0, N_NODES, (2, 200))
    weight = np.ones(u.size)
    edges = pa.table({"src": [f"n{at}" for at in u], "dst": [f"n{at}" for at in v]})
    pq.write_table(edges, tmp_path / "edges.parquet")
    values = clusters(N_NODES)[: N_NODES - 1]
    pq.write_table(feature_table(values), tmp_path / "features.parquet")
    peewit("graph", "create", "g", "--expected-nodes", N_NODES)
    assert peewit("ingest", "g", tmp_path / "edges.parquet").exit_code == 0
    assert peewit("features", "g", tmp_path / "features.parquet").exit_code == 0
    padded = np.vstack([values, np.zeros((1, 4), np.float32)])
    graph = Graph.from_edges(u[u != v], v[u != v], weight[u != v], n_nodes=N_NODES)
    smooth = filter_features(graph, padded, teleport=0.3)
    return {f"n{at}": row for at, row in enumerate(smooth)}


def test_files_hold_what_the_library_computes(
    peewit: Peewit, expected: dict[str, np.ndarray], tmp_path: Path
) -> None:
    command = ("graph", "filter-features", "g", "--teleport", 0.3, "-o")
    told = peewit(*command, tmp_path / "out.parquet", "--json").json
    assert (told["n_nodes"], told["n_features"], told["features_version"]) == (N_NODES, 4, 1)
    table = pq.read_table(tmp_path / "out.parquet")
    assert set(table["node"].to_pylist()) == set(expected)
    for node, row in zip(table["node"].to_pylist(), table["features"].to_pylist(), strict=True):
        np.testing.assert_allclose(row, expected[node], atol=1e-4)
    assert expected[f"n{N_NODES - 1}"].any()
    assert peewit(*command, tmp_path / "out.csv").exit_code == 0
    flat = pa_csv.read_csv(tmp_path / "out.csv")
    assert flat.column_names == ["node", "f0", "f1", "f2", "f3"]
    np.testing.assert_allclose(flat["f2"].to_numpy(), np.array(table["features"].to_pylist())[:, 2])
    assert peewit(*command, tmp_path / "out.ndjson").exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.ndjson").read_text().splitlines()]
    assert lines[3] == pytest.approx(flat.slice(3, 1).to_pylist()[0])
    assert peewit("features", "g", tmp_path / "out.parquet").exit_code == 0  # they come in again


def test_what_cannot_be_done_is_told(peewit: Peewit, tmp_path: Path) -> None:
    command = ("graph", "filter-features", "g")
    out = tmp_path / "out.parquet"
    peewit("graph", "create", "g")
    assert "graph g has no snapshot yet; ingest edges first" in peewit(*command, "-o", out).err
    pq.write_table(pa.table({"src": ["a"], "dst": ["b"]}), tmp_path / "edges.parquet")
    peewit("ingest", "g", tmp_path / "edges.parquet")
    assert "graph g has no features yet; put them" in peewit(*command, "-o", out).err
    pq.write_table(feature_table(clusters()), tmp_path / "features.parquet")
    peewit("features", "g", tmp_path / "features.parquet")
    assert peewit(*command, "-o", tmp_path / "out.npy").exit_code == 2
    assert "no directory" in peewit(*command, "-o", tmp_path / "no" / "out.parquet").err
    assert not out.exists()
    assert peewit("jobs", "list", "--json").json["jobs"] == []
