"""Numbers from labels to evaluation by the commands alone."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.cli.conftest import Peewit

SIDE = 12


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    node = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel(), [500]])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel(), [501]])
    path = tmp_path / "grid.parquet"
    pq.write_table(pa.table({"src": u, "dst": v}), path)
    return path


def height(node: np.ndarray) -> np.ndarray:
    """A smooth number of each node, between 0 and 22."""
    row, column = np.divmod(node, SIDE)
    return row + column / 1.0


def csv(path: Path, nodes: np.ndarray, values: np.ndarray) -> Path:
    rows = [f"{node},{value}" for node, value in zip(nodes, values, strict=True)]
    path.write_text("\n".join(["node,label", *rows]) + "\n")
    return path


@pytest.mark.usefixtures("processes")
def test_numbers_are_put_predicted_written_and_judged(
    peewit: Peewit, grid: Path, tmp_path: Path
) -> None:
    nodes = np.arange(SIDE * SIDE)
    labeled = np.random.default_rng(0).choice(nodes, 40, replace=False)
    peewit("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", 200)
    assert peewit("ingest", "g", grid).exit_code == 0
    labels = csv(tmp_path / "labels.csv", labeled, height(labeled) + 0.25)
    assert peewit("labels", "put", "g", labels).exit_code == 0
    assert "40 nodes with" in peewit("graph", "show", "g").out

    asked = ("--set", "target=real", "--set", "variance=true", "--set", "cross_validate=5")
    solved = peewit("solve", "g", "--model", "hfs", *asked, "--json").json
    assert solved["status"] == "succeeded"
    assert solved["result"]["n_unreachable"] == 2
    stats = solved["result"]["stats"]
    assert stats["loo_rmse"] < 3
    assert stats["cross_validation"]["rmse"] < 3

    truth = csv(tmp_path / "truth.csv", nodes, height(nodes) + 0.25)
    judged = peewit("evaluate", "g", truth, "--json").json["of_numbers"]
    assert judged["n_judged"] == SIDE * SIDE - 40
    assert judged["r2"] > 0.9
    assert judged["mae"] <= judged["rmse"] < 1.5
    shown = peewit("evaluate", "g", truth).out
    assert "RMSE" in shown
    assert "accuracy" not in shown

    output = tmp_path / "predictions.parquet"
    assert peewit("predictions", "g", "-o", output).exit_code == 0
    table = pq.read_table(output)
    assert table["label"].type == pa.float64()
    by_node = dict(zip(table["node"].to_pylist(), table["label"].to_pylist(), strict=True))
    assert by_node[500] is None
    missed = np.array([by_node[node] for node in nodes]) - height(nodes) - 0.25
    assert np.sqrt(np.mean(missed**2)) <= judged["rmse"]
    first = peewit("predictions", "g").out.splitlines()
    assert first[0] == '"node","label","score","margin","reachable","labeled","variance"'
    assert table["variance"].null_count == 2
    exported = peewit("labels", "export", "g").out.splitlines()
    assert len(exported) == 41
    assert {line.split(",")[1] for line in exported[1:]} <= {f"{k}.25" for k in range(23)}


@pytest.mark.usefixtures("processes")
def test_words_among_numbers_are_refused_where_the_target_is_real(
    peewit: Peewit, grid: Path, tmp_path: Path
) -> None:
    peewit("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", 200)
    peewit("ingest", "g", grid)
    labels = tmp_path / "labels.ndjson"
    labels.write_text('{"node": 3, "label": "low"}\n{"node": 4, "label": "high"}\n')
    assert peewit("labels", "put", "g", labels).exit_code == 0
    refused = peewit("solve", "g", "--model", "hfs", "--set", "target=real")
    assert refused.exit_code == 1
    assert "node '3' has 'low'" in refused.err
    assert peewit("solve", "g", "--set", "target=number").exit_code == 2
    labels.write_text('{"node": 3, "label": NaN}\n')
    assert peewit("labels", "put", "g", labels).exit_code == 1
    peewit("labels", "remove", "g", 3, 4)
    csv(tmp_path / "bad.csv", np.array([3, 4]), np.array([0.5, np.nan]))
    put = peewit("labels", "put", "g", tmp_path / "bad.csv")
    assert put.exit_code == 0
    assert "accepted 1 labels, labels_seq 5; left out 1 row: 1 'nan'" in put.err
