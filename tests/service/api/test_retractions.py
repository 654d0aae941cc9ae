"""Files that leave a graph, over HTTP: what is answered when, and what jobs make of it."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.worker.worker import Worker
from tests.service.api.conftest import Api


def write(path: Path, seed: int, n_rows: int = 300) -> None:
    ends = np.random.default_rng(seed).integers(0, 40, (2, n_rows))
    pq.write_table(pa.table({"src": ends[0], "dst": ends[1]}), path, row_group_size=100)


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    directory = tmp_path / "edges"
    directory.mkdir()
    for seed in range(3):
        write(directory / f"{seed}.parquet", seed)
    return directory


@pytest.fixture
def graph(api: Api, edges: Path) -> Api:
    """The API with a graph g of three files."""
    api.create_graph("g", node_ids="dense", deletions="exact", epsilon=0.1)
    api.call("POST", "/graphs/g/sources", 201, json={"url": str(edges), "follow": True})
    api.ingest()
    return api


def files(api: Api) -> dict[str, Any]:
    listed = api.call("GET", "/graphs/g/files", 200).json()["files"]
    return {Path(file["path"]).stem: file for file in listed}


def test_a_file_leaves_at_the_next_pass_and_the_answer_says_when(graph: Api) -> None:
    before = graph.edges()
    file = files(graph)["1"]
    assert (file["status"], file["retractable"]) == ("committed", "whole")
    path = f"/graphs/g/files/{file['id']}"
    wanted = graph.call("DELETE", path, 202).json()
    assert (wanted["id"], wanted["status"]) == (file["id"], "retracting")
    assert graph.call("DELETE", f"{path}?wait=0.01", 202).json()["status"] == "retracting"
    ingest = threading.Timer(0.2, graph.ingest)
    ingest.start()
    assert graph.call("DELETE", f"{path}?wait=60", 200).json()["status"] == "retracted"
    ingest.join()
    assert graph.call("DELETE", path, 200).json()["status"] == "retracted"
    assert len(graph.edges()) < len(before)
    shown = graph.call("GET", "/graphs/g", 200).json()
    assert (shown["files"]["retracted"], shown["files"]["committed"]) == (1, 2)
    assert graph.call("GET", "/graphs/g/files?status=retracted", 200).json()["files"]
    again = graph.call("POST", f"{path}:retry", 200).json()
    assert again["status"] == "pending"
    graph.ingest()
    assert graph.edges() == before


def test_calls_that_name_nothing_are_refused(refusing: Api) -> None:
    for place, status, told in (
        ("999", 404, "no file 999"),
        ("0", 422, "file_id"),
        ("x", 422, "file_id"),
        ("1?inserts_only=perhaps", 422, "inserts_only"),
        ("1?wait=1e9", 422, "wait"),
    ):
        assert told in str(refusing.problem("DELETE", f"/graphs/g/files/{place}", status))


def certify(graph: Api, expected: int, **parameters: int) -> Any:
    body = {"kind": "certify", "parameters": parameters}
    return graph.call("POST", "/graphs/g/jobs", expected, json=body).json()


@pytest.mark.usefixtures("processes")
def test_snapshots_of_before_cannot_be_certified_and_the_newest_can(graph: Api) -> None:
    waiting = certify(graph, 202, snapshot=1)
    graph.call("DELETE", f"/graphs/g/files/{files(graph)['0']['id']}", 202)
    graph.ingest()
    problem = certify(graph, 409, snapshot=1)
    assert problem["type"] == "urn:peewit:problem:raw-edges-moved-on"
    assert "the newest such snapshot is 2" in problem["detail"]
    graph.run_job(waiting["id"])
    ended = graph.call("GET", f"/jobs/{waiting['id']}", 200).json()
    assert ended["status"] == "failed"
    assert "the newest such snapshot is 2" in str(ended)
    ended = graph.run(kind="certify")
    assert (ended["status"], ended["result"]["snapshot"]) == ("succeeded", 2)
    assert ended["result"]["epsilon_certified"] < 1e-3  # every edge is kept
    assert ended["result"]["n_edges"] < 600  # those of two files


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("kind", ["certify", "solve"])
def test_jobs_that_run_while_a_file_leaves_are_of_their_snapshot(graph: Api, kind: str) -> None:
    labels = {node: "left" if node < 20 else "right" for node in range(0, 40, 3)}
    graph.put_labels(labels)
    body = {"kind": kind} | ({"model": "stable-hfs"} if kind == "solve" else {})
    job = graph.call("POST", "/graphs/g/jobs", 202, json=body).json()
    worker = Worker(graph.home.database, graph.home.settings)
    thread = threading.Thread(target=worker.run_one, args=(job["id"],))
    thread.start()
    while graph.call("GET", f"/jobs/{job['id']}", 200).json()["status"] == "queued":
        pass
    snapshot = None
    while snapshot is None:  # until it has chosen its snapshot
        shown = graph.call("GET", f"/jobs/{job['id']}", 200).json()
        snapshot = shown["snapshot"]
    graph.call("DELETE", f"/graphs/g/files/{files(graph)['0']['id']}", 202)
    graph.ingest()
    thread.join()
    ended = graph.call("GET", f"/jobs/{job['id']}", 200).json()
    assert ended["snapshot"] == 1
    if ended["status"] == "failed":  # it asked for the files after they had left
        assert (kind, "is 2" in str(ended)) == ("certify", True)
    else:
        assert ended["status"] == "succeeded"
