"""What does a dask cluster cost, move and change, beside threads, and what does a killed worker?

The same files go through the stream in two threads, through clusters of one, two and four worker
processes of one thread, and through two of which one is killed on the way: CPU seconds of this
process (client and scheduler) and of each worker, MB that they send, and what each kind of task
takes. Then a product with the Laplacian of the raw edges, as passes of certificates and exact
answers are made of. The last table compares spectral errors over seeds, by dense algebra. It fails
where answers that must be equal are not; products must be equal in threads and on workers, too.
"""

import hashlib
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

from docs.benchmarks.communities import Communities
from docs.benchmarks.frame import CONSOLE, Figures, options, show
from docs.benchmarks.streams import ingested, newest, newest_meta, opened
from docs.benchmarks.traffic import Traffic
from peewit.solvers.arrays import AnyArray
from peewit.solvers.graph import Graph
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Progress
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.raw_edge_passes import snapshot_edges
from peewit.streaming.snapshots.store import Snapshot
from tests.reference.spectrum import spectral_error

EPSILON = 0.7
N_VECTORS = 4
WORKERS = 1, 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass over the files: its costs, and the snapshot at its end."""

    meter: "Meter"
    snapshot: Snapshot

    @property
    def digest(self) -> str:
        """Of its edges; equal digests mean equal edges."""
        return digest_of(*self.snapshot.graph.edges())


@dataclass(slots=True, kw_only=True)
class Killer:
    """Kills one worker in the middle of the second half of the files."""

    cluster: LocalCluster
    n_rows: int
    seen: int = 0
    killed: list[int] = field(default_factory=list)

    def __call__(self, event: IngestEvent) -> None:
        if isinstance(event, Progress):
            self.seen += event.n_rows
            if not self.killed and self.seen >= self.n_rows / 2:
                pid = next(iter(self.cluster.workers.values())).pid
                self.killed.append(pid)
                threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()


@contextmanager
def cluster_of(n_workers: int) -> Iterator[LocalCluster]:
    """Cluster of worker processes with one thread each."""
    with LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        memory_limit=None,
        silence_logs=logging.ERROR,  # losing a worker is what is shown here
    ) as cluster:
        yield cluster


class Meter:
    """Seconds of this process and of workers, and bytes between them, from entry to exit."""

    def __init__(self, cluster: LocalCluster | None, *, is_whole: bool = True) -> None:
        self._pids = [] if cluster is None else [each.pid for each in cluster.workers.values()]
        self._client = Client(cluster) if cluster is not None and is_whole else None
        self.sent_bytes: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to count, once more where that was done before."""
        self._traffic = None if self._client is None else Traffic(self._client)
        self._before = {pid: _cpu_seconds(pid) for pid in (os.getpid(), *self._pids)}
        self._started = time.perf_counter()

    def stop(self) -> None:
        self.wall_seconds = time.perf_counter() - self._started
        self.own_seconds = _cpu_seconds(os.getpid()) - self._before[os.getpid()]
        living = [pid for pid in self._pids if psutil.pid_exists(pid)]
        self.worker_seconds = tuple(_cpu_seconds(pid) - self._before[pid] for pid in living)
        if self._client is not None and self._traffic is not None:
            self.sent_bytes = self._traffic.read()
            self._client.close()


def digest_of(*arrays: AnyArray) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def run(
    directory: Path,
    settings: dict[str, Any],
    cluster: LocalCluster | None,
    on_event: Callable[[IngestEvent], None] | None = None,
) -> Run:
    scheduler = cluster.scheduler_address if cluster else None
    more = {"n_threads": 2, "scheduler": scheduler, "checkpoint_seconds": 1e9}
    with tempfile.TemporaryDirectory() as home:
        with Meter(cluster, is_whole=not isinstance(on_event, Killer)) as meter:
            stream = opened(Path(home), on_event, **settings, **more)
            stream.ingest(EdgeFiles(directory).list())
        return Run(meter=meter, snapshot=newest(Path(home)))


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


COSTS = "CPU s here {:.1f}|CPU s of workers|MB sent here {:.1f}|MB sent by workers {:.1f}"
TASKS, TASK_COLUMNS = "tasks of one worker", "|tasks {:.0f}|s {:.2f}"


def compare_runs(directory: Path, graph: Communities) -> None:
    """Show the four ways, and the tasks of one worker."""
    settings = {"epsilon": EPSILON, "expected_nodes": graph.n_nodes}
    warm_up(settings)
    runs = {"2 threads": run(directory, settings, None)}
    for n_workers in WORKERS:
        name = f"{n_workers} worker{'s' * (n_workers > 1)}"
        with cluster_of(n_workers) as cluster:
            warm_up(settings, cluster)
            before = task_sums(cluster)
            runs[name] = run(directory, settings, cluster)
            if n_workers == 1:
                tasks = tasks_since(before, cluster)
    with cluster_of(2) as cluster:
        warm_up(settings, cluster)
        killer = Killer(cluster=cluster, n_rows=graph.n_edges)
        runs["2 workers, 1 killed"] = run(directory, settings, cluster, killer)
    require_equal(one.digest for name, one in runs.items() if "worker" in name)
    columns = f"|s {{:.1f}}|{COSTS}|M edges/s {{:.2f}}|kept {{:,}}|expected {{:.3f}}|digest"
    title = f"{graph.n_edges:,} edges, {graph.n_nodes:,} nodes, epsilon {EPSILON}"
    rows = (
        (
            *(name, one.meter.wall_seconds, *costs(one.meter)),
            *(graph.n_edges / one.meter.wall_seconds / 1e6, one.snapshot.graph.n_edges),
            *(one.snapshot.meta.epsilon_expected, one.digest),
        )
        for name, one in runs.items()
    )
    show(title, columns, rows)
    show(TASKS, TASK_COLUMNS, tasks)


def require_equal(digests: Iterable[str]) -> None:
    found = set(digests)
    if len(found) > 1:
        raise RuntimeError(f"all must give equal answers, got digests {found}")


def costs(one: Meter) -> tuple[Any, ...]:
    sent = ("", "") if one.sent_bytes is None else (each / 1e6 for each in one.sent_bytes)
    workers = " ".join(f"{seconds:.1f}" for seconds in one.worker_seconds)
    return one.own_seconds, workers, *sent


def task_sums(cluster: LocalCluster) -> dict[str, tuple[int, float]]:
    """Number and seconds of all tasks that were done, by function."""
    return {
        name: (each.state_counts["memory"], each.all_durations["compute"])
        for name, each in cluster.scheduler.task_prefixes.items()
    }


def tasks_since(before: dict[str, Any], cluster: LocalCluster) -> list[tuple[Any, ...]]:
    """Function, number and seconds of the tasks that were done since."""
    return [
        (name, *np.subtract(sums, before.get(name, (0, 0))))
        for name, sums in task_sums(cluster).items()
    ]


def warm_up(settings: dict[str, Any], cluster: LocalCluster | None = None) -> None:
    """Load code and compiled kernels into every process."""
    with tempfile.TemporaryDirectory() as directory:
        Communities(n_nodes=2_000, n_edges=400_000).write(Path(directory))
        run(Path(directory), settings, cluster)


def compare_passes(directory: Path, graph: Communities, home: Path) -> None:
    ingested(home, directory, epsilon=EPSILON, expected_nodes=graph.n_nodes)
    paths, meta = GraphPaths(root=home), newest_meta(home)
    block = np.random.default_rng(0).standard_normal((graph.n_nodes, N_VECTORS))
    title = f"product with {N_VECTORS} vectors, {meta.n_files} files"
    table = Figures(title, f"|s {{:.2f}}|{COSTS}|tasks {{:.0f}}|digest")
    digests = []

    def row(name: str, cluster: LocalCluster | None, n_threads: int) -> None:
        scheduler = None if cluster is None else cluster.scheduler_address
        with snapshot_edges(
            paths,
            meta,
            spool=home / "spool",
            staging=paths.staging,
            n_threads=n_threads,
            scheduler=scheduler,
        ) as edges:
            edges.open()
            edges.laplacian_product(block)  # compiled, and the files in memory
            before = {} if cluster is None else task_sums(cluster)
            with Meter(cluster) as meter:
                product = edges.laplacian_product(block)
        digests.append(digest_of(product))
        done = (
            {} if cluster is None else {each[0]: each[1] for each in tasks_since(before, cluster)}
        )
        table.add(
            *(name, meter.wall_seconds, *costs(meter), done.get("fold_here", "")), digests[-1]
        )

    for n_threads in (1, 2):
        row(f"{n_threads} thread{'s' * (n_threads > 1)}", None, n_threads)
    for n_workers in WORKERS:
        with cluster_of(n_workers) as cluster:
            row(f"{n_workers} worker{'s' * (n_workers > 1)}", cluster, 1)
    require_equal(digests)
    CONSOLE.print(table)


def compare_errors(directory: Path, n_nodes: int, n_seeds: int) -> None:
    """Show spectral errors over seeds: each seed draws a graph and its coins."""
    errors: dict[str, list[float]] = {"2 threads": [], "2 workers": []}
    n_edges = 0
    with cluster_of(2) as cluster:
        for seed in range(n_seeds):
            path = directory / f"{seed}"
            path.mkdir()
            u, v, weight = two_communities(n_nodes, seed)
            n_edges = u.size
            table = pa.table({"src": u, "dst": v, "weight": weight})
            pq.write_table(table, path / "edges.parquet", row_group_size=8_192)
            full = Graph.from_edges(u, v, weight, n_nodes=n_nodes)
            settings = {"epsilon": EPSILON, "seed": seed, "expected_nodes": n_nodes}
            for name, there in (("2 threads", None), ("2 workers", cluster)):
                graph = run(path, settings, there).snapshot.graph
                errors[name].append(spectral_error(full, graph))
    title = f"two communities, 6 edges between them: {n_nodes:,} nodes, about {n_edges:,} edges"
    show_errors(title, errors)


def show_errors(title: str, errors: dict[str, list[float]]) -> None:
    columns = "|least {:.3f}|mean {:.3f}|greatest {:.3f}|within {}/{}"
    rows = []
    for name, found in errors.items():
        within = sum(error <= EPSILON for error in found), len(found)
        rows.append((name, min(found), float(np.mean(found)), max(found), within))
    show(f"{title}, {len(found)} seeds, error asked {EPSILON}", columns, rows)


def two_communities(n_nodes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends and weights of the edges of two dense halves that few edges join."""
    rng = np.random.default_rng(seed)
    half = n_nodes // 2
    u, v = np.triu_indices(n_nodes, 1)
    inside = ((u < half) == (v < half)) & (rng.random(u.size) < 0.8)
    u = np.concatenate([u[inside], rng.integers(0, half, 6)])
    v = np.concatenate([v[inside], rng.integers(half, n_nodes, 6)])
    order = rng.permutation(u.size)
    return u[order], v[order], rng.uniform(0.5, 2.0, u.size).astype(np.float32)


def main() -> None:
    asked = options(
        __doc__,
        quick={"nodes": 4_000, "edges": 4_000_000, "seeds": 3},
        dir=(Path, "keeps the files; a temporary one if left out"),
        edges=40_000_000,
        nodes=20_000,
        seeds=10,
    )
    graph = Communities(n_nodes=asked.nodes, n_edges=asked.edges)
    with tempfile.TemporaryDirectory() as temporary:
        directory = asked.dir or Path(temporary) / "edges"
        graph.write(directory)
        compare_runs(directory, graph)
        compare_passes(directory, graph, Path(temporary) / "home")
        compare_errors(Path(temporary), 400 if asked.quick else 1_000, asked.seeds)


if __name__ == "__main__":
    main()
