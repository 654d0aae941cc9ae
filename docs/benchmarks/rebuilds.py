"""What does a rebuild after deletes cost on a dask cluster, and how accurate is it?

Run ``python -m docs.benchmarks.rebuilds`` or ``--quick``. The first table compares spectral errors
over seeds, by dense algebra, where half of the edges are deleted: of two threads and of workers
that sample everything anew from the log, and of a fresh stream that never had the deleted edges.
The second tells the CPU seconds of this process (client and scheduler) and of each worker, from the
end of the deletes to that of the repair, and MB that they send: of two threads, one worker, two,
and two of which one is killed on the way. ``--share`` says how much is deleted; with little of it
deletes are resolved, and nothing is sampled anew. The program fails where workers differ in an
edge, or from threads in what lives.
"""

import argparse
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
from rich.console import Console
from rich.table import Table

from docs.benchmarks.communities import Communities
from docs.benchmarks.distributed import (
    COSTS,
    EPSILON,
    Meter,
    cluster_of,
    costs,
    digest_of,
    require_equal,
    task_sums,
    task_table,
    two_communities,
)
from peewit.solvers.arrays import BoolArray
from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import IngestEvent, Progress, Repaired
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.repair import Repair
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
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
    meter: Meter


def stream_of(
    root: Path,
    n_nodes: int,
    *,
    seed: int = 0,
    cluster: LocalCluster | None = None,
    on_event: Callable[[IngestEvent], None] = lambda _event: None,
) -> Stream:
    """Stream of a graph with exact deletions."""
    settings = StreamSettings(
        node_kind="dense",
        sparsifier=SparsifierSettings(epsilon=EPSILON, seed=seed, expected_nodes=n_nodes),
        deletions="exact",
        n_threads=2,
        scheduler=None if cluster is None else cluster.scheduler_address,
        checkpoint_seconds=1e9,
    )
    return Stream(GraphPaths(root=root), settings, on_event=on_event)


def published(root: Path) -> tuple[Graph, int]:
    """The newest snapshot, and the edges that it stands for."""
    store = SnapshotStore(GraphPaths(root=root).snapshots)
    number = store.latest() or 0
    return store.load(number).graph, store.meta(number).n_live or 0


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
    meter = Meter(cluster, is_whole=not kills)
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
        graph, n_live = published(root)
    [repair] = told
    if bool(killed) != kills:
        raise RuntimeError(f"a worker must be killed: {kills}, got {killed}")
    return Rebuilt(graph=graph, repair=repair, n_live=n_live, meter=meter)


def compare_costs(directory: Path, graph: Communities, share: float) -> tuple[Table, Table]:
    """Tables of rebuilds by threads and workers, and of the tasks of one worker."""
    edges, deletes, home = (directory / name for name in ("edges", "deletes.parquet", "home"))
    graph.write(edges)
    rng = np.random.default_rng(0)
    gone = [block.filter(pa.array(rng.random(block.num_rows) < share)) for block in graph.blocks()]
    _write_deletes(deletes, pa.concat_tables(gone))
    stream_of(home, graph.n_nodes).ingest(EdgeFiles(edges).list())
    rebuilt(home, deletes, graph.n_nodes)  # compiles
    runs = {"2 threads": rebuilt(home, deletes, graph.n_nodes)}
    tasks = Table()
    for n_workers in (1, 2):
        with cluster_of(n_workers) as cluster:
            rebuilt(home, deletes, graph.n_nodes, cluster=cluster)  # loads code
            before = task_sums(cluster)
            name = f"{n_workers} worker{'s' * (n_workers > 1)}"
            runs[name] = rebuilt(home, deletes, graph.n_nodes, cluster=cluster)
            if n_workers == 1:
                tasks = task_table(before, task_sums(cluster))
    with cluster_of(2) as cluster:
        rebuilt(home, deletes, graph.n_nodes, cluster=cluster)
        runs["2 workers, 1 killed"] = rebuilt(
            home, deletes, graph.n_nodes, cluster=cluster, kills=True
        )
    digests = {name: digest_of(*run.graph.edges()) for name, run in runs.items()}
    require_equal(digest for name, digest in digests.items() if "worker" in name)
    require_equal(str((run.n_live, run.repair)) for run in runs.values())
    table = Table(
        title=f"{share:.0%} of {graph.n_edges:,} edges of {graph.n_nodes:,} nodes deleted, "
        f"epsilon {EPSILON}: resolved and repaired"
    )
    for heading in ("", "s", *COSTS, "edges anew", "kept", "digest"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, run in runs.items():
        cells = f"{run.meter.wall_seconds:.1f}", *costs(run.meter), f"{run.repair.n_edges:,}"
        table.add_row(name, *cells, f"{run.graph.n_edges:,}", digests[name])
    return table, tasks


def compare_errors(directory: Path, n_nodes: int, n_seeds: int) -> Table:
    """Table of spectral errors over seeds: each seed draws a graph, its coins and its deletes."""
    errors: dict[str, list[float]] = {"fresh, 2 threads": [], "2 threads": [], "2 workers": []}
    with cluster_of(2) as cluster:
        for seed in range(n_seeds):
            u, v, weight = two_communities(n_nodes, seed)
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
            errors["fresh, 2 threads"].append(spectral_error(full, published(fresh)[0]))
            everything = EdgeFiles(write("all", np.ones(u.size, bool))).list()
            stream_of(home, n_nodes, seed=seed).ingest(everything)
            _write_deletes(deletes, pq.read_table(write("gone", is_gone)))
            for name, there in (("2 threads", None), ("2 workers", cluster)):
                found = rebuilt(home, deletes, n_nodes, seed=seed, cluster=there)
                if found.repair.kind != "all":
                    raise RuntimeError(f"everything must be thrown anew, got {found.repair}")
                errors[name].append(spectral_error(full, found.graph))
    table = Table(
        title=f"two communities of {n_nodes:,} nodes, {SHARE:.0%} of the edges deleted: "
        f"{n_seeds} seeds, error asked {EPSILON}"
    )
    for heading in ("rebuilt by", "least", "mean", "greatest", "within"):
        table.add_column(heading, justify="left" if heading == "rebuilt by" else "right")
    for name, each in errors.items():
        within = sum(error <= EPSILON for error in each)
        numbers = (min(each), float(np.mean(each)), max(each))
        table.add_row(name, *(f"{number:.3f}" for number in numbers), f"{within}/{n_seeds}")
    return table


def _write_deletes(path: Path, edges: pa.Table) -> None:
    pq.write_table(edges.append_column("op", pa.array(["delete"] * edges.num_rows)), path)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=40_000_000)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--share", type=float, default=0.5, help="of the edges that is deleted")
    parser.add_argument("--seeds", type=int, default=10, help="0 leaves the errors out")
    parser.add_argument("--quick", action="store_true", help="4 M edges, 2 seeds")
    arguments = parser.parse_args()
    graph = Communities(
        n_nodes=4_000 if arguments.quick else arguments.nodes,
        n_edges=4_000_000 if arguments.quick else arguments.edges,
    )
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as temporary:
        n_seeds = 2 if arguments.quick else arguments.seeds
        if n_seeds:
            console.print(compare_errors(Path(temporary), 1_000, n_seeds))
        for table in compare_costs(Path(temporary), graph, arguments.share):
            console.print(table)


if __name__ == "__main__":
    main()
