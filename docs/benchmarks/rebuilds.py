"""What does a rebuild after deletes cost on a dask cluster, and how accurate is it?

The first table compares spectral errors over seeds, by dense algebra, where half of the edges are
deleted: of two threads and of workers that sample everything anew from the log, and of a fresh
stream that never had the deleted edges. The second tells the CPU seconds of this process (client
and scheduler) and of each worker, from the end of the deletes to that of the repair, and MB that
they send: of two threads, one worker, two, and two of which one is killed on the way. With little
of a ``--share`` deletes are resolved, and nothing is sampled anew. The program fails where workers
differ in an edge, or from threads in what lives.
"""

import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import LocalCluster

from docs.benchmarks import distributed as runs_of
from docs.benchmarks.communities import Communities
from docs.benchmarks.frame import options, show
from docs.benchmarks.streams import newest, opened
from peewit.solvers.arrays import BoolArray
from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Progress, Repaired
from peewit.streaming.graph_stream import Stream
from peewit.streaming.sparsifier.repair import Repair
from tests.reference.spectrum import spectral_error
from tests.streaming.clusters import kill_one_that_works

SHARE: Final = 0.5
"""Of the edges that is deleted where errors are compared."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rebuilt:
    """A snapshot after deletes, what was thrown for it, and what that cost."""

    graph: Graph
    repair: Repair
    n_live: int
    meter: runs_of.Meter


def stream_of(
    root: Path,
    n_nodes: int,
    *,
    seed: int = 0,
    cluster: LocalCluster | None = None,
    on_event: Callable[[IngestEvent], None] | None = None,
) -> Stream:
    size = {"epsilon": runs_of.EPSILON, "seed": seed, "expected_nodes": n_nodes}
    scheduler = None if cluster is None else cluster.scheduler_address
    ways = {"deletions": "exact", "n_threads": 2, "scheduler": scheduler}
    return opened(root, on_event, checkpoint_seconds=1e9, **size, **ways)


def rebuilt(
    home: Path,
    deletes: Path,
    n_nodes: int,
    *,
    seed: int = 0,
    cluster: LocalCluster | None = None,
    kills: bool = False,
) -> Rebuilt:
    """What comes of a copy of a graph when a file deletes from it."""
    meter = runs_of.Meter(cluster, is_whole=not kills)
    told: list[Repair] = []
    killed: list[int] = []

    def on_event(event: IngestEvent) -> None:
        if isinstance(event, Progress):
            meter.start()
            if kills and not killed:
                threading.Thread(target=kill_one_that_works, args=(cluster, killed)).start()
        elif isinstance(event, Repaired):
            meter.stop()
            told.append(event.repair)

    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "graph"
        shutil.copytree(home, root)
        stream = stream_of(root, n_nodes, seed=seed, cluster=cluster, on_event=on_event)
        stream.ingest(EdgeFiles(deletes, columns=CHANGES).list())
        snapshot = newest(root)
    [repair] = told
    if bool(killed) != kills:
        raise RuntimeError(f"a worker must be killed: {kills}, got {killed}")
    n_live = snapshot.meta.n_live or 0
    return Rebuilt(graph=snapshot.graph, repair=repair, n_live=n_live, meter=meter)


def compare_costs(directory: Path, graph: Communities, share: float) -> None:
    """Show rebuilds by threads and workers, and the tasks of one worker."""
    edges, deletes, home = (directory / name for name in ("edges", "deletes.parquet", "home"))
    graph.write(edges)
    rng = np.random.default_rng(0)
    gone = [block.filter(pa.array(rng.random(block.num_rows) < share)) for block in graph.blocks()]
    _write_deletes(deletes, pa.concat_tables(gone))
    stream_of(home, graph.n_nodes).ingest(EdgeFiles(edges).list())
    rebuilt(home, deletes, graph.n_nodes)  # compiles
    runs = {"2 threads": rebuilt(home, deletes, graph.n_nodes)}
    for n_workers in (1, 2):
        with runs_of.cluster_of(n_workers) as cluster:
            rebuilt(home, deletes, graph.n_nodes, cluster=cluster)  # loads code
            before = runs_of.task_sums(cluster)
            name = f"{n_workers} worker{'s' * (n_workers > 1)}"
            runs[name] = rebuilt(home, deletes, graph.n_nodes, cluster=cluster)
            if n_workers == 1:
                tasks = runs_of.tasks_since(before, cluster)
    with runs_of.cluster_of(2) as cluster:
        rebuilt(home, deletes, graph.n_nodes, cluster=cluster)
        runs["2 workers, 1 killed"] = rebuilt(
            home, deletes, graph.n_nodes, cluster=cluster, kills=True
        )
    digests = {name: runs_of.digest_of(*run.graph.edges()) for name, run in runs.items()}
    runs_of.require_equal(digest for name, digest in digests.items() if "worker" in name)
    runs_of.require_equal(str((run.n_live, run.repair)) for run in runs.values())
    rows = (
        (
            *(name, run.meter.wall_seconds, *runs_of.costs(run.meter), run.repair.n_edges),
            *(run.graph.n_edges, digests[name]),
        )
        for name, run in runs.items()
    )
    show(
        f"{share:.0%} of {graph.n_edges:,} edges of {graph.n_nodes:,} nodes deleted, "
        f"epsilon {runs_of.EPSILON}: resolved and repaired",
        f"|s {{:.1f}}|{runs_of.COSTS}|edges anew {{:,}}|kept {{:,}}|digest",
        rows,
    )
    show(runs_of.TASKS, runs_of.TASK_COLUMNS, tasks)


def compare_errors(directory: Path, n_nodes: int, n_seeds: int) -> None:
    """Show spectral errors over seeds: each seed draws a graph, its coins and its deletes."""
    errors: dict[str, list[float]] = {"fresh, 2 threads": [], "2 threads": [], "2 workers": []}
    with runs_of.cluster_of(2) as cluster:
        for seed in range(n_seeds):
            u, v, weight = runs_of.two_communities(n_nodes, seed)
            pair = np.minimum(u, v) * n_nodes + np.maximum(u, v)
            is_gone = np.random.default_rng(seed).random(u.size) < SHARE
            lives = ~np.isin(pair, pair[is_gone])  # a pair goes with all its parallel edges

            def write(name: str, is_taken: BoolArray, seed: int = seed) -> Path:
                path = directory / f"{seed}-{name}.parquet"
                columns = zip(("src", "dst", "weight"), (u, v, weight), strict=True)  # noqa: B023 - used before the next
                table = pa.table({name: column[is_taken] for name, column in columns})
                pq.write_table(table, path, row_group_size=8_192)
                return path

            full = Graph.from_edges(u[lives], v[lives], weight[lives], n_nodes=n_nodes)
            home, fresh, deletes = (
                directory / f"{seed}-{name}" for name in ("home", "fresh", "deletes.parquet")
            )
            left = EdgeFiles(write("left", lives)).list()
            stream_of(fresh, n_nodes, seed=seed).ingest(left)
            errors["fresh, 2 threads"].append(spectral_error(full, newest(fresh).graph))
            everything = EdgeFiles(write("all", np.ones(u.size, bool))).list()
            stream_of(home, n_nodes, seed=seed).ingest(everything)
            _write_deletes(deletes, pq.read_table(write("gone", is_gone)))
            for name, there in (("2 threads", None), ("2 workers", cluster)):
                found = rebuilt(home, deletes, n_nodes, seed=seed, cluster=there)
                if found.repair.kind != "all":
                    raise RuntimeError(f"everything must be thrown anew, got {found.repair}")
                errors[name].append(spectral_error(full, found.graph))
    title = f"two communities of {n_nodes:,} nodes, {SHARE:.0%} of the edges deleted"
    runs_of.show_errors(title, errors)


def _write_deletes(path: Path, edges: pa.Table) -> None:
    pq.write_table(edges.append_column("op", pa.array(["delete"] * edges.num_rows)), path)


def main() -> None:
    asked = options(
        __doc__,
        quick={"nodes": 4_000, "edges": 4_000_000, "seeds": 2},
        edges=40_000_000,
        nodes=20_000,
        share=(0.5, "of the edges that is deleted"),
        seeds=(10, "0 leaves the errors out"),
    )
    graph = Communities(n_nodes=asked.nodes, n_edges=asked.edges)
    with tempfile.TemporaryDirectory() as temporary:
        if asked.seeds:
            compare_errors(Path(temporary), 1_000, asked.seeds)
        compare_costs(Path(temporary), graph, asked.share)


if __name__ == "__main__":
    main()
