"""`peewit graph filter-features`, without a server."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tests.service.cli.conftest import Peewit
from tests.service.featured import clusters, feature_table
from tests.service.solvable import two_communities

pytestmark = pytest.mark.usefixtures("processes")


def test_files_of_every_format_hold_the_same(peewit: Peewit, tmp_path: Path) -> None:
    u, v = two_communities()
    edges = pa.table({"src": [f"n{at}" for at in u], "dst": [f"n{at}" for at in v]})
    pq.write_table(edges, tmp_path / "edges.parquet")
    pq.write_table(feature_table(clusters()), tmp_path / "features.parquet")
    peewit("graph", "create", "g", "--expected-nodes", 60)
    assert peewit("ingest", "g", tmp_path / "edges.parquet").exit_code == 0
    assert peewit("features", "g", tmp_path / "features.parquet").exit_code == 0
    command = ("graph", "filter-features", "g", "--teleport", 0.3, "-o")
    told = peewit(*command, tmp_path / "out.parquet", "--json").json
    assert (told["n_nodes"], told["n_features"], told["features_version"]) == (60, 4, 1)
    lists = pq.read_table(tmp_path / "out.parquet")["features"].to_pylist()
    assert peewit(*command, tmp_path / "out.csv").exit_code == 0
    flat = pa_csv.read_csv(tmp_path / "out.csv")
    assert flat.column_names == ["node", "f0", "f1", "f2", "f3"]
    assert flat["f2"].to_pylist() == pytest.approx([row[2] for row in lists])
    assert peewit(*command, tmp_path / "out.ndjson").exit_code == 0
    lines = (tmp_path / "out.ndjson").read_text().splitlines()
    assert json.loads(lines[3]) == pytest.approx(flat.slice(3, 1).to_pylist()[0])
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
