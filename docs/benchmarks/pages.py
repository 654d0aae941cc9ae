"""How long do the pages of the dashboard take on a large graph, and what does looking cost?

A home with a graph of a million nodes and five edges a node, ingested, 1,000 labels, two files of
predictions and an embedding (random points: to find the right ones is another job) is served by
`peewit api`, and every page and piece asked for a few times: the first answer apart, then the
median and the slowest. Then the pieces of one open page are asked for again and again, as a browser
does every two seconds: processor time of the server for one such look, as a share of a core.
"""

import tempfile
from pathlib import Path
from statistics import median

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks.frame import options, show, wall_of
from docs.benchmarks.load import prediction_meta
from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.job import LANES, JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.predictions.prediction_files import write_predictions
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.node_embedding import (
    N_PROBES_LARGE,
    EmbeddingMeta,
    EmbeddingStore,
    NodeEmbedding,
)
from tests.end_to_end.processes import Home, Server

N_CLASSES = 10
EDGES_PER_NODE = 5
LOOK_SECONDS = 2.0
"""How often an open page asks for its pieces."""

_NODES_AT_ONCE = 1 << 20

PAGES = (
    "/",
    "/jobs",
    "/models",
    "/graphs/g",
    "/graphs/g/labels",
    "/graphs/g/labels/counts",
    "/graphs/g/predictions",
    "/graphs/g/predictions?label=3&margin_below=0.0001",
    "/graphs/g/predictions/summary",
    "/graphs/g/node?id=77",
    "/graphs/g/label-next",
    "/graphs/g/label-next/card?strategy=margin",
    "/graphs/g/label-next/card?strategy=coverage",
    "/graphs/g/jobs",
)
PIECES = {
    "graphs": ["/"],
    "graph": ["/graphs/g/live", "/graphs/g/growth"],
    "labels": ["/graphs/g/labels/counts"],
    "predictions": ["/graphs/g/predictions/summary"],
    "label next": ["/graphs/g/label-next/effect"],
    "jobs": ["/graphs/g/jobs"],
}


def fill(home: Home, n_nodes: int) -> None:
    """A graph with all that the pages show, written by the stores."""
    settings = Settings(home=home.directory, database_url=None, admin_key_file=None)
    home.directory.mkdir(parents=True)
    database = open_database(settings.database)
    rng = np.random.default_rng(0)
    edges = home.directory / "edges.parquet"
    with pq.ParquetWriter(edges, pa.schema([("src", pa.int64()), ("dst", pa.int64())])) as writer:
        for first in range(0, n_nodes, _NODES_AT_ONCE):
            u = np.repeat(np.arange(first, min(first + _NODES_AT_ONCE, n_nodes)), EDGES_PER_NODE)
            v = (u + rng.integers(1, 1000, u.size)) % n_nodes
            writer.write_table(pa.table({"src": u, "dst": v}))
    settings_of_graph = GraphSettings(name="g", node_ids="dense", seed=0, expected_nodes=n_nodes)
    graph_id = Catalog(database).create(settings_of_graph).id
    Manifest(database).sources.add(graph_id, str(edges))
    Ingestor(database, settings).ingest_graph(graph_id)
    paths = GraphPaths(root=settings.graphs_directory / graph_id)
    labels, queue = LabelStore(database), JobQueue(database)
    for number in range(2):
        nodes = [str(each) for each in range(500 * number, 500 * (number + 1))]
        labels.put(graph_id, nodes, [int(each) % N_CLASSES for each in nodes])
        queue.submit(JobSpec(graph_id=graph_id, model="stable-hfs", parameters={}))
        job = queue.claim("benchmark", LANES)
        assert job is not None
        seq = Catalog(database).get_by_id(graph_id).labels_seq
        queue.capture(job.id, job.attempt, snapshot=1, labels_seq=seq, features_version=0)
        path = write_predictions(
            paths.predictions,
            prediction_meta(
                graph_id=graph_id,
                job_id=job.id,
                attempt=job.attempt,
                model="stable-hfs",
                labels_seq=seq,
                class_names=tuple(range(N_CLASSES)),
            ),
            nodes=pa.array(np.arange(n_nodes)),
            scores=rng.random((n_nodes, N_CLASSES)),
            reachable=np.ones(n_nodes, bool),
        )
        result = {"file": path.name, "status": "converged", "n_labels_waiting": 0}
        queue.finish(job.id, job.attempt, result)
    EmbeddingStore(paths).publish(_embedding(n_nodes, rng))
    database.close()


def _embedding(n_nodes: int, rng: np.random.Generator) -> NodeEmbedding:
    meta = EmbeddingMeta(
        snapshot=1,
        n_nodes=n_nodes,
        edges_seen=EDGES_PER_NODE * n_nodes,
        n_coordinates=N_PROBES_LARGE,
        status="converged",
        preconditioner="none",
        n_iter=0,
    )
    points = rng.standard_normal((n_nodes, N_PROBES_LARGE), dtype=np.float32)
    return NodeEmbedding(meta=meta, points=points, component=np.zeros(n_nodes, np.int32))


def ask(client: httpx.Client, path: str, *, is_piece: bool = False) -> tuple[float, str]:
    headers = {"HX-Request": "true"} if is_piece else {}
    answer, seconds = wall_of(client.get, path, headers=headers)
    assert answer.status_code in {200, 204}, f"{path}: {answer.text}"
    return seconds, answer.text


def main() -> None:
    quick = {"nodes": 20_000, "times": 3}
    asked = options(__doc__, quick=quick, nodes=1_000_000, times=10)
    with tempfile.TemporaryDirectory(prefix="peewit-pages-") as directory:
        home = Home(Path(directory) / "home", PEEWIT_LOG_LEVEL="warning")
        try:
            fill(home, asked.nodes)
            server = Server(home, "api")
            with httpx.Client(base_url=server.url, timeout=60) as client:
                measure_pages(client, asked.times, asked.nodes)
                measure_looks(client, psutil.Process(server.process.pid))
        finally:
            home.end()


def measure_pages(client: httpx.Client, n_times: int, n_nodes: int) -> None:
    rows = []
    for path in PAGES:
        first, text = ask(client, path)
        rest = [ask(client, path)[0] for _ in range(n_times)]
        figures = (1000 * each for each in (first, median(rest), max(rest)))
        rows.append((path, *figures, len(text) / 1024))
    columns = "page|first {:.0f}|median {:.0f}|slowest {:.0f}|KiB {:.0f}"
    show(f"{n_nodes:,} nodes; ms", columns, rows)


def measure_looks(client: httpx.Client, process: psutil.Process) -> None:
    """Processor time of the pieces that an open page asks for."""
    rows = []
    for name, pieces in PIECES.items():
        n_looks = 50
        for path in pieces:
            ask(client, path, is_piece=True)
        before = sum(process.cpu_times()[:2])
        for _ in range(n_looks):
            for path in pieces:
                ask(client, path, is_piece=True)
        each = (sum(process.cpu_times()[:2]) - before) / n_looks
        rows.append((name, 1000 * each, each / LOOK_SECONDS))
    show("", "open page|ms of CPU each look {:.1f}|share of a core {:.2%}", rows)


if __name__ == "__main__":
    main()
