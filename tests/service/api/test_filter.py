"""Features smoothed by a job: every format of the download, which are kept, and what is refused."""

import os
from time import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit import filter_features
from peewit.service.graphs.filtered_feature_files import GRACE_SECONDS
from peewit.solvers.graph import Graph
from tests.service.api.conftest import ARROW, CSV, NDJSON, PARQUET, Api, as_parquet
from tests.service.api.test_predictions import read
from tests.service.featured import clusters, feature_table
from tests.service.solvable import two_communities

N_NODES = 60
PATH = "/graphs/g/features/filtered"


def ends() -> tuple[np.ndarray, np.ndarray]:
    """Of edges without loops."""
    u, v = two_communities(N_NODES)
    return u[u != v], v[u != v]


@pytest.fixture
def graph(api: Api) -> Api:
    """A graph whose last node has no features."""
    api.create_graph("g", expected_nodes=N_NODES)
    u, v = ends()
    edges = pa.table({"src": [f"n{at}" for at in u], "dst": [f"n{at}" for at in v]})
    api.push(as_parquet(edges), PARQUET)
    api.call(
        "PUT",
        "/graphs/g/features",
        202,
        content=as_parquet(feature_table(clusters(N_NODES)[:-1])),
        headers={"Content-Type": PARQUET},
    )
    api.ingest()
    return api


def submit(api: Api, **parameters: Any) -> str:
    body = {"kind": "filter", "parameters": parameters}
    job: str = api.call("POST", "/graphs/g/jobs", 202, json=body).json()["id"]
    return job


def filtered(api: Api, **parameters: Any) -> Any:
    """The job after its end."""
    job = submit(api, **parameters)
    api.run_job(job)
    ended = api.call("GET", f"/jobs/{job}", 200).json()
    assert ended["status"] == "succeeded", ended["error"]
    return ended


@pytest.mark.usefixtures("processes")
def test_every_format_holds_what_the_library_computes(graph: Api) -> None:
    job = filtered(graph, teleport=0.3)
    assert (job["snapshot"], job["features_version"]) == (2, 1)
    assert (job["result"]["n_nodes"], job["result"]["n_features"]) == (N_NODES, 4)
    values = np.vstack([clusters(N_NODES)[:-1], np.zeros((1, 4), np.float32)])
    u, v = ends()
    smooth = filter_features(
        Graph.from_edges(u, v, np.ones(u.size), n_nodes=N_NODES), values, teleport=0.3
    )
    assert smooth[-1].any()
    for media_type in (ARROW, PARQUET, CSV, NDJSON):
        answer = graph.call("GET", PATH, 200, headers={"Accept": media_type})
        table = read(answer.content, media_type)
        if media_type in (CSV, NDJSON):
            assert table.column_names == ["node", "f0", "f1", "f2", "f3"]
            rows = np.column_stack([table[name] for name in table.column_names[1:]])
        else:
            assert table.column_names == ["node", "features"]
            rows = np.array(table["features"].to_pylist())
        expected = smooth[[int(node[1:]) for node in table["node"].to_pylist()]]
        np.testing.assert_allclose(rows, expected, atol=1e-4)
        assert table.num_rows == N_NODES
        assert answer.headers["peewit-job"] == job["id"]
        assert answer.headers["peewit-snapshot"] == "2"
        assert answer.headers["peewit-features-version"] == "1"
        same = {"Accept": media_type, "If-None-Match": answer.headers["etag"]}
        assert graph.call("GET", PATH, 304, headers=same).content == b""


@pytest.mark.usefixtures("processes")
def test_the_last_stay_and_earlier_ones_go_once_they_are_old(graph: Api) -> None:
    first = filtered(graph)
    (path,) = graph.home.paths(graph.home.catalog.get("g")).filtered_features.iterdir()
    old = time() - 2 * GRACE_SECONDS
    os.utime(path, (old, old))
    filtered(graph, teleport=1.0)
    problem = graph.problem("GET", f"{PATH}?job={first['id']}", 404)
    assert "were removed, since the last of each graph are kept" in problem["detail"]
    second = filtered(graph, teleport=0.5)
    assert {each.name for each in path.parent.iterdir()} > {
        second["result"]["file"]
    }  # one is young
    latest = graph.call("GET", PATH, 200)
    assert latest.headers["peewit-job"] == second["id"]


@pytest.mark.usefixtures("processes")
def test_what_is_not_there_is_told(graph: Api) -> None:
    assert "graph g has no smoothed features yet" in graph.problem("GET", PATH, 404)["detail"]
    graph.problem("GET", f"{PATH}?job=none", 404)
    waiting = submit(graph)
    assert "which is queued" in graph.problem("GET", f"{PATH}?job={waiting}", 404)["detail"]
    other = graph.call("POST", "/graphs/g/jobs", 202, json={"kind": "embed"}).json()["id"]
    assert "of kind embed" in graph.problem("GET", f"{PATH}?job={other}", 404)["detail"]
    graph.create_graph("h")
    assert (
        "no job"
        in graph.problem("GET", f"/graphs/h/features/filtered?job={waiting}", 404)["detail"]
    )
    graph.run_job(waiting)
    graph.problem("GET", PATH, 406, headers={"Accept": "image/png"})
