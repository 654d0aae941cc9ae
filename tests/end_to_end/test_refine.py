"""A refined solve over HTTP, as people run it: real processes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.client import InvalidArgument
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from tests.end_to_end.processes import Server, eventually
from tests.reference.harmonic import stable_hfs_scores

N_NODES = 300
PENALTY = 1e-3
REFINE = {"refine": True, "graph_penalty": PENALTY, "rtol": 1e-10}


def write_edges(directory: Path) -> Graph:
    """Two files of many parallel edges between dense ids; their graph."""
    rng = np.random.default_rng(0)
    directory.mkdir()
    ends = rng.integers(N_NODES, size=(2, 2, 20_000))
    weight = (rng.random((2, 20_000)) + 0.5).astype(np.float32)
    for number in range(2):
        table = pa.table({"src": ends[number, 0], "dst": ends[number, 1], "weight": weight[number]})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=5_000)
    u, v = ends[:, 0].ravel(), ends[:, 1].ravel()
    return Graph.from_edges(u, v, weight.ravel().astype(np.float64), n_nodes=N_NODES)


def expected_scores(graph: Graph) -> np.ndarray:
    labels = Labels.from_pairs([1, 2, 3, 4], ["a", "b", "a", "c"])
    return stable_hfs_scores(graph, labels, PENALTY)


def test_job_over_http_refines_and_says_so(server: Server, tmp_path: Path) -> None:
    graph = write_edges(tmp_path / "in")
    peewit = server.client
    peewit.create_graph("g", node_ids="dense", max_edges=1_500, seed=1)
    peewit.add_source("g", str(tmp_path / "in"))
    eventually(lambda: peewit.graph("g").files["committed"] == 2)
    peewit.put_labels("g", {1: "a", 2: "b", 3: "a", 4: "c"})
    eventually(lambda: peewit.graph("g").snapshot is not None)
    job = peewit.submit_solve("g", "stable-hfs", REFINE)
    peewit.wait(job, timeout=120)
    assert "'pass 2'" in str([event.data for event in peewit.events(job.id)])
    found = peewit.prediction("g", 17)
    assert found.refined is True
    assert found.prediction.scores is not None
    expected = expected_scores(graph)
    for name, score in zip("abc", expected[17], strict=True):
        difference = abs(found.prediction.scores[name] - score)
        assert difference < 1e-6 * np.abs(expected).max()
    with pytest.raises(InvalidArgument, match="refine"):
        peewit.submit_solve("g", "hfs", {"refine": 3})
