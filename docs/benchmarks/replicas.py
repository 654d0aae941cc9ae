"""Do replicas of a sparsifier mark the nodes whose label the whole graph has otherwise?

    python -m docs.benchmarks.replicas [--epsilon 0.9] [--replicas 3] [--draws 5]

Dense graphs of `docs.benchmarks.default_model` are sparsified and solved with 100 random labels.
Printed are, in percent and in the mean over the draws: edges kept; nodes with another label on the
whole graph than on the sparsifier; nodes that some replica marks; of the former those that are
marked (found); of the marked those that differ (right); accuracy at marked nodes and at others, on
the sparsifier; and processor time of the replicas for that of the solve.
"""

import argparse
import tempfile
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.default_model import SETS, drawn
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.replicas import replicas
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

USUAL = ("blogcatalog", "digits")
N_LABELS = 100
HEADINGS = ("kept", "differ", "marked", "found", "right", "acc. marked", "acc. others", "time")


def sparsified(graph: Graph, root: Path, epsilon: float) -> SnapshotStore:
    """The snapshots of a graph that was ingested."""
    upper = graph.adjacency.tocoo()
    u, v = upper.coords
    is_once = u < v
    table = pa.table({"src": u[is_once], "dst": v[is_once], "weight": upper.data[is_once]})
    pq.write_table(table, root / "edges.parquet")
    sparsifier = SparsifierSettings(epsilon=epsilon, expected_nodes=graph.n_nodes)
    paths = GraphPaths(root=root / "graph")
    settings = StreamSettings(node_kind="dense", sparsifier=sparsifier)
    Stream(paths, settings).ingest(EdgeFiles(root).list())
    return SnapshotStore(paths.snapshots)


def classes_of(graph: Graph, labels: Labels) -> Int64Array:
    """What `auto` predicts."""
    model = Auto()
    found: Int64Array = model.solve(model.prepare(graph), labels).scores.argmax(axis=1)
    return found


def measured(
    graph: Graph, classes: Int64Array, store: SnapshotStore, n_replicas: int, seed: int
) -> list[float]:
    """Figures of one draw."""
    n_classes = np.unique(classes[classes >= 0]).size
    nodes = drawn(graph, classes, "random", N_LABELS // n_classes, seed)
    assert nodes is not None
    labels = Labels.from_pairs(nodes, classes[nodes].tolist())
    whole = classes_of(graph, labels)
    snapshot = store.load(1)
    started = process_time()
    own = classes_of(snapshot.graph, labels)
    solved = process_time()
    others = [classes_of(each, labels) for each in replicas(store, 1, n_replicas, seed=seed)]
    spent = (process_time() - solved) / (solved - started)
    marked = np.any([each != own for each in others], axis=0)
    differ = whole != own
    is_right = np.array(labels.class_names)[own] == classes
    asked = classes >= 0
    asked[nodes] = False
    return [
        snapshot.meta.edges_kept / graph.n_edges,
        differ.mean(),
        marked.mean(),
        marked[differ].mean() if differ.any() else np.nan,
        differ[marked].mean() if marked.any() else np.nan,
        is_right[asked & marked].mean() if (asked & marked).any() else np.nan,
        is_right[asked & ~marked].mean(),
        spent,
    ]


def main() -> None:
    """Print a row for each graph."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilon", type=float, default=0.9)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=USUAL)
    options = parser.parse_args()
    table = Table(title=f"{options.replicas} replicas at epsilon {options.epsilon}")
    for heading in ("graph", *HEADINGS):
        table.add_column(heading, justify="left" if heading == "graph" else "right")
    for name in options.sets:
        graph, classes = SETS[name]()
        with tempfile.TemporaryDirectory() as directory:
            store = sparsified(graph, Path(directory), options.epsilon)
            found = [
                measured(graph, classes, store, options.replicas, seed)
                for seed in range(options.draws)
            ]
        *shares, time = np.ma.masked_invalid(found).mean(axis=0).filled(np.nan)
        told = ("–" if np.isnan(each) else f"{100 * each:.1f}" for each in shares)
        table.add_row(name, *told, f"{time:.1f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
