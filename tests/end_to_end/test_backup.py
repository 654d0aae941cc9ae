"""A server that is backed up while everything goes on, and another that begins from the backup."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL

from tests.conftest import fresh_database
from tests.end_to_end.processes import Home, Server, eventually

PAUSE_SECONDS = 0.25
"""Between two rounds of a client, so that not hundreds of pushes come while a command starts."""

FINAL = {"succeeded", "cancelled", "failed"}


class Client(threading.Thread):
    """Pushes chains of edges, labels their first nodes, asks for jobs, until told to stop."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__(name=name)
        self.must_stop, self.may_solve = threading.Event(), threading.Event()
        self.n_pushed = self.n_labeled = 0
        self.jobs: list[str] = []
        self._server = server

    def run(self) -> None:
        while not self.must_stop.wait(PAUSE_SECONDS):
            number = self.n_pushed
            nodes = [f"{self.name}-{number}-{end}" for end in range(4)]
            lines = "".join(f"{u},{v}\n" for u, v in pairwise(["hub", *nodes]))
            kind = {"Content-Type": "text/csv"}
            status, answer = self._server.call(
                "POST", "/v1/graphs/g/edges", f"src,dst\n{lines}".encode(), kind
            )
            assert status in {200, 202}, answer
            self.n_pushed += 1
            rows = {"labels": [{"node": nodes[0], "label": number % 2}]}
            status, answer = self._server.call("PUT", "/v1/graphs/g/labels?unknown=keep", rows)
            assert status == 200, answer
            self.n_labeled += 1
            if number % 5 == 0 and self.may_solve.is_set():
                asked = {"kind": "solve", "model": "hfs", "parameters": {"graph_penalty": 1.0}}
                status, answer = self._server.call("POST", "/v1/graphs/g/jobs", asked)
                assert status == 202, answer
                self.jobs.append(answer["id"])


@pytest.fixture(
    params=[
        ("sqlite", "sqlite"),
        pytest.param(("postgres", "postgres"), marks=pytest.mark.postgres),
    ],
    ids="-".join,
)
def homes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Home, Home]]:
    """Where the server runs, and where the backup goes; `tests.service.upkeep` mixes the kinds."""
    with ExitStack() as stack:
        made = []
        for name, kind in zip(("home", "elsewhere"), request.param, strict=True):
            environment = {"PEEWIT_CHECKPOINT_SECONDS": "0", "PEEWIT_LOG_LEVEL": "warning"}
            if kind == "postgres":
                server: URL = request.getfixturevalue("postgres_server")
                url = stack.enter_context(fresh_database(server))
                environment["PEEWIT_DATABASE_URL"] = url
            made.append(Home(tmp_path / name, **environment))
            stack.callback(made[-1].end)
        yield made[0], made[1]


def read(server: Server, path: str) -> Any:
    status, answer = server.get(path)
    assert status == 200, answer
    return answer


def jobs_of(server: Server) -> list[dict[str, Any]]:
    return list(read(server, "/v1/jobs?limit=500")["jobs"])


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_what_was_acknowledged_before_a_backup_is_in_what_begins_from_it(
    homes: tuple[Home, Home], tmp_path: Path
) -> None:
    home, elsewhere = homes
    solve = {"model": "hfs", "parameters": {"graph_penalty": 1.0}}
    first = Server(home)
    graph = {"name": "g", "expected_nodes": 100, "seed": 1, "auto_solve": solve, "keep_raw": False}
    assert first.call("POST", "/v1/graphs", graph)[0] == 201
    features = "".join(
        json.dumps({"node": f"f{number}", "features": [number, 1.0]}) + "\n" for number in range(5)
    )
    kind = {"Content-Type": "application/x-ndjson"}
    status, answer = first.call("PUT", "/v1/graphs/g/features", features.encode(), kind)
    assert status in {200, 202}, answer
    clients = [Client(first, f"c{number}") for number in range(2)]
    for client in clients:
        client.start()
    try:
        eventually(lambda: all(client.n_labeled > 20 for client in clients), 120.0)
        eventually(lambda: first.get("/v1/graphs/g/predictions")[0] == 200, 120.0)
        for client in clients:
            client.may_solve.set()
        eventually(lambda: all(client.jobs for client in clients), 120.0)
        before = [(client.n_pushed, client.n_labeled, list(client.jobs)) for client in clients]
        report = home.json("backup", tmp_path / "backup")
        assert home.json("doctor")["healthy"]
    finally:
        for client in clients:
            client.must_stop.set()
        for client in clients:
            client.join()
    assert report["missing"] == []
    home.end()

    elsewhere.run("restore", tmp_path / "backup")
    second = Server(elsewhere)
    eventually(lambda: read(second, "/v1/graphs/g")["backlog"]["n_files"] == 0, 120.0)
    eventually(lambda: all(job["status"] in FINAL for job in jobs_of(second)), 120.0)
    edges = sum(n_pushed for n_pushed, _, _ in before)
    shown = read(second, "/v1/graphs/g")
    assert shown["edges_seen"] >= 4 * edges
    assert shown["edges_seen"] % 4 == 0
    assert shown["features_version"] == 1
    labels = second.get("/v1/graphs/g/labels?format=csv")[1].decode()
    for client, (n_pushed, n_labeled, jobs) in zip(clients, before, strict=True):
        for number in range(n_labeled):
            assert f'"{client.name}-{number}-0",' in labels
        for job in jobs:
            ended = read(second, f"/v1/jobs/{job}")
            assert ended["status"] == "succeeded", ended
        newest = f"/v1/graphs/g/predictions/node?id={client.name}-{n_pushed - 1}-3"
        eventually(lambda path=newest: second.get(path)[0] == 200, 120.0)  # type: ignore[misc]
    for job in jobs_of(second):
        assert job["attempt"] <= 2
    assert elsewhere.json("doctor")["healthy"]
    elsewhere.end()
