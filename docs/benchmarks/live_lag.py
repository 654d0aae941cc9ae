"""How long until what a live source tells is in a snapshot, and in a prediction?

`peewit serve` follows a topic (librdkafka's mock cluster, in the process that writes) or a Delta
table of its own disk, into a labeled graph of communities with `auto_solve`. Edges come at a steady
rate, one in a message, in batches; in a table each batch is a version.
The last edge of each batch is marked. A snapshot holds it that has seen as many edges as were
written up to it. Printed are the seconds from its writing to the first such snapshot, and to the
end of the first job that solved on such a snapshot: medians, 99th percentiles, the longest.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import psutil
import pyarrow as pa
from deltalake import write_deltalake

from docs.benchmarks.frame import CONSOLE, options
from docs.benchmarks.load import cpu_seconds, prepare
from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database, open_database
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.job import JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore
from tests.end_to_end.processes import Home, Server, eventually
from tests.service.live_sources.topics import mock_cluster

PAUSE_SECONDS: Final = {"kafka": 0.05, "delta": 1.0}
"""Between two batches, unless another is asked for."""

LOOK_SECONDS: Final = 0.01
LEAST_ROUNDS: Final = 5
"""Of a solve on new edges before the clock runs: the first ones compile and load."""

Send = Callable[[pa.Table], None]


class Moment(NamedTuple):
    """How many edges were there at a time, in seconds since the epoch."""

    at: float
    n_edges: int


class SnapshotClock:
    """Notes when each snapshot is published and how many edges it has seen."""

    def __init__(self, store: SnapshotStore) -> None:
        self.published: dict[int, Moment] = {}
        self._store = store
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def n_edges(self) -> int:
        return max(each.n_edges for each in self.published.values())

    def _watch(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        number = self._store.numbers()[-1]
        if number not in self.published:
            now = time.time()
            self.published[number] = Moment(now, self._store.meta(number).edges_seen)


@contextmanager
def opened_source(kind: str, directory: Path) -> Iterator[tuple[str, Send]]:
    """A source without edges: its address, and what writes some to it."""
    if kind == "delta":
        url = str(directory / "table")
        empty = pa.table({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64())})
        write_deltalake(url, empty)
        yield url, lambda edges: write_deltalake(url, edges, mode="append")
        return
    with mock_cluster() as cluster:
        url = cluster.create("edges")

        def send(edges: pa.Table) -> None:
            cluster.send("edges", [json.dumps(row).encode() for row in edges.to_pylist()])

        yield url, send


class Writer:
    def __init__(self, directory: Path, send: Send, *, n_before: int) -> None:
        self.marks: list[Moment] = []
        self._ids = np.load(directory / "nodes.npy")
        self._classes = np.load(directory / "classes.npy")
        self._send = send
        self._n_edges = n_before
        self._rng = np.random.default_rng(2)

    def write(self, n_edges: int) -> None:
        """One batch; its mark is the moment before it was sent."""
        size = int(np.count_nonzero(self._classes == 0))
        u = self._rng.integers(0, self._ids.size, n_edges)
        v = u // size * size + (u % size + self._rng.integers(1, size, n_edges)) % size
        edges = pa.table({"src": self._ids[u], "dst": self._ids[v]})
        self._n_edges += n_edges
        self.marks.append(Moment(time.time(), self._n_edges))
        self._send(edges)

    def write_for(self, seconds: float, pause: float, per_batch: int) -> float:
        """Batches at their times; how late the latest began."""
        began, latest = time.monotonic(), 0.0
        for number in range(round(seconds / pause)):
            due = began + number * pause
            time.sleep(max(0.0, due - time.monotonic()))
            latest = max(latest, time.monotonic() - due)
            self.write(per_batch)
        return latest


def lags(marks: list[Moment], reached: list[Moment]) -> list[float]:
    """Seconds from each mark to the first moment at which as many edges were there."""
    n_edges = np.maximum.accumulate([each.n_edges for each in reached])
    first = np.searchsorted(n_edges, [each.n_edges for each in marks])
    at = np.array([each.at for each in reached])
    return list(at[first] - [each.at for each in marks])


class Solve(NamedTuple):
    """An automatic job that succeeded: when it ended, what it knew, and its seconds."""

    ended: Moment
    waited: float
    ran: float


def solves(database: Database, graph: GraphRecord, clock: SnapshotClock) -> list[Solve]:
    """Jobs on snapshots whose publication was seen, the earliest to end first."""
    found, page = [], None
    queue = JobQueue(database)
    while True:
        listed = queue.list(graph_id=graph.id, status=JobStatus.SUCCEEDED, limit=1000, page=page)
        for job in listed.jobs:
            if job.snapshot in clock.published and job.started_at and job.finished_at:
                ended = job.finished_at.timestamp()
                n_edges = clock.published[job.snapshot].n_edges
                found.append(
                    Solve(
                        Moment(ended, n_edges),
                        (job.started_at - job.created_at).total_seconds(),
                        ended - job.started_at.timestamp(),
                    )
                )
        if (page := listed.next_page) is None:
            return sorted(found)


def cpu_of_roles(server: Server) -> dict[str, float]:
    """User and system seconds of each role with all that it started."""
    return {role: cpu_seconds(process.pid) for role, process in server.roles().items()}


def measure(directory: Path, asked: argparse.Namespace) -> None:
    """Write to a source that a server follows, and print how far behind it is."""
    home = Home(
        directory / "home", PEEWIT_LOG_LEVEL="warning", PEEWIT_LIST_SECONDS=str(asked.list_seconds)
    )
    settings = Settings(home=home.directory)
    database = open_database(settings.database)
    graph = Catalog(database).get("g")
    manifest = Manifest(database)
    store = SnapshotStore(GraphPaths(root=settings.graphs_directory / graph.id).snapshots)
    pause = asked.pause or PAUSE_SECONDS[asked.kind]
    per_batch = max(1, round(asked.rate * pause))
    with opened_source(asked.kind, directory) as (url, send):
        try:
            home.run("source", "add", "g", url, "--kind", asked.kind, "--follow")
            server = Server(home)
            server.client.update_graph("g", auto_solve={"model": asked.model})
            with SnapshotClock(store) as clock:
                writer = Writer(directory, send, n_before=clock.n_edges())

                def is_settled() -> bool:
                    found = solves(database, graph, clock)
                    return bool(found) and found[-1].ended.n_edges >= writer.marks[-1].n_edges

                for _ in range(LEAST_ROUNDS):
                    writer.write(max(per_batch, asked.before // LEAST_ROUNDS))
                    eventually(is_settled, seconds=asked.patience)
                writer.marks.clear()
                before = cpu_of_roles(server)
                late = writer.write_for(asked.seconds, pause, per_batch)
                used = cpu_of_roles(server)
                eventually(is_settled, seconds=asked.patience)
                published = sorted(clock.published.values())
                found = solves(database, graph, clock)
        finally:
            home.end()
    (source,) = (each for each in manifest.sources.list(graph.id) if each.is_live)
    database.close()
    began = writer.marks[0].at
    show("edges", f"{per_batch:,} each {pause:g} s")
    show("marks, the latest written late by", f"{len(writer.marks):,}, {late:.2f} s")
    found = [each for each in found if each.ended.at > began]
    show(
        f"until one of {sum(each.at > began for each in published)} snapshots",
        spread(lags(writer.marks, published)),
    )
    show(
        f"until one of {len(found)} predictions",
        spread(lags(writer.marks, [each.ended for each in found])),
    )
    show("  a solve waits", spread([each.waited for each in found]))
    show("  and runs", spread([each.ran for each in found]))
    for role, seconds_used in used.items():
        share = (seconds_used - before[role]) / asked.seconds
        show(f"CPU of {role}", f"{share:.2f} of a core")
    show("load of the machine, refused", f"{psutil.getloadavg()[0]:.1f}, {source.n_refused}")


def spread(seconds: list[float]) -> str:
    p50, p99, longest = np.percentile(seconds, [50, 99, 100])
    return f"p50 {p50:5.2f} s   p99 {p99:5.2f} s   longest {longest:5.2f} s"


def show(what: str, told: str) -> None:
    CONSOLE.print(f"{what:<36}{told}")


def main() -> None:
    asked = options(
        __doc__,
        kind=("kafka", PAUSE_SECONDS),
        rate=2_000.0,
        pause=(float, "seconds between batches"),
        seconds=150.0,
        nodes=20_000,
        before=(0, "edges written before the clock runs"),
        model="auto",
        list_seconds=2.0,
        patience=120.0,
    )
    with tempfile.TemporaryDirectory(prefix="peewit-lag-") as made:
        directory = Path(made) / "lag"
        prepare(directory, asked.nodes)
        measure(directory, asked)


if __name__ == "__main__":
    main()
