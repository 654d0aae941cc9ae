"""How many edges should be kept? What budgets of edges cost and give.

Edges of a family of `docs.benchmarks.edge_families`, or of ten weak blocks (a quarter of the edges
stay within one, ``weak``), are ingested with each budget, in millions, by a process of its own.
Printed are of each: edges kept, the spectral error to expect, accuracy of the default model with 50
random labels a class; processor seconds of the ingest, of the first solve and of one after another
label; of a push of a thousand edges until they are in a snapshot that was loaded; the peak of
memory; and the disk that a snapshot takes.
"""

import resource
import tempfile
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks.edge_families import FAMILIES
from docs.benchmarks.frame import CONSOLE, Figures, alone, cpu_of, options, share_right
from docs.benchmarks.streams import opened, store_of
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.streaming.edges.sources import EdgeFiles

WEAK: Final = "weak"
WEAK_CLASSES: Final = 10
LABELS_A_CLASS: Final = 50
PUSHED: Final = 1_000
MILLION: Final = 1_000_000


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


def measured(directory: Path, max_edges: int) -> tuple[Any, ...]:
    classes = np.load(directory / "classes.npy")
    root = directory / f"graph-{max_edges}"
    started = process_time()
    stream = opened(root, max_edges=max_edges, expected_nodes=classes.size)
    stream.ingest(EdgeFiles(str(directory / "edges.parquet")).list())
    ingest = process_time() - started
    store = store_of(root)
    meta = store.meta(1)
    disk = sum(path.stat().st_size for path in store.directory(1).iterdir())
    graph = store.load(1).graph
    known = classes[: graph.n_nodes]
    rng = np.random.default_rng(1)
    n_labels = LABELS_A_CLASS * (int(classes.max()) + 1)
    nodes = np.sort(rng.choice(graph.n_nodes, n_labels + 1, replace=False))
    model = Auto()
    prepared = model.prepare(graph)
    fewer = Labels.from_pairs(nodes[:-1], known[nodes[:-1]].tolist())
    solution, first = cpu_of(model.solve, prepared, fewer)
    solution, changed = cpu_of(
        model.solve, prepared, Labels.from_pairs(nodes, known[nodes].tolist())
    )
    right = 100 * share_right(solution.scores.argmax(axis=1), known, nodes)
    del prepared, graph, solution
    started = process_time()
    stream.ingest(EdgeFiles(str(directory / "pushed.parquet")).list())
    store.load(2)
    push = process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row = meta.edges_kept, meta.epsilon_expected, right, ingest, first, changed, push
    return *row, peak, disk / 2**20


def main() -> None:
    budgets = [2.0, 5.0, 10.0, 20.0, 40.0]
    family = WEAK, (WEAK, *FAMILIES)
    asked = options(__doc__, family=family, nodes=200_000, edges=40_000_000, budgets=budgets)
    table = Figures(
        f"{asked.family}, {asked.nodes:,} nodes, {asked.edges:,} edges",
        "budget {:,}|kept {:,}|epsilon {:.2f}|right % {:.2f}|ingest {:.1f}|first {:.1f}|"
        "changed {:.1f}|push {:.1f}|peak MiB {:,.0f}|disk MiB {:,.0f}",
        left=0,
    )
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), asked.family, asked.nodes, asked.edges)
        for millions in asked.budgets:
            max_edges = int(millions * MILLION)
            table.add(max_edges, *alone(measured, Path(name), max_edges))
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
