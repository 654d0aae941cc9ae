"""How many edges should be kept? What budgets of edges cost and give.

    python -m docs.benchmarks.budgets [--family weak] [--nodes 200000] [--edges 40000000]
        [--budgets 2 5 10 20 40]

Edges of a family of `docs.benchmarks.edge_families`, or of ten weak blocks (a quarter of the edges
stay within one, ``weak``), are ingested with each budget, in millions, by a process of its own.
Printed are of each: edges kept, the spectral error to expect, accuracy of the default model with 50
random labels a class; processor seconds of the ingest, of the first solve and of one after another
label; of a push of a thousand edges until they are in a snapshot that was loaded; the peak of
memory; and the disk that a snapshot takes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.edge_families import FAMILIES
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

WEAK: Final = "weak"
WEAK_CLASSES: Final = 10
LABELS_A_CLASS: Final = 50
PUSHED: Final = 1_000
MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one budget costs and gives."""

    kept: int
    epsilon: float
    right: float
    ingest: float
    first: float
    changed: float
    push: float
    peak_mebibytes: float
    disk_mebibytes: float


def write(directory: Path, family: str, n_nodes: int, n_edges: int) -> None:
    """Edges and classes of a family; a thousand edges more in a file of their own."""
    rng = np.random.default_rng(0)
    n_all = n_edges + PUSHED
    if family == WEAK:
        classes = np.arange(n_nodes) % WEAK_CLASSES
        u, v = rng.integers(0, n_nodes, (2, n_all))
        inside = rng.random(n_all) < 0.25
        v = np.minimum(
            np.where(inside, v // WEAK_CLASSES * WEAK_CLASSES + classes[u], v), n_nodes - 1
        )
    else:
        u, v, classes = FAMILIES[family].make(n_nodes, n_all, rng)
        n_nodes = len(classes)
    order = rng.permutation(u.size)
    for name, rows in (("edges", order[PUSHED:]), ("pushed", order[:PUSHED])):
        table = pa.table({"src": u[rows].astype(np.int32), "dst": v[rows].astype(np.int32)})
        pq.write_table(table, directory / f"{name}.parquet", row_group_size=MILLION)
    np.save(directory / "classes.npy", classes)


def measured(directory: Path, max_edges: int) -> Row:
    """Ingest, solve, change a label, push."""
    classes = np.load(directory / "classes.npy")
    paths = GraphPaths(root=directory / f"graph-{max_edges}")
    sparsifier = SparsifierSettings(max_edges=max_edges, expected_nodes=classes.size)
    settings = StreamSettings(node_kind="dense", sparsifier=sparsifier)
    started = process_time()
    stream = Stream(paths, settings)
    stream.ingest(EdgeFiles(str(directory / "edges.parquet")).list())
    ingest = process_time() - started
    store = SnapshotStore(paths.snapshots)
    meta = store.meta(1)
    disk = sum(path.stat().st_size for path in store.directory(1).iterdir())
    graph = store.load(1).graph
    known = classes[: graph.n_nodes]
    rng = np.random.default_rng(1)
    n_labels = LABELS_A_CLASS * (int(classes.max()) + 1)
    nodes = np.sort(rng.choice(graph.n_nodes, n_labels + 1, replace=False))
    model = Auto()
    prepared = model.prepare(graph)
    started = process_time()
    solution = model.solve(prepared, Labels.from_pairs(nodes[:-1], known[nodes[:-1]].tolist()))
    first = process_time() - started
    started = process_time()
    solution = model.solve(prepared, Labels.from_pairs(nodes, known[nodes].tolist()))
    changed = process_time() - started
    asked = np.ones(graph.n_nodes, bool)
    asked[nodes] = False
    right = float((solution.scores.argmax(axis=1) == known)[asked].mean())
    del prepared, graph, solution
    started = process_time()
    stream.ingest(EdgeFiles(str(directory / "pushed.parquet")).list())
    store.load(2)
    return Row(
        kept=meta.edges_kept,
        epsilon=meta.epsilon_expected,
        right=right,
        ingest=ingest,
        first=first,
        changed=changed,
        push=process_time() - started,
        peak_mebibytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        disk_mebibytes=disk / 2**20,
    )


def main() -> None:
    """Print a row for each budget."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\\n")[0])
    parser.add_argument("--family", choices=(WEAK, *FAMILIES), default=WEAK)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=40_000_000)
    parser.add_argument("--budgets", type=float, nargs="*", default=[2, 5, 10, 20, 40])
    parser.add_argument("--one", nargs=2, metavar=("DIRECTORY", "MAX_EDGES"))
    asked = parser.parse_args()
    if asked.one is not None:
        sys.stdout.write(json.dumps(asdict(measured(Path(asked.one[0]), int(asked.one[1])))))
        return
    console = Console(width=140)
    table = Table(title=f"{asked.family}, {asked.nodes:,} nodes, {asked.edges:,} edges")
    headings = (
        "budget",
        "kept",
        "epsilon",
        "right %",
        "ingest",
        "first",
        "changed",
        "push",
        "peak MiB",
        "disk MiB",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as directory:
        write(Path(directory), asked.family, asked.nodes, asked.edges)
        for millions in asked.budgets:
            max_edges = int(millions * MILLION)
            command = [sys.executable, "-m", __spec__.name, "--one", directory, str(max_edges)]
            row = Row(
                **json.loads(
                    subprocess.run(
                        command, check=True, capture_output=True, text=True
                    ).stdout.splitlines()[-1]
                )
            )
            figures = row.ingest, row.first, row.changed, row.push
            table.add_row(
                f"{max_edges:,}",
                f"{row.kept:,}",
                f"{row.epsilon:.2f}",
                f"{100 * row.right:.2f}",
                *(f"{each:.1f}" for each in figures),
                f"{row.peak_mebibytes:,.0f}",
                f"{row.disk_mebibytes:,.0f}",
            )
    console.print(table)


if __name__ == "__main__":
    main()
