"""`peewit certify` and the job over HTTP, as people run them: real processes, a killed worker."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.end_to_end.processes import Server, eventually, is_gone


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


def test_certify_of_a_killed_worker_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    write_edges(tmp_path / "in", n_nodes=4_000, n_files=3, n_edges=200_000)
    peewit = server.client
    peewit.create_graph("g", node_ids="int64", expected_nodes=4_000, epsilon=0.5, seed=1)
    peewit.add_source("g", str(tmp_path / "in"))
    eventually(lambda: peewit.graph("g").files["committed"] == 3)
    eventually(lambda: peewit.graph("g").snapshot is not None)
    job = peewit.submit_certify("g", {"gap": 0.01, "passes": 200}).id

    def n_pass() -> int:
        phase = peewit.job(job).phase or ""
        return int(phase.split()[1].rstrip(":")) if phase.startswith("pass") else 0

    eventually(lambda: n_pass() >= 4)
    worker = server.roles()["worker"]
    below = worker.children(recursive=True)
    worker.kill()
    eventually(lambda: all(is_gone(process.pid) for process in [worker, *below]))
    ended = peewit.wait(job, timeout=300)
    assert ended.attempt == 2
    assert ended.result is not None
    check(ended.result, n_most=600_000)
    history = list(peewit.events(job))
    started = [event.seq for event in history if event.kind == "started"]
    second = str([event.data for event in history if event.seq > started[-1]])
    assert "'pass 2'" not in second
    assert "'phase': 'pass " in second  # which one depends on when the worker died
    details = peewit.graph("g")
    assert details.epsilon_certified == ended.result["epsilon_certified"]
    assert details.certificate is not None
    assert details.certificate.snapshot == ended.snapshot
