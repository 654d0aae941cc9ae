"""`lapwing certify` and the job over HTTP, as people run them: real processes, a killed worker."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.end_to_end.processes import Home, Server, eventually, is_gone


def write_edges(directory: Path, *, n_nodes: int, n_files: int, n_edges: int) -> None:
    rng = np.random.default_rng(0)
    directory.mkdir()
    for number in range(n_files):
        ends = rng.integers(n_nodes, size=(2, n_edges))
        table = pa.table({"src": ends[0], "dst": ends[1], "weight": rng.random(n_edges) + 0.5})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=n_edges // 3)


def check(result: dict[str, Any], *, n_most: int) -> None:
    assert result["status"] == "converged"
    assert 0 < result["epsilon_least"] <= result["epsilon_certified"] < 1
    assert result["outer_min"] <= result["ritz_min"] < 1 < result["ritz_max"] <= result["outer_max"]
    assert 0 < result["n_edges"] <= n_most


def test_command_certifies_what_the_command_ingested(home: Home, tmp_path: Path) -> None:
    write_edges(tmp_path / "in", n_nodes=300, n_files=2, n_edges=30_000)
    home.run("graph", "create", "g", "--node-ids", "dense", "--expected-nodes", 300)
    home.run("ingest", "g", tmp_path / "in")
    job = home.json("certify", "g")
    check(job["result"], n_most=60_000)
    shown = home.json("graph", "show", "g")
    assert shown["certificate"]["epsilon_certified"] == job["result"]["epsilon_certified"]
    assert shown["progress"]["edges_kept"] < 60_000


def test_certify_of_a_killed_worker_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    write_edges(tmp_path / "in", n_nodes=4_000, n_files=3, n_edges=200_000)
    asked = {"name": "g", "node_ids": "int64", "expected_nodes": 4_000, "seed": 1}
    assert server.call("POST", "/v1/graphs", asked)[0] == 201
    server.call("POST", "/v1/graphs/g/sources", {"url": str(tmp_path / "in")})
    eventually(lambda: server.get("/v1/graphs/g")[1]["files"]["committed"] == 3)
    eventually(lambda: server.get("/v1/graphs/g")[1]["snapshot"] is not None)
    body = {"kind": "certify", "parameters": {"gap": 0.01, "passes": 200}}
    job = server.call("POST", "/v1/graphs/g/jobs", body)[1]["id"]

    def n_pass() -> int:
        phase = server.get(f"/v1/jobs/{job}")[1]["phase"] or ""
        return int(phase.split()[1].rstrip(":")) if phase.startswith("pass") else 0

    eventually(lambda: n_pass() >= 4)
    worker = server.roles()["worker"]
    below = worker.children(recursive=True)
    worker.kill()
    eventually(lambda: all(is_gone(process.pid) for process in [worker, *below]))
    eventually(lambda: server.get(f"/v1/jobs/{job}")[1]["status"] == "succeeded", seconds=300)
    ended = server.get(f"/v1/jobs/{job}")[1]
    assert ended["attempt"] == 2
    check(ended["result"], n_most=600_000)
    history = server.get(f"/v1/jobs/{job}/events")[1].decode()
    second = history.rpartition("event: started")[2]
    assert '"pass 2"' not in second
    assert '"pass 5"' in second
    details = server.get("/v1/graphs/g")[1]
    assert details["epsilon_certified"] == ended["result"]["epsilon_certified"]
    assert details["certificate"]["snapshot"] == ended["snapshot"]
