"""`peewit serve` as people run it: bad files, killed processes, a clean end."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.client import GraphDetails
from peewit.service.database.engine import open_database
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.settings import Settings
from tests.end_to_end.processes import Home, Server, descendants, eventually, free_port, is_gone

N_PATH = 300_000


@pytest.fixture(scope="module")
def lasting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests after which it is as good as before."""
    home = Home(tmp_path_factory.mktemp("lasting"))
    yield Server(home)
    home.end()


def create(server: Server, name: str, **settings: Any) -> None:
    server.client.create_graph(name, seed=5, **settings)


def read_whole(server: Server, graph: str, directory: Path, n_files: int) -> GraphDetails:
    """Have a directory read; the graph once all its files have come to an end."""
    server.client.add_source(graph, str(directory))

    def is_read() -> bool:
        files = server.client.graph(graph).files
        return files["pending"] == 0 and sum(files.values()) == n_files

    eventually(is_read)
    return server.client.graph(graph)


def write_edges(path: Path, *, n_nodes: int, n_edges: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ends = rng.integers(n_nodes, size=(2, n_edges))
    names = np.array([f"n{number}" for number in range(n_nodes)])
    table = pa.table({"src": names[ends[0]], "dst": names[ends[1]], "weight": rng.random(n_edges)})
    pq.write_table(table, path, row_group_size=n_edges // 4)


def test_bad_files_leave_the_graph_as_if_they_had_never_come(
    lasting_server: Server, tmp_path: Path
) -> None:
    server = lasting_server
    good, mixed = tmp_path / "good", tmp_path / "mixed"
    good.mkdir()
    for number in (1, 3, 6):
        write_edges(good / f"{number}.parquet", n_nodes=400, n_edges=20_000, seed=number)
    shutil.copytree(good, mixed)
    content = (good / "3.parquet").read_bytes()
    (mixed / "2-cut.parquet").write_bytes(content[: len(content) // 2])
    (mixed / "4-again.parquet").write_bytes(content)
    table = pq.read_table(good / "6.parquet")
    weight = table["weight"].to_numpy().copy()
    weight[-1] = np.nan
    new_names = pa.array([f"ghost-{name}" for name in table["src"].to_pylist()])
    table = pa.table({"src": new_names, "dst": table["dst"], "weight": weight})
    pq.write_table(table, mixed / "5-nan.parquet", row_group_size=5_000)

    create(server, "clean", epsilon=0.9, expected_nodes=400)
    create(server, "dirty", epsilon=0.9, expected_nodes=400)
    clean = read_whole(server, "clean", good, 3)
    dirty = read_whole(server, "dirty", mixed, 6)
    ended = {status: n for status, n in dirty.files.items() if n}
    assert ended == {"committed": 3, "quarantined": 2, "duplicate": 1}
    for figure in ("nodes", "edges_seen", "edges_kept", "left_out", "epsilon_expected"):
        assert getattr(dirty, figure) == getattr(clean, figure)
    kept = [server.client.snapshot_edges(each.name, each.snapshot or 0) for each in (clean, dirty)]
    assert kept[0].equals(kept[1])
    assert clean.edges_kept < clean.edges_seen
    refused = list(server.client.files("dirty", status="quarantined"))
    assert [Path(file.path).name for file in refused] == ["2-cut.parquet", "5-nan.parquet"]
    assert "not a readable Parquet file" in (refused[0].reason or "")
    assert (refused[1].row, refused[1].value) == (19_999, "nan")


def test_job_of_a_killed_worker_runs_again_and_ends_once(
    lasting_server: Server, tmp_path: Path
) -> None:
    server = lasting_server
    weight = 10.0 ** np.random.default_rng(0).uniform(-3, 3, N_PATH - 1)
    ends = np.arange(N_PATH - 1)
    (tmp_path / "in").mkdir()
    table = pa.table({"src": ends, "dst": ends + 1, "weight": weight})
    pq.write_table(table, tmp_path / "in" / "path.parquet")
    create(server, "path", node_ids="int64", expected_nodes=N_PATH)
    read_whole(server, "path", tmp_path / "in", 1)
    server.client.put_labels("path", {node: node // 50_000 for node in range(0, N_PATH, 5_000)})
    parameters = {"rtol": 1e-15, "graph_penalty": 1.0}
    job = server.client.submit_solve("path", "stable-hfs", parameters).id

    eventually(lambda: server.client.job(job).phase in {"solving", "scores"})
    worker = server.roles()["worker"]
    below = worker.children(recursive=True)
    worker.kill()
    eventually(lambda: all(is_gone(process.pid) for process in [worker, *below]))

    ended = server.client.wait(job, timeout=120)
    assert ended.attempt == 2
    assert ended.result is not None
    assert ended.result["n_nodes"] == N_PATH
    kinds = [event.kind for event in server.client.events(job)]
    assert kinds.count("started") == 2
    assert kinds.count("succeeded") == 1
    assert kinds[-1] == "succeeded"
    assert server.client.prediction("path", 1).job == job


def test_acknowledged_label_outlives_a_killed_api(lasting_server: Server) -> None:
    server = lasting_server
    create(server, "g")
    push = server.client.push_edges("g", pa.table({"src": ["a"], "dst": ["b"]}))
    assert push.n_rows == 1
    assert server.client.put_labels("g", {"a": "x"}).labels_seq == 1
    api = server.roles()["api"]
    api.kill()
    eventually(lambda: is_gone(api.pid))
    eventually(server.is_ready)
    (kept,) = server.client.labels("g").to_pylist()
    assert kept == {"node": "a", "label": "x", "origin": "given", "annotator": None, "key": None}
    eventually(lambda: server.client.graph("g").edges_seen == 1)


def loaded(process: psutil.Process) -> set[str]:
    """Those of the heavy packages whose compiled parts a process has in memory."""
    paths = {part for each in process.memory_maps() for part in Path(each.path).parts}
    return paths & {"llvmlite", "numpy", "pyarrow", "scipy", "sklearn"}


def test_serve_at_rest_is_light_stops_within_seconds_and_leaves_no_process(server: Server) -> None:
    database = open_database(Settings(home=server.home.directory).database)
    eventually(lambda: len(WorkerRegistry(database).alive()) == 2)  # ingest and the worker
    database.close()
    roles = server.roles()
    assert loaded(psutil.Process(server.process.pid)) == set()
    assert loaded(roles["worker"]) == set()
    assert loaded(roles["ingest"]) | loaded(roles["api"]) <= {"numpy", "pyarrow", "scipy"}
    below = descendants(server.process.pid)
    assert {each.pid for each in below} == {each.pid for each in roles.values()}
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    assert time.monotonic() - started < 10
    eventually(lambda: all(is_gone(process.pid) for process in below), seconds=5)
    with socket.create_server(("127.0.0.1", server.port)):
        pass  # the port is free again


def test_killed_serve_takes_its_processes_along_and_another_is_refused_till_then(
    server: Server,
) -> None:
    below = descendants(server.process.pid)
    second = server.home.start("serve", "--port", free_port(), stderr=subprocess.PIPE)
    _, told = second.communicate(timeout=60)
    assert second.returncode == 1
    assert f"process {server.process.pid}) runs on" in told
    server.process.kill()
    server.process.wait()
    third = server.home.start("serve", "--port", free_port(), stderr=subprocess.PIPE)
    assert '"starting roles"' in third.stderr.readline()
    eventually(lambda: all(is_gone(process.pid) for process in below), seconds=20)


def test_killed_api_of_several_processes_leaves_none(home: Home) -> None:
    port = free_port()
    api = home.start("api", "--port", port, "--workers", 2)
    eventually(
        lambda: home.start("health", "api", "--port", port, stderr=subprocess.DEVNULL).wait() == 0
    )
    below = descendants(api.pid)
    assert len(below) >= 2
    api.kill()
    api.wait()
    eventually(lambda: all(is_gone(process.pid) for process in below), seconds=20)


@pytest.mark.parametrize("role", ["serve", "api"])
def test_address_beyond_this_machine_needs_a_key(home: Home, role: str) -> None:
    refused = home.start(role, "--host", "0.0.0.0", "--port", free_port(), stderr=subprocess.PIPE)
    _, err = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert "peewit key create" in err
    assert len(err.splitlines()) == 1
