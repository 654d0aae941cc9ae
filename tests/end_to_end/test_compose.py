"""Every service of docker/compose.yaml, run as the file says, from the first edge to the stop.

By the programs of this checkout, or by those of an image (`tests/end_to_end/image.py`).
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end import image
from tests.end_to_end.composed import Composed, postgres_programs, seconds
from tests.end_to_end.processes import REPOSITORY, eventually

PROGRAMS = postgres_programs()
N_PATH = 400_000
PATIENT = {"seconds": 240.0, "pause_seconds": 0.2}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAMS is None, reason="needs PostgreSQL's programs (initdb, postgres, pg_isready)"
    ),
]


@pytest.fixture(scope="module")
def composed() -> Iterator[Composed]:
    """What runs by default, healthy."""
    assert PROGRAMS is not None
    container = image.mounted() if image.NAME else nullcontext()
    with container as inside, TemporaryDirectory(prefix="peewit-compose-") as directory:
        Path(directory).chmod(0o755)  # other users run in it
        composed = Composed(Path(directory), PROGRAMS, inside)
        try:
            for stage in (("postgres",), ("api",), ("ingest", "worker")):
                composed.start(*stage)
            yield composed
        finally:
            composed.end()


def call(composed: Composed, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """The JSON of an answer to a request with the admin key, or bytes of another kind."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {composed.admin_key}", **headers}
    if isinstance(body, dict):
        given["Content-Type"] = "application/json"
    url = f"http://127.0.0.1:{composed.port('8000')}{path}"
    try:
        with urlopen(Request(url, data=data, headers=given, method=method), timeout=120) as answer:
            content = answer.read()
            is_json = answer.headers["Content-Type"] == "application/json"
            return json.loads(content) if is_json else content
    except HTTPError as error:
        with error:
            pytest.fail(f"{method} {path}: {error.code} {error.read().decode()}")


def graph(composed: Composed, name: str) -> Any:
    return call(composed, "GET", f"/v1/graphs/{name}")


def finished(composed: Composed, name: str, **job: Any) -> Any:
    """A job of a graph once it has ended."""
    job_id = call(composed, "POST", f"/v1/graphs/{name}/jobs", job)["id"]
    return call(composed, "GET", f"/v1/jobs/{job_id}?wait=120")


def test_edges_come_in_and_predictions_go_out(composed: Composed) -> None:
    u, v = np.triu_indices(40, k=1)
    call(composed, "POST", "/v1/graphs", {"name": "g", "node_ids": "int64", "seed": 1})
    pushed = "src,dst\n" + "".join(f"{a},{b}\n" for a, b in zip(u, v, strict=True))
    call(
        composed,
        "POST",
        "/v1/graphs/g/edges?wait=60",
        pushed.encode(),
        **{"Content-Type": "text/csv"},
    )
    edges = composed.directory / "edges"
    pq.write_table(pa.table({"src": u + 40, "dst": v + 40}), edges / "second.parquet")
    call(composed, "POST", "/v1/graphs/g/sources", {"url": composed.inside(edges), "follow": True})
    eventually(lambda: graph(composed, "g")["edges_seen"] == 2 * u.size, **PATIENT)
    rows = [{"node": 1, "label": "left"}, {"node": 41, "label": "right"}]
    call(composed, "PUT", "/v1/graphs/g/labels", {"labels": rows})
    eventually(lambda: graph(composed, "g")["nodes"] == 80, **PATIENT)
    assert finished(composed, "g", kind="solve", model="hfs")["status"] == "succeeded"
    for node, label in ((7, "left"), (77, "right")):
        found = call(composed, "GET", f"/v1/graphs/g/predictions/node?id={node}")
        assert found["prediction"]["label"] == label


def test_commands_are_run_where_the_edges_are(composed: Composed) -> None:
    edges = composed.directory / "edges"
    pq.write_table(pa.table({"src": [1, 2, 3], "dst": [2, 3, 4]}), edges / "third.parquet")
    composed.run("cli", "graph", "create", "by-hand", "--node-ids", "int64")
    composed.run("cli", "ingest", "by-hand", "/edges/third.parquet")
    composed.run("cli", "ingest", "by-hand", "third.parquet")
    assert graph(composed, "by-hand")["edges_seen"] == 3
    key = composed.run("cli", "key", "create", "laptop", "--scope", "read").split()[-1]
    assert call(composed, "GET", "/v1/graphs", Authorization=f"Bearer {key}")["graphs"]


def test_a_role_answers_the_check_itself_and_the_command_where_it_does_not(
    composed: Composed,
) -> None:
    for each in composed.running:
        if each.service in {"ingest", "worker"}:
            with urlopen(f"http://127.0.0.1:{each.ports['9100']}/healthz", timeout=60) as answer:
                assert answer.status == 200
            each.process.send_signal(signal.SIGSTOP)
            try:
                eventually(lambda each=each: not each.is_healthy(), **PATIENT)
            finally:
                each.process.send_signal(signal.SIGCONT)
            eventually(each.is_healthy, **PATIENT)


def test_without_the_key_of_the_secret_nothing_is_told(composed: Composed) -> None:
    url = f"http://127.0.0.1:{composed.port('8000')}"
    for path in ("/v1/graphs", "/metrics"):
        with pytest.raises(HTTPError) as refused:
            urlopen(url + path, timeout=60)
        refused.value.close()
        assert refused.value.code == 401


def test_prometheus_finds_its_targets(composed: Composed) -> None:
    config = yaml.safe_load((REPOSITORY / "docker/prometheus.yml").read_text())
    found = {}
    for scraped in config["scrape_configs"]:
        (discovered,) = scraped["dns_sd_configs"]
        port, (service,) = str(discovered["port"]), discovered["names"]
        replica = next(each for each in composed.running if each.service == service)
        here = replica.ports.get(port) or composed.port(port)
        headers = {}
        if "authorization" in scraped:
            secret = Path(scraped["authorization"]["credentials_file"])
            key = (composed.directory / "secrets" / secret.name).read_text().strip()
            headers = {"Authorization": f"Bearer {key}"}
        request = Request(f"http://127.0.0.1:{here}/metrics", headers=headers)
        with urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        found[scraped["job_name"]] = {
            family.name for family in text_string_to_metric_families(text)
        }
    assert "peewit_http_requests" in found["api"]
    assert "peewit_ingest_rows" in found["ingest"]
    assert "peewit_attempts" in found["worker"]


def test_a_killed_worker_is_replaced_by_the_other_one(composed: Composed) -> None:
    composed.start("worker")
    weight = 10.0 ** np.random.default_rng(0).uniform(-3, 3, N_PATH - 1)
    ends = np.arange(N_PATH - 1)
    path = composed.directory / "edges" / "path.parquet"
    call(composed, "POST", "/v1/graphs", {"name": "path", "node_ids": "int64", "seed": 5})
    pq.write_table(pa.table({"src": ends, "dst": ends + 1, "weight": weight}), path)
    call(composed, "POST", "/v1/graphs/path/sources", {"url": composed.inside(path)})
    eventually(lambda: graph(composed, "path")["edges_seen"] == N_PATH - 1, **PATIENT)
    rows = [{"node": int(node), "label": int(node) // 50_000} for node in range(0, N_PATH, 5_000)]
    call(composed, "PUT", "/v1/graphs/path/labels", {"labels": rows})
    asked = {"model": "stable-hfs", "parameters": {"rtol": 1e-15, "graph_penalty": 1.0}}
    job = call(composed, "POST", "/v1/graphs/path/jobs", {"kind": "solve", **asked})["id"]
    eventually(lambda: call(composed, "GET", f"/v1/jobs/{job}")["phase"] == "solving", **PATIENT)
    killed = worker_of(composed, job)
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait(timeout=60)
    composed.running.remove(killed)
    ended = {"finished_at": None}

    def has_ended() -> bool:
        ended.update(call(composed, "GET", f"/v1/jobs/{job}?wait=60"))
        return ended["finished_at"] is not None

    eventually(has_ended, **PATIENT)
    assert (ended["status"], ended["attempt"]) == ("succeeded", 2), ended


def worker_of(composed: Composed, job_id: str) -> Any:
    """The replica that runs a job; its id begins with host and process."""
    request = Request(
        f"http://127.0.0.1:{composed.port('8000')}/v1/jobs/{job_id}/events",
        headers={"Authorization": f"Bearer {composed.admin_key}"},
    )
    with urlopen(request, timeout=60) as stream:
        for line in stream:
            if line.startswith(b"data: ") and b'"worker"' in line:
                worker_id = json.loads(line.removeprefix(b"data: "))["worker"]
                pid = int(worker_id.split("-")[-2])
                return next(each for each in composed.running if each.process.pid == pid)
    raise AssertionError("no attempt was started")


def test_a_dask_cluster_reads_the_files_where_its_profile_is_on(composed: Composed) -> None:
    (ingest,) = [each for each in composed.running if each.service == "ingest"]
    ingest.process.terminate()
    ingest.process.wait(timeout=60)
    composed.running.remove(ingest)
    composed.say(PEEWIT_SCHEDULER="tcp://scheduler:8786")
    composed.start("scheduler")
    composed.start("dask-worker", "dask-worker", "ingest")
    path = composed.directory / "edges" / "fourth.parquet"
    pq.write_table(pa.table({"src": [1, 2, 3], "dst": [2, 3, 4]}), path)
    call(composed, "POST", "/v1/graphs", {"name": "by-dask", "node_ids": "int64"})
    call(composed, "POST", "/v1/graphs/by-dask/sources", {"url": composed.inside(path)})
    eventually(lambda: graph(composed, "by-dask")["edges_seen"] == 3, **PATIENT)
    metrics = f"http://127.0.0.1:{composed.port('8787')}/metrics"
    with urlopen(metrics, timeout=60) as answer:
        families = [*text_string_to_metric_families(answer.read().decode())]
    (states,) = [each for each in families if each.name == "dask_scheduler_prefix_state_totals"]
    assert sum(each.value for each in states.samples if each.labels["state"] == "memory") >= 1


def test_all_of_them_stop_within_the_time_that_they_have(composed: Composed) -> None:
    """The last test of the module."""
    began = time.monotonic()
    taken = composed.stop_all()
    for name, took in taken.items():
        assert took < seconds(composed.services[name].get("stop_grace_period", "10s")), name
    assert time.monotonic() - began < 60
    for each in composed.running:
        if each.service in {"api", "ingest", "worker", "postgres"}:
            assert each.process.returncode == 0, each.service
