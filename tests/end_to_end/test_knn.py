"""`peewit graph knn` and the job over HTTP, as people run them: real processes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits

from peewit.service.client import Job
from peewit.solvers.estimators import HarmonicMBO
from tests.end_to_end.processes import Home, Server, eventually


def write_features(path: Path, values: np.ndarray) -> None:
    flat = pa.array(values.astype(np.float32).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    pq.write_table(pa.table({"node": np.arange(len(values)), "features": lists}), path)


def test_graph_from_features_is_as_good_as_one_made_outside(home: Home, tmp_path: Path) -> None:
    images, digits = load_digits(return_X_y=True)
    write_features(tmp_path / "images.parquet", images)
    truth = pa.table({"node": np.arange(digits.size), "label": digits})
    pq.write_table(truth, tmp_path / "truth.parquet")
    pq.write_table(truth.slice(0, 50), tmp_path / "known.parquet")
    options = ("--expected-nodes", digits.size, "--epsilon", 0.05)  # which keeps every edge
    home.run("graph", "create", "g", "--node-ids", "dense", "--deletions", "exact", *options)
    home.run("features", "g", tmp_path / "images.parquet")
    home.run("graph", "knn", "g", "--k", 4)  # too few; the next takes its place
    made = home.json("graph", "knn", "g", "--k", 10)
    assert made["progress"]["edges_kept"] == made["job"]["result"]["n_edges"]
    home.run("labels", "put", "g", tmp_path / "known.parquet")
    home.run("solve", "g", "--model", "harmonic-mbo")
    ours = home.json("evaluate", "g", tmp_path / "truth.parquet")["of_classes"]["accuracy"]
    y = np.where(np.arange(digits.size) < 50, digits, -1)
    outside = HarmonicMBO(affinity="knn", n_neighbors=10).fit(images, y).transduction_
    assert ours == pytest.approx(np.mean(outside[50:] == digits[50:]), abs=0.005)
    assert ours > 0.9


def test_long_job_ends_when_it_is_cancelled(server: Server, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(60_000, 64))
    write_features(tmp_path / "rows.parquet", values)
    home = server.home
    home.run("graph", "create", "g", "--node-ids", "dense")
    home.run("features", "g", tmp_path / "rows.parquet")
    job = server.client.submit_knn("g", {"method": "exact"}).id

    def now() -> Job:
        return server.client.job(job)

    eventually(lambda: now().phase == "searching" and (now().progress or 0) > 0)
    server.client.cancel(job)
    eventually(lambda: now().status == "cancelled")
    graph = server.client.graph("g")
    assert (graph.edges_seen, sum(graph.files.values())) == (0, 0)
