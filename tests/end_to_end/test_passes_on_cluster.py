"""Jobs that read raw edges again, on the workers of a dask scheduler, as people run them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.end_to_end.processes import Home
from tests.end_to_end.test_refine import REFINE, write_edges
from tests.streaming.clusters import cluster_of


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    tmp_path = tmp_path_factory.mktemp("graph")
    home = Home(tmp_path / "home")
    write_edges(tmp_path / "in")
    home.run("graph", "create", "g", "--node-ids", "dense", "--max-edges", 1_500)
    home.run("ingest", "g", tmp_path / "in")
    labels = tmp_path / "labels.csv"
    labels.write_text("node,label\n1,a\n2,b\n3,a\n4,c\n")
    home.run("labels", "put", "g", labels)
    yield home
    home.end()


def certificate(home: Home) -> dict[str, Any]:
    result: dict[str, Any] = home.json("certify", "g")["result"]
    return {key: result[key] for key in result.keys() - {"seconds", "created_at"}}


def predictions(home: Home, path: Path) -> pa.Table:
    settings = [f"--set={name}={str(value).lower()}" for name, value in REFINE.items()]
    job = home.json("solve", "g", "--model", "stable-hfs", *settings)
    assert job["result"]["stats"]["refined"] == 1
    home.run("predictions", "g", "-o", path)
    return pq.read_table(path)


def test_dask_workers_give_the_certificate_and_the_answer_of_threads(
    graph: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified = certificate(graph)
    answer = predictions(graph, tmp_path / "here.parquet")
    with cluster_of(2) as cluster:
        monkeypatch.setitem(graph.environment, "PEEWIT_SCHEDULER", cluster.scheduler_address)
        assert certificate(graph) == certified
        folds = cluster.scheduler.task_prefixes["fold_here"]
        n_tasks = folds.state_counts["memory"]
        assert n_tasks > certified["n_passes"]
        assert predictions(graph, tmp_path / "there.parquet").equals(answer)
        assert folds.state_counts["memory"] > n_tasks
