"""What does a dask cluster cost, move and change, beside threads, and what does a killed worker?

Run ``python -m docs.benchmarks.distributed`` or ``--quick``. The same files go through the stream
in two threads, through a cluster of one worker process and of two, and through two of which one is
killed on the way: CPU seconds of this process (client and scheduler) and of each worker, MB that
they send, and what each kind of task takes. Then a product with the Laplacian of the raw edges, as
passes of certificates and exact answers are made of. The last table compares spectral errors over
seeds, by dense algebra. It fails where answers that must be equal are not; products must be equal
in threads and on workers, too.
"""

import argparse
import hashlib
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster
from rich.console import Console
from rich.table import Table

from docs.benchmarks.communities import Communities
from docs.benchmarks.traffic import Traffic
from peewit.solvers.arrays import AnyArray
from peewit.solvers.graph import Graph
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Progress
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.passes.raw_edge_passes import snapshot_edges
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.reference.spectrum import spectral_error

EPSILON = 0.7
N_VECTORS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass over the files.

    Attributes
    ----------
    wall_seconds : float
    own_seconds, worker_seconds : float, tuple of float
        CPU seconds of this process and of each worker that lived to the end.
    sent_bytes : tuple of (int, int)
        By this process, and by all workers; none where a worker is killed.
    n_kept : int
        Edges of the snapshot.
    epsilon_expected : float
        Its expected error.
    digest : str
        Of its edges; equal digests mean equal edges.
    graph : Graph
        The snapshot.
    """

    wall_seconds: float
    own_seconds: float
    worker_seconds: tuple[float, ...]
    sent_bytes: tuple[int, int] | None
    n_kept: int
    epsilon_expected: float
    digest: str
    graph: Graph


@dataclass(slots=True, kw_only=True)
class Killer:
    """Kills one worker in the middle of the second half of the files."""

    cluster: LocalCluster
    n_rows: int
    seen: int = 0
    killed: list[int] = field(default_factory=list)

    def __call__(self, event: IngestEvent) -> None:
        """Count rows; start the clock once half of them have passed."""
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
        """Count up to now."""
        self.wall_seconds = time.perf_counter() - self._started
        self.own_seconds = _cpu_seconds(os.getpid()) - self._before[os.getpid()]
        living = [pid for pid in self._pids if psutil.pid_exists(pid)]
        self.worker_seconds = tuple(_cpu_seconds(pid) - self._before[pid] for pid in living)
        if self._client is not None and self._traffic is not None:
            self.sent_bytes = self._traffic.read()
            self._client.close()


def digest_of(*arrays: AnyArray) -> str:
    """Short digest of all bits."""
    digest = hashlib.blake2b(digest_size=6)
    for array in arrays:
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def run(
    directory: Path, settings: SparsifierSettings, cluster: LocalCluster | None, on_event: object
) -> Run:
    """Ingest a directory into a new graph, and publish."""
    stream_settings = StreamSettings(
        node_kind="dense",
        sparsifier=settings,
        n_threads=2,
        scheduler=cluster.scheduler_address if cluster else None,
        checkpoint_seconds=1e9,
    )
    with tempfile.TemporaryDirectory() as home:
        paths = GraphPaths(root=Path(home))
        with Meter(cluster, is_whole=not isinstance(on_event, Killer)) as meter:
            stream = Stream(paths, stream_settings, on_event=on_event)  # type: ignore[arg-type]
            summary = stream.ingest(EdgeFiles(directory).list())
        store = SnapshotStore(paths.snapshots)
        meta, graph = store.meta(summary.snapshot or 0), store.load(summary.snapshot or 0).graph
    return Run(
        wall_seconds=meter.wall_seconds,
        own_seconds=meter.own_seconds,
        worker_seconds=meter.worker_seconds,
        sent_bytes=meter.sent_bytes,
        n_kept=graph.n_edges,
        epsilon_expected=meta.epsilon_expected,
        digest=digest_of(*graph.edges()),
        graph=graph,
    )


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


COSTS = ("CPU s here", "CPU s of workers", "MB sent here", "MB sent by workers")


def _ignore(_event: IngestEvent) -> None:
    """Count nothing."""


def compare_runs(directory: Path, graph: Communities) -> tuple[Table, Table]:
    """Tables of the four ways, and of the tasks of one worker."""
    settings = SparsifierSettings(epsilon=EPSILON, expected_nodes=graph.n_nodes)
    warm_up(settings)
    runs = {"2 threads": run(directory, settings, None, _ignore)}
    tasks = Table(title="tasks of one worker")
    for n_workers in (1, 2):
        name = f"{n_workers} worker{'s' if n_workers > 1 else ''}"
        with cluster_of(n_workers) as cluster:
            warm_up(settings, cluster)
            before = task_sums(cluster)
            runs[name] = run(directory, settings, cluster, _ignore)
            if n_workers == 1:
                tasks = task_table(before, task_sums(cluster))
    with cluster_of(2) as cluster:
        warm_up(settings, cluster)
        killer = Killer(cluster=cluster, n_rows=graph.n_edges)
        runs["2 workers, 1 killed"] = run(directory, settings, cluster, killer)
    require_equal(one.digest for name, one in runs.items() if "worker" in name)
    table = Table(title=f"{graph.n_edges:,} edges, {graph.n_nodes:,} nodes, epsilon {EPSILON}")
    columns = ("s", *COSTS, "M edges/s", "kept", "expected", "digest")
    for heading in ("", *columns):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, one in runs.items():
        table.add_row(
            name,
            f"{one.wall_seconds:.1f}",
            *costs(one),
            f"{graph.n_edges / one.wall_seconds / 1e6:.2f}",
            f"{one.n_kept:,}",
            f"{one.epsilon_expected:.3f}",
            one.digest,
        )
    return table, tasks


def require_equal(digests: Iterable[str]) -> None:
    """Fail where answers differ."""
    found = set(digests)
    if len(found) > 1:
        raise RuntimeError(f"all must give equal answers, got digests {found}")


def costs(one: Run | Meter) -> tuple[str, str, str, str]:
    """The cells of `COSTS`."""
    sent = ("", "") if one.sent_bytes is None else (f"{each / 1e6:.1f}" for each in one.sent_bytes)
    workers = " ".join(f"{seconds:.1f}" for seconds in one.worker_seconds)
    return f"{one.own_seconds:.1f}", workers, *sent  # type: ignore[return-value]


def task_sums(cluster: LocalCluster) -> dict[str, tuple[int, float]]:
    """Number and seconds of all tasks that were done, by function."""
    return {
        name: (each.state_counts["memory"], each.all_durations["compute"])
        for name, each in cluster.scheduler.task_prefixes.items()
    }


def task_table(before: dict[str, Any], after: dict[str, Any]) -> Table:
    table = Table(title="tasks of one worker")
    for heading in ("", "tasks", "s"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, sums in after.items():
        number, seconds = np.subtract(sums, before.get(name, (0, 0)))
        table.add_row(name, f"{number:.0f}", f"{seconds:.2f}")
    return table


def warm_up(settings: SparsifierSettings, cluster: LocalCluster | None = None) -> None:
    """Load code and compiled kernels into every process."""
    with tempfile.TemporaryDirectory() as directory:
        Communities(n_nodes=2_000, n_edges=400_000).write(Path(directory))
        run(Path(directory), settings, cluster, _ignore)


def compare_passes(directory: Path, graph: Communities, home: Path) -> Table:
    """Table of a product in threads, and on workers."""
    paths = GraphPaths(root=home)
    sparsifier = SparsifierSettings(epsilon=EPSILON, expected_nodes=graph.n_nodes)
    Stream(paths, StreamSettings(node_kind="dense", sparsifier=sparsifier)).ingest(
        EdgeFiles(directory).list()
    )
    meta = SnapshotStore(paths.snapshots).list()[-1]
    block = np.random.default_rng(0).standard_normal((graph.n_nodes, N_VECTORS))
    table = Table(title=f"product with {N_VECTORS} vectors, {meta.n_files} files")
    for heading in ("", "s", *COSTS, "tasks", "digest"):
        table.add_column(heading, justify="left" if not heading else "right")
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
        cells = [f"{meter.wall_seconds:.2f}", *costs(meter)]
        n_tasks = "" if cluster is None else tasks_done(before, task_sums(cluster), "fold_here")
        table.add_row(name, *cells, n_tasks, digests[-1])

    for n_threads in (1, 2):
        row(f"{n_threads} thread{'s' * (n_threads > 1)}", None, n_threads)
    for n_workers in (1, 2):
        with cluster_of(n_workers) as cluster:
            row(f"{n_workers} worker{'s' * (n_workers > 1)}", cluster, 1)
    require_equal(digests)
    return table


def tasks_done(before: dict[str, Any], after: dict[str, Any], name: str) -> str:
    """How many tasks of one function were done."""
    return f"{after[name][0] - before.get(name, (0, 0))[0]}"


def compare_errors(directory: Path, n_nodes: int, n_seeds: int) -> Table:
    """Table of spectral errors over seeds: each seed draws a graph and its coins."""
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
            settings = SparsifierSettings(epsilon=EPSILON, seed=seed, expected_nodes=n_nodes)
            for name, there in (("2 threads", None), ("2 workers", cluster)):
                errors[name].append(spectral_error(full, run(path, settings, there, _ignore).graph))
    table = Table(
        title=f"two communities, 6 edges between them: {n_nodes:,} nodes, about {n_edges:,} edges, "
        f"{n_seeds} seeds, error asked {EPSILON}"
    )
    for heading in ("", "least", "mean", "greatest", "within"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, found in errors.items():
        within = sum(error <= EPSILON for error in found)
        numbers = (min(found), float(np.mean(found)), max(found))
        table.add_row(name, *(f"{number:.3f}" for number in numbers), f"{within}/{n_seeds}")
    return table


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
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="keeps the files; a temporary one if left out")
    parser.add_argument("--edges", type=int, default=40_000_000)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="4 M edges, 3 seeds")
    arguments = parser.parse_args()
    graph = Communities(
        n_nodes=4_000 if arguments.quick else arguments.nodes,
        n_edges=4_000_000 if arguments.quick else arguments.edges,
    )
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.dir or Path(temporary) / "edges"
        graph.write(directory)
        for table in compare_runs(directory, graph):
            console.print(table)
        console.print(compare_passes(directory, graph, Path(temporary) / "home"))
        n_nodes, n_seeds = (400, 3) if arguments.quick else (1_000, arguments.seeds)
        console.print(compare_errors(Path(temporary), n_nodes, n_seeds))


if __name__ == "__main__":
    main()
