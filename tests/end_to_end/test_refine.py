"""`lapwing solve --set refine=true` and the job over HTTP, as people run them: real processes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from solvers.graph import Graph
from solvers.labels import Labels
from tests.end_to_end.processes import Home, Server, eventually
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


def test_command_refines_what_the_command_ingested(home: Home, tmp_path: Path) -> None:
    graph = write_edges(tmp_path / "in")
    home.run("graph", "create", "g", "--node-ids", "dense", "--max-edges", 1_500)
    home.run("ingest", "g", tmp_path / "in")
    labels = tmp_path / "labels.csv"
    labels.write_text("node,label\n1,a\n2,b\n3,a\n4,c\n")
    home.run("labels", "put", "g", labels)
    settings = [f"--set={name}={str(value).lower()}" for name, value in REFINE.items()]
    job = home.json("solve", "g", "--model", "stable-hfs", *settings)
    stats = job["result"]["stats"]
    assert (job["result"]["status"], stats["refined"]) == ("converged", 1)
    assert stats["residual"] <= 1e-10
    home.run("predictions", "g", "-o", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    scores = np.column_stack([table[f"score:{name}"].to_numpy() for name in "abc"])
    expected = expected_scores(graph)
    np.testing.assert_allclose(scores, expected, atol=1e-6 * np.abs(expected).max())


def test_job_over_http_refines_and_says_so(server: Server, tmp_path: Path) -> None:
    graph = write_edges(tmp_path / "in")
    asked = {"name": "g", "node_ids": "dense", "max_edges": 1_500, "seed": 1}
    assert server.call("POST", "/v1/graphs", asked)[0] == 201
    server.call("POST", "/v1/graphs/g/sources", {"url": str(tmp_path / "in")})
    eventually(lambda: server.get("/v1/graphs/g")[1]["files"]["committed"] == 2)
    pairs = {1: "a", 2: "b", 3: "a", 4: "c"}
    put = {"labels": [{"node": node, "label": label} for node, label in pairs.items()]}
    assert server.call("PUT", "/v1/graphs/g/labels", put)[0] == 200
    eventually(lambda: server.get("/v1/graphs/g")[1]["snapshot"] is not None)
    body = {"model": "stable-hfs", "parameters": REFINE}
    job = server.call("POST", "/v1/graphs/g/jobs", body)[1]["id"]
    eventually(lambda: server.get(f"/v1/jobs/{job}")[1]["status"] == "succeeded", seconds=120)
    assert '"pass 2"' in server.get(f"/v1/jobs/{job}/events")[1].decode()
    found = server.get("/v1/graphs/g/predictions/node?id=17")[1]
    assert found["refined"] is True
    expected = expected_scores(graph)
    for name, score in zip("abc", expected[17], strict=True):
        assert abs(found["prediction"]["scores"][name] - score) < 1e-6 * np.abs(expected).max()
    refused = server.call(
        "POST", "/v1/graphs/g/jobs", {"model": "hfs", "parameters": {"refine": 3}}
    )
    assert refused[0] == 422
