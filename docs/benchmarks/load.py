"""A million nodes served: lookups, labels and downloads, idle, beside a solve and beside an ingest.

Real processes on SQLite: `peewit api --workers 2`, a worker, and a generator of requests beside
them, which takes its share of the same processors (see `load_generator`). Printed, idle, during a
solve, and during an ingest of 300 M edges (3.3 GB of files, made first): single lookups per second
with the CPU time each takes the API and the 50th and 99th percentile of their milliseconds, batches
of 1,000 nodes, puts of one label;
then whole downloads, a million labels in one request, the time from the put of a label to its
prediction (`auto_solve` with --model), how long a cancel takes, and how the API's own memory moved.
A home that --home names is made once and used again.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks.communities import Communities
from docs.benchmarks.frame import CONSOLE, options, wall_of
from peewit.service.catalog import Catalog
from peewit.service.client import Client
from peewit.service.database.engine import open_database
from peewit.service.jobs.job import JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.predictions.prediction_files import PredictionMeta, write_predictions
from peewit.service.predictions.store import PredictionStore
from peewit.service.settings import Settings
from peewit.solvers.arrays import Int64Array
from tests.end_to_end.processes import Home, Server, descendants, kill_tree

N_CLASSES: Final = 10
N_CHORDS: Final = 4
N_CHANGES: Final = 9
BULK_ROWS: Final = 10_000_000
MODEL: Final = "harmonic-mbo"
INGESTED_EDGES: Final = 300_000_000
START_SECONDS: Final = 3.0
SKIPPABLE: Final = ("ingest", "bulk", "labels", "freshness")


def communities(n_nodes: int) -> tuple[pa.Table, Int64Array, Int64Array]:
    """Ten rings with chords and a few edges between them; the ids, and the class of each."""
    rng = np.random.default_rng(0)
    size = n_nodes // N_CLASSES
    node = np.arange(n_nodes)
    first = node // size * size
    u = [node] * (1 + N_CHORDS) + [rng.integers(0, n_nodes, n_nodes // 20)]
    v = [first + (node - first + 1) % size]
    v += [first + rng.integers(0, size, n_nodes) for _ in range(N_CHORDS)]
    v += [rng.integers(0, n_nodes, n_nodes // 20)]
    src, dst = np.concatenate(u), np.concatenate(v)
    ids = rng.permutation(np.arange(n_nodes) * 7 + 10**9)
    differ = src != dst
    return pa.table({"src": ids[src[differ]], "dst": ids[dst[differ]]}), ids, node // size


def prepare(directory: Path, n_nodes: int) -> None:
    """A graph that is ingested, labeled and solved, and the ids of its nodes beside it."""
    edges, ids, classes = communities(n_nodes)
    directory.mkdir(parents=True)
    pq.write_table(edges, directory / "edges.parquet", row_group_size=1 << 20)
    np.save(directory / "nodes.npy", ids)
    np.save(directory / "classes.npy", classes)
    home = Home(directory / "home", PEEWIT_LOG_LEVEL="warning")
    home.run("warm")
    home.run(
        *("graph", "create", "g", "--node-ids", "int64", "--expected-nodes", n_nodes, "--seed", 0)
    )
    home.run("ingest", "g", directory / "edges.parquet")
    drawn = np.random.default_rng(1).choice(n_nodes, 20 * N_CLASSES, replace=False)
    labels = [f"class-{each}" for each in classes[drawn]]
    pq.write_table(pa.table({"node": ids[drawn], "label": labels}), directory / "labels.parquet")
    home.run("labels", "put", "g", directory / "labels.parquet")
    home.run("solve", "g", "--model", MODEL)


@contextmanager
def home_of(kept: Path | None, n_nodes: int) -> Iterator[Path]:
    """A directory with a prepared home, made unless it is there, for a while where none is told."""
    with tempfile.TemporaryDirectory(prefix="peewit-load-") as made:
        directory = kept or Path(made) / "load"
        if not directory.exists():
            prepare(directory, n_nodes)
        yield directory


def tell(what: str, told: str) -> None:
    CONSOLE.print(f"{what:<44} {told}", markup=False, soft_wrap=True)


def generated(server: Server, nodes: Path, kind: str, n_connections: int, seconds: float) -> None:
    command = [sys.executable, "-m", "docs.benchmarks.load_generator"]
    command += [str(server.port), str(nodes), kind]
    command += ["--graph", "puts" if kind == "put" else "g"]
    command += ["--connections", str(n_connections), "--seconds", str(seconds)]
    before = cpu_seconds(server.process.pid)
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60 + 2 * seconds
    )
    figures = json.loads(done.stdout.splitlines()[-1])  # the first one tells threads
    used = cpu_seconds(server.process.pid) - before
    each = 1e3 * used / sum(figures["statuses"].values())
    tell(
        f"  {kind}, {n_connections} connections",
        f"{figures['per_second']:7.0f}/s   {each:5.2f} CPU ms of the API each   "
        f"p50 {figures['p50_ms']:6.2f} ms   p99 {figures['p99_ms']:6.2f} ms   "
        f"longest {figures['longest_ms']:.0f} ms   {figures['statuses']}",
    )


def cpu_seconds(pid: int) -> float:
    """Processor seconds of a process and of those below it."""
    total = 0.0
    for one in [psutil.Process(pid), *descendants(pid)]:
        try:
            total += sum(one.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue  # one ended in between
    return total


def measure_requests(server: Server, nodes: Path, seconds: float) -> None:
    generated(server, nodes, "single", 8, seconds)
    generated(server, nodes, "batch", 1, seconds)
    generated(server, nodes, "put", 1, seconds)


@contextmanager
def endless_solve(client: Client) -> Iterator[None]:
    asked = {"graph_penalty": 1e6, "rtol": 1e-14, "max_iter": 100_000}
    job = client.submit_solve("g", "stable-hfs", asked)
    while client.job(job.id).phase not in {"solving", "conjugate gradients"}:
        time.sleep(0.1)
    yield
    assert client.job(job.id).status == "running"
    began = time.perf_counter()
    client.cancel(job.id)
    while not client.job(job.id).is_final:
        time.sleep(0.01)
    tell("cancel of a running solve", f"{time.perf_counter() - began:.2f} s")


@contextmanager
def long_ingest(home: Home, directory: Path, n_nodes: int) -> Iterator[None]:
    Communities(n_nodes=n_nodes, n_edges=INGESTED_EDGES).write(directory)
    home.run("graph", "create", "stream", "--node-ids", "dense", "--expected-nodes", n_nodes)
    process = home.start("ingest", "stream", directory, stderr=subprocess.DEVNULL)
    time.sleep(START_SECONDS)
    began, before = time.perf_counter(), cpu_seconds(process.pid)
    yield
    assert process.poll() is None, "the ingest has ended"
    used, took = cpu_seconds(process.pid) - before, time.perf_counter() - began
    tell("of the two processors, the ingest had", f"{used / took:.2f}")
    kill_tree(process.pid)
    process.wait()


def download(port: int, query: str) -> int:
    """Read a whole table and throw it away; its bytes."""
    command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}"]
    url = f"http://127.0.0.1:{port}/v1/graphs/{query}"
    done = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    return int(done.stdout)


def prediction_meta(**told: Any) -> PredictionMeta:
    """Of made-up predictions by the first labels of a first snapshot, unless told otherwise."""
    usual = {"parameters": {}, "snapshot": 1, "labels_seq": 1, "features_version": 0}
    usual |= {"epsilon_asked": 0.7, "epsilon_expected": 0.5, "solver_status": "converged"}
    return PredictionMeta(**(usual | {"score": "class score"} | told))


def publish(home: Home, name: str, nodes: pa.Array) -> None:
    """A graph whose predictions are made up, in a file as a worker writes it."""
    kind = "string" if pa.types.is_large_string(nodes.type) else "int64"
    home.run("graph", "create", name, "--node-ids", kind)
    settings = Settings(home=home.directory, database_url=None)
    database = open_database(settings.database)
    try:
        graph = Catalog(database).get(name)
        queue = JobQueue(database)
        submitted = queue.submit(JobSpec(graph_id=graph.id, model=MODEL, parameters={}))
        job = queue.claim("benchmark", ("fast",), job_id=submitted.id)
        assert job is not None
        queue.capture(job.id, job.attempt, snapshot=1, labels_seq=1, features_version=0)
        scores = np.random.default_rng(0).random((len(nodes), 2))
        path = write_predictions(
            PredictionStore(database, settings.graphs_directory).directory(graph.id),
            prediction_meta(
                graph_id=graph.id,
                job_id=job.id,
                attempt=job.attempt,
                model=MODEL,
                class_names=("spam", "ham"),
            ),
            nodes=nodes,
            scores=scores,
            reachable=np.ones(len(nodes), dtype=bool),
        )
        queue.finish(job.id, job.attempt, {"file": path.name, "status": "converged"})
    finally:
        database.close()


def measure_downloads(home: Home, port: int) -> None:
    tables = {
        f"{BULK_ROWS:,} rows with int64 ids": pa.array(np.arange(BULK_ROWS) * 3),
        "1,000,000 rows with string ids": pa.array(
            [f"user-{number:08}" for number in range(1_000_000)], pa.large_string()
        ),
    }
    for number, (what, nodes) in enumerate(tables.items()):
        publish(home, f"bulk-{number}", nodes)
        for shown in ("arrow", "parquet", "csv"):
            query = f"bulk-{number}/predictions?format={shown}"
            n_bytes = download(port, query)
            took = min(wall_of(download, port, query)[1] for _ in range(3))
            tell(f"download of {what}", f"{shown:<8} {n_bytes / 2**20:6.0f} MiB in {took:.2f} s")


def measure_labels(client: Client, directory: Path) -> None:
    ids, classes = np.load(directory / "nodes.npy"), np.load(directory / "classes.npy")
    table = pa.table({"node": ids, "label": classes})
    receipt, took = wall_of(client.put_labels, "puts", table)
    tell(f"{receipt.accepted:,} labels in one request", f"{took:.1f} s")


def measure_freshness(client: Client, directory: Path, model: str) -> None:
    """From the put of a label to its prediction, after a while of rest."""
    ids, classes = np.load(directory / "nodes.npy"), np.load(directory / "classes.npy")
    client.update_graph("g", auto_solve={"model": model})
    rng = np.random.default_rng(client.graph("g").labels_seq)  # in every run other nodes
    took = []
    for change in range(1 + N_CHANGES):
        drawn = int(rng.integers(len(ids)))
        node = int(ids[drawn])
        began = time.perf_counter()
        receipt = client.put_labels("g", {node: f"class-{classes[drawn]}"})
        while (found := client.prediction("g", node)).labels_seq < receipt.labels_seq:
            time.sleep(0.03)
        seconds = time.perf_counter() - began
        job = client.job(found.job)
        tell(
            "from a label to its prediction" if change else "the same, the first time",
            f"{seconds:.2f} s  {job.result and job.result['seconds']}",
        )
        if change:
            took.append(seconds)
        time.sleep(3.0)
    tell("from a label to its prediction, p50", f"{np.median(took):.2f} s")
    client.update_graph("g", auto_solve=None)


def own_mib(process: subprocess.Popen[str]) -> float:
    """Memory of a process and those below it, without the files that are mapped into it."""
    each = [psutil.Process(process.pid), *descendants(process.pid)]
    told = [one.memory_info() for one in each]
    return sum(one.rss - one.shared for one in told) / 2**20


def measure(directory: Path, seconds: float, model: str, skipped: list[str]) -> None:
    home = Home(directory / "home")
    nodes = directory / "nodes.npy"
    try:
        names = [graph["settings"]["name"] for graph in home.json("graph", "list")]
        for name in ("puts", "stream", "bulk-0", "bulk-1"):
            if name in names:
                home.run("graph", "delete", name, "--yes")
        home.run("graph", "create", "puts", "--node-ids", "int64", "--expected-nodes", 10**6)
        home.run("ingest", "puts", directory / "edges.parquet")
        server = Server(home, "api", "--workers", "2", stderr=subprocess.DEVNULL)
        home.start("worker", stderr=subprocess.DEVNULL)
        client = Client(server.url, timeout_seconds=300.0)
        for kind in ("single", "put"):  # the first of each process builds its index
            generated(server, nodes, kind, 8, 2.0)
        before = own_mib(server.process)
        tell("idle", "")
        measure_requests(server, nodes, seconds)
        with endless_solve(client):
            tell("while a solve runs", "")
            measure_requests(server, nodes, seconds)
        if "ingest" not in skipped:
            n_nodes = np.load(nodes, mmap_mode="r").size
            with long_ingest(home, directory / "stream", n_nodes):
                tell("while an ingest runs", "")
                measure_requests(server, nodes, seconds)
        if "bulk" not in skipped:
            measure_downloads(home, server.port)
        tell("memory of the API, MiB", f"{before:.0f} before, {own_mib(server.process):.0f} now")
        if "freshness" not in skipped:
            measure_freshness(client, directory, model)
        if "labels" not in skipped:
            measure_labels(client, directory)
    finally:
        home.end()


def main() -> None:
    asked = options(
        __doc__,
        nodes=1_000_000,
        seconds=10.0,
        model=(MODEL, "of auto_solve"),
        home=Path,
        skip=([str], SKIPPABLE),
    )
    with home_of(asked.home, asked.nodes) as directory:
        measure(directory, asked.seconds, asked.model, asked.skip or [])


if __name__ == "__main__":
    main()
