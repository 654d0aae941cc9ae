"""Do replicas of a sparsifier mark the nodes whose label the whole graph has otherwise?

Dense graphs of `docs.benchmarks.default_model` are sparsified and solved with 100 random labels.
Printed are, in percent and in the mean over the draws: edges kept; nodes with another label on the
whole graph than on the sparsifier; nodes that some replica marks; of the former those that are
marked (found); of the marked those that differ (right); accuracy at marked nodes and at others, on
the sparsifier; and processor time of the replicas for that of the solve.
"""

import tempfile
from pathlib import Path
from time import process_time

import numpy as np

from docs.benchmarks.default_model import SETS, drawn
from docs.benchmarks.frame import options, show
from docs.benchmarks.streams import ingested, store_of, write_graph
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.streaming.snapshots.replicas import replicas
from peewit.streaming.snapshots.store import SnapshotStore

USUAL = ("blogcatalog", "digits")
N_LABELS = 100
COLUMNS = (
    "graph|kept {:.1%}|differ {:.1%}|marked {:.1%}|found {:.1%}|right {:.1%}|acc. marked {:.1%}|"
    "acc. others {:.1%}|time {:.1f}"
)


def sparsified(graph: Graph, root: Path, epsilon: float) -> SnapshotStore:
    write_graph(root / "edges.parquet", graph)
    home = root / "graph"
    ingested(home, root / "edges.parquet", epsilon=epsilon, expected_nodes=graph.n_nodes)
    return store_of(home)


def classes_of(graph: Graph, labels: Labels) -> Int64Array:
    model = Auto()
    found: Int64Array = model.solve(model.prepare(graph), labels).scores.argmax(axis=1)
    return found


def measured(
    graph: Graph, classes: Int64Array, store: SnapshotStore, n_replicas: int, seed: int
) -> list[float]:
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
    asked = options(__doc__, epsilon=0.9, replicas=3, draws=5, sets=(list(USUAL), SETS))
    rows = []
    for name in asked.sets:
        graph, classes = SETS[name]()
        with tempfile.TemporaryDirectory() as directory:
            store = sparsified(graph, Path(directory), asked.epsilon)
            found = [
                measured(graph, classes, store, asked.replicas, seed) for seed in range(asked.draws)
            ]
        rows.append((name, *np.ma.masked_invalid(found).mean(axis=0).filled(np.nan)))
    show(f"{asked.replicas} replicas at epsilon {asked.epsilon}", COLUMNS, rows)


if __name__ == "__main__":
    main()
