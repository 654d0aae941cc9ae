"""What does a dask cluster cost and change, beside threads, and what does a killed worker?

Run ``python -m docs.benchmarks.distributed`` or ``--quick``. The same files go through the stream
in two threads, through a cluster of one worker process and of two, and through two of which one is
killed on the way. The second table compares spectral errors over seeds, by dense algebra.
"""

import argparse
import hashlib
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import LocalCluster
from rich.console import Console
from rich.table import Table

from docs.benchmarks.communities import Communities
from peewit.solvers.graph import Graph
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Progress
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.reference.spectrum import spectral_error

EPSILON = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass over the files.

    Attributes
    ----------
    wall_seconds, cpu_seconds : float
        Of this process and of the workers that lived to the end.
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
    cpu_seconds: float
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
    workers = [] if cluster is None else [worker.pid for worker in cluster.workers.values()]
    with tempfile.TemporaryDirectory() as home:
        paths = GraphPaths(root=Path(home))
        before = {pid: _cpu_seconds(pid) for pid in (os.getpid(), *workers)}
        started = time.perf_counter()
        stream = Stream(paths, stream_settings, on_event=on_event)  # type: ignore[arg-type]
        summary = stream.ingest(EdgeFiles(directory).list())
        wall_seconds = time.perf_counter() - started
        cpu_seconds = sum(
            _cpu_seconds(pid) - seconds for pid, seconds in before.items() if psutil.pid_exists(pid)
        )
        store = SnapshotStore(paths.snapshots)
        meta, graph = store.meta(summary.snapshot or 0), store.load(summary.snapshot or 0).graph
    digest = hashlib.blake2b(digest_size=6)
    for array in graph.edges():
        digest.update(np.ascontiguousarray(array))
    return Run(
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        n_kept=graph.n_edges,
        epsilon_expected=meta.epsilon_expected,
        digest=digest.hexdigest(),
        graph=graph,
    )


def _cpu_seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _ignore(_event: IngestEvent) -> None:
    """Count nothing."""


def compare_runs(directory: Path, graph: Communities) -> Table:
    """Table of the four ways."""
    settings = SparsifierSettings(epsilon=EPSILON, expected_nodes=graph.n_nodes)
    warm_up(settings)
    runs = {"2 threads": run(directory, settings, None, _ignore)}
    for n_workers in (1, 2):
        name = f"{n_workers} worker{'s' if n_workers > 1 else ''}"
        with cluster_of(n_workers) as cluster:
            warm_up(settings, cluster)
            runs[name] = run(directory, settings, cluster, _ignore)
    with cluster_of(2) as cluster:
        warm_up(settings, cluster)
        killer = Killer(cluster=cluster, n_rows=graph.n_edges)
        runs["2 workers, 1 killed"] = run(directory, settings, cluster, killer)
    table = Table(title=f"{graph.n_edges:,} edges, {graph.n_nodes:,} nodes, epsilon {EPSILON}")
    for heading in ("", "s", "CPU s", "M edges/s", "of threads", "kept", "expected", "digest"):
        table.add_column(heading, justify="left" if not heading else "right")
    peer = runs["2 threads"]
    for name, one in runs.items():
        table.add_row(
            name,
            f"{one.wall_seconds:.1f}",
            f"{one.cpu_seconds:.1f}",
            f"{graph.n_edges / one.wall_seconds / 1e6:.2f}",
            f"{peer.wall_seconds / one.wall_seconds:.2f}",
            f"{one.n_kept:,}",
            f"{one.epsilon_expected:.3f}",
            one.digest,
        )
    return table


def warm_up(settings: SparsifierSettings, cluster: LocalCluster | None = None) -> None:
    """Load code and compiled kernels into every process."""
    with tempfile.TemporaryDirectory() as directory:
        Communities(n_nodes=2_000, n_edges=400_000).write(Path(directory))
        run(Path(directory), settings, cluster, _ignore)


def compare_errors(directory: Path, n_nodes: int, n_seeds: int) -> Table:
    """Table of spectral errors over seeds: each seed draws a graph and its coins."""
    errors: dict[str, list[float]] = {"2 threads": [], "2 workers": []}
    n_edges = 0
    with cluster_of(2) as cluster:
        for seed in range(n_seeds):
            path = directory / f"{seed}"
            path.mkdir()
            u, v, weight = _two_communities(n_nodes, seed)
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


def _two_communities(n_nodes: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    console = Console()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.dir or Path(temporary) / "edges"
        graph.write(directory)
        console.print(compare_runs(directory, graph))
        n_nodes, n_seeds = (400, 3) if arguments.quick else (1_000, arguments.seeds)
        console.print(compare_errors(Path(temporary), n_nodes, n_seeds))


if __name__ == "__main__":
    main()
