"""How many passes does the exact answer on the full graph take, by how much of it was kept?

Run ``python -m docs.benchmarks.refine`` (20 k nodes, 21 M edges) or ``--quick``. A graph of
communities is ingested with several limits on the edges that are kept; Stable-HFS with 10 classes
and 100 labels is solved on each snapshot and carried on to the full graph. Every row is a process
of its own, so that peak memory is its own; it holds raw edges only a chunk at a time.
"""

import argparse
import multiprocessing
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks.communities import Communities
from docs.benchmarks.peak_memory import peak_bytes
from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.refinable_model import refine
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.passes.raw_edge_passes import snapshot_edges
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

N_CLASSES = 10
N_LABELS = 100
N_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One snapshot, and its refinement to one residual."""

    share: float | None
    kept: float
    epsilon: float
    rtol: float
    passes: int
    residual: float
    status: str
    accuracy: tuple[float, float]
    n_changed: int
    seconds: float
    pass_seconds: float
    peak_bytes: int


def classes_of(graph: Communities) -> IntArray:
    """Class of every node: that of its community."""
    names = np.random.default_rng(graph.seed).permutation(graph.n_nodes)
    classes = np.empty(graph.n_nodes, np.int64)
    classes[names] = np.arange(graph.n_nodes) // graph.community_nodes % N_CLASSES
    return classes


def ingest(paths: GraphPaths, directory: Path, n_nodes: int, max_edges: int | None) -> None:
    """Make a snapshot of all files, unless there is one."""
    if SnapshotStore(paths.snapshots).latest() is None:
        sparsifier = SparsifierSettings(seed=0, expected_nodes=n_nodes, max_edges=max_edges)
        settings = StreamSettings(node_kind="dense", sparsifier=sparsifier, n_threads=N_THREADS)
        Stream(paths, settings).ingest(EdgeFiles(directory).list())


def measure(root: Path, graph: Communities, share: float | None, rtol: float) -> Row:
    """One row."""
    paths = GraphPaths(root=root / f"graph-{graph.n_nodes}-{graph.n_edges}-{share}")
    snapshots = SnapshotStore(paths.snapshots)
    snapshot = snapshots.load(snapshots.numbers()[-1])
    classes = classes_of(graph)
    nodes = np.random.default_rng(0).choice(graph.n_nodes, N_LABELS, replace=False)
    labels = Labels.from_pairs(nodes, classes[nodes])
    model = StableHFS(rtol=rtol)
    pass_seconds = 0.0
    prepared = model.prepare(snapshot.graph)
    sparse = model.solve(prepared, labels)
    with snapshot_edges(
        paths,
        snapshot.meta,
        spool=paths.root / "spool",
        staging=paths.staging,
        n_threads=N_THREADS,
    ) as edges:

        def product(block: FloatArray) -> FloatArray:
            nonlocal pass_seconds
            began = time.monotonic()
            result = edges.laplacian_product(block)
            pass_seconds += time.monotonic() - began
            return result

        began = time.monotonic()
        edges.open()
        full = refine(model, prepared, labels, sparse, product, edges.degrees, max_passes=300)
        seconds = time.monotonic() - began
    first, second = (
        float((each.scores.argmax(axis=1) == classes).mean()) for each in (sparse, full)
    )
    passes = int(full.stats["passes"])
    return Row(
        share=share,
        kept=snapshot.meta.edges_kept / graph.n_edges,
        epsilon=snapshot.meta.epsilon_expected,
        rtol=rtol,
        passes=passes,
        residual=float(full.stats["residual"]),
        status=full.status.value,
        accuracy=(first, second),
        n_changed=int(full.stats["n_changed"]),
        seconds=seconds,
        pass_seconds=pass_seconds / passes,
        peak_bytes=peak_bytes(),
    )


def _send(connection: Any, *arguments: Any) -> None:
    connection.send(measure(*arguments))


def alone(*arguments: Any) -> Row:
    """`measure` in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_send, args=(theirs, *arguments))
    process.start()
    theirs.close()
    row: Row = ours.recv()
    process.join()
    return row


def table_of(rows: list[Row], graph: Communities) -> Table:
    """All rows."""
    table = Table(title=f"{graph.n_edges:,} edges, {graph.n_nodes:,} nodes, {N_CLASSES} classes")
    columns = ("kept", "epsilon", "rtol", "passes", "residual", "s", "s/pass", "peak MiB")
    for column in (*columns, "accuracy: snapshot", "full", "changed"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            f"{100 * row.kept:.2f} %",
            f"{row.epsilon:.2f}",
            f"{row.rtol:g}",
            f"{row.passes}" if row.status == "converged" else f"{row.passes} ({row.status})",
            f"{row.residual:.1e}",
            f"{row.seconds:.1f}",
            f"{row.pass_seconds:.2f}",
            f"{row.peak_bytes / 2**20:.0f}",
            *(f"{each:.4f}" for each in row.accuracy),
            f"{row.n_changed}",
        )
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=21_000_000)
    parser.add_argument(
        "--shares", type=float, nargs="*", default=[0.003, 0.01, 0.03], help="of the edges to keep"
    )
    parser.add_argument("--rtols", type=float, nargs="*", default=[1e-6, 1e-8])
    parser.add_argument("--dir", type=Path, help="keeps the files for the next run")
    parser.add_argument("--quick", action="store_true", help="4 k nodes, 2 M edges")
    options = parser.parse_args()
    n_nodes, n_edges = (4_000, 2_000_000) if options.quick else (options.nodes, options.edges)
    graph = Communities(n_nodes=n_nodes, n_edges=n_edges)
    console = Console(width=130)
    with tempfile.TemporaryDirectory(prefix="peewit-refine-") as temporary:
        root = options.dir or Path(temporary)
        data = root / f"edges-{n_nodes}-{n_edges}"
        graph.write(data)
        rows = []
        for share in (*options.shares, None):
            paths = GraphPaths(root=root / f"graph-{n_nodes}-{n_edges}-{share}")
            ingest(paths, data, n_nodes, None if share is None else int(share * n_edges))
            for rtol in options.rtols:
                rows.append(alone(root, graph, share, rtol))
                console.print(rows[-1])
        console.print(table_of(rows, graph))


if __name__ == "__main__":
    main()
