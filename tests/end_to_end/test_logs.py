"""Logs of all roles as real processes: JSON lines that tie a request to its job and its solve."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end.processes import Home, Server, eventually, free_port

N_NODES = 60
REQUEST_ID = "submit-of-test.1"


class Logged:
    """`peewit serve` with its stderr in a file, and a job that it has run."""

    def __init__(self, directory: Path) -> None:
        self.metrics_port = free_port()
        self._log = directory / "stderr"
        self.home = Home(
            directory / "home",
            PEEWIT_METRICS_PORT=str(self.metrics_port),
            PEEWIT_SETTLE_SECONDS="0",
        )
        with self._log.open("w") as stderr:
            self.server = Server(self.home, stderr=stderr)
        u, v = np.triu_indices(N_NODES, k=1)
        (directory / "in").mkdir()
        pq.write_table(pa.table({"src": u, "dst": v}), directory / "in" / "edges.parquet")
        (directory / "in" / "bad.parquet").write_bytes(b"PAR1 no more PAR1")
        call = self.server.call
        call("POST", "/v1/graphs", {"name": "g", "node_ids": "int64", "seed": 1})
        call("POST", "/v1/graphs/g/sources", {"url": str(directory / "in")})
        secret = {"url": "https://u:hunter2@127.0.0.1:1/x.parquet?sig=hunter3"}
        call("POST", "/v1/graphs/g/sources", secret)
        eventually(lambda: bool(self.graph()["snapshot"]))
        eventually(lambda: self.graph()["files"]["quarantined"] == 1)
        rows = [{"node": 1, "label": "left"}, {"node": 50, "label": "right"}]
        call("PUT", "/v1/graphs/g/labels", {"labels": rows})
        status, self.job = call(
            "POST",
            "/v1/graphs/g/jobs",
            {"kind": "solve", "model": "hfs"},
            {"X-Request-ID": REQUEST_ID},
        )
        assert status == 202, self.job
        assert call("GET", f"/v1/jobs/{self.job['id']}?wait=60")[1]["status"] == "succeeded"
        eventually(lambda: bool(self.events("attempt ended", job=self.job["id"])))  # told after it

    def graph(self) -> Any:
        """The graph as the API has it."""
        return self.server.get("/v1/graphs/g")[1]

    def lines(self) -> list[dict[str, Any]]:
        """Every line so far; one that is no object fails the test."""
        whole = self._log.read_text().rpartition("\n")[0]
        found = [json.loads(line) for line in whole.splitlines()]
        for line in found:
            assert {"timestamp", "level", "logger", "event"} <= line.keys(), line
        return found

    def events(self, event: str, **values: Any) -> list[dict[str, Any]]:
        """Lines of one event that have these values."""
        return [
            line
            for line in self.lines()
            if line["event"] == event and values.items() <= line.items()
        ]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    logged = Logged(tmp_path_factory.mktemp("logged"))
    yield logged
    logged.home.end()


def test_a_request_its_job_and_its_solve_can_be_followed(logged: Logged) -> None:
    job_id = logged.job["id"]
    (submitted,) = logged.events("job submitted")
    assert (submitted["request_id"], submitted["job"]) == (REQUEST_ID, job_id)
    (answered,) = logged.events("request", request_id=REQUEST_ID)
    assert (answered["method"], answered["status"]) == ("POST", 202)
    assert (answered["route"], answered["graph"]) == ("/v1/graphs/{graph}/jobs", "g")
    assert answered["seconds"] > 0
    assert logged.events("request", job=job_id, route="/v1/jobs/{job_id}")
    (started,) = logged.events("attempt started", job=job_id)
    assert (started["attempt"], started["lane"]) == (1, "fast")
    (solved,) = logged.events("task ended", job=job_id)
    assert (solved["answer"], solved["graph_id"]) == ("Done", started["graph_id"])
    (ended,) = logged.events("attempt ended", job=job_id)
    assert ended["status"] == "succeeded"


def test_ingest_names_graph_and_file(logged: Logged) -> None:
    (refused,) = logged.events("file quarantined")
    assert refused["graph"] == "g"
    assert refused["file"].endswith("bad.parquet")
    assert logged.events("ingested", graph="g")


def test_no_secret_and_no_line_of_a_client_reaches_the_log(logged: Logged) -> None:
    with socket.create_connection(("127.0.0.1", logged.server.port), timeout=60) as connection:
        connection.sendall(
            b"GET /healthz%0aforged HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: a\tb\r\n"
            b"Connection: close\r\n\r\n"
        )
        assert connection.recv(12) == b"HTTP/1.1 404"
    status, _ = logged.server.call(
        "GET", "/v1/version", headers={"Authorization": "Bearer admin.hunter4"}
    )
    assert status == 200
    assert "hunter" not in json.dumps(logged.lines())
    assert not logged.events("forged")
    assert "a\tb" not in {line.get("request_id") for line in logged.lines()}


def test_ingest_and_worker_show_metrics_on_neighboring_ports(logged: Logged) -> None:
    found: dict[str, float] = {}
    for port in (logged.metrics_port, logged.metrics_port + 1):
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    labels = ",".join(
                        f"{name}={value}" for name, value in sorted(sample.labels.items())
                    )
                    found[f"{sample.name}{{{labels}}}"] = sample.value
    assert found["peewit_ingest_files_total{graph=g,outcome=committed}"] == 1
    assert found["peewit_attempts_total{kind=solve,lane=fast,outcome=succeeded}"] == 1
    assert found["peewit_attempt_seconds_count{kind=solve,lane=fast}"] == 1
    assert found["peewit_solves_total{kind=solve,start=cold}"] == 1
    assert found["peewit_child_starts_total{lane=fast}"] == 1
    assert found["peewit_jobs{kind=solve,lane=fast,status=succeeded}"] == 1
    assert found["peewit_workers_alive{role=heavy}"] == 1
    assert found["peewit_processes{}"] >= 3  # the worker and a child for each lane


def test_the_end_is_told_in_json_too(logged: Logged) -> None:
    """The last test of the module: it stops the server."""
    logged.server.process.terminate()
    assert logged.server.process.wait(timeout=60) == 0
    assert logged.events("worker stopped")
    assert logged.events("ingest daemon stopped")


def test_a_role_that_cannot_start_says_why_in_one_object(home: Home) -> None:
    home.environment["PEEWIT_DATABASE_URL"] = "mysql://u:hunter2@host/x"
    for command in ("api", "worker"):
        process = home.start(command, stderr=-1)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert [json.loads(line)["event"] for line in err.splitlines()] == ["ended"]
        assert "hunter2" not in err
