"""How long a node's reasons take, and what part of the whole the first five labels carry.

Prints for graphs of `docs.benchmarks.default_model` with 100 random labels: by how much parts and
what was not followed miss the density that `auto` solved for, at most (of .3 + density); medians of
the part of the walks that was followed, and of the part of the class's density that five labels
carry; how often the class of the largest density is the one that `auto` predicts. Then milliseconds
of reasons and of ways, median and 99th percentile over 200 nodes of a graph of communities with so
many nodes and ten times as many edges, its rows and densities memory-mapped from files.
"""

import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from docs.benchmarks.default_model import SETS, drawn
from docs.benchmarks.frame import CONSOLE, options
from peewit.solvers.arrays import Float32Array
from peewit.solvers.assessment.reasons import likeliest_ways, reasons
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.walk_rows import WalkRows
from peewit.solvers.models.auto.auto import Auto

USUAL = ("digits", "cora", "facebook_pagepage", "blogcatalog", "blocks 5, .75", "rings 10 %")
N_ASKED, N_LABELS, N_TOLD, N_CLASSES = 200, 100, 5, 5


def carried(name: str) -> None:
    graph, classes = SETS[name]()
    n_classes = np.unique(classes[classes >= 0]).size
    nodes = drawn(graph, classes, "random", max(1, N_LABELS // n_classes), 0)
    assert nodes is not None
    labels = Labels.from_pairs(nodes, classes[nodes].tolist())
    model = Auto()
    solution = model.solve(model.prepare(graph), labels)
    rows, densities = WalkRows.of_graph(graph), solution.densities
    assert densities is not None
    rng = np.random.default_rng(0)
    asked = rng.choice(np.flatnonzero(solution.reachable), N_ASKED, replace=False)
    missed, followed, parts, agreed = [], [], [], []
    for node in asked.tolist():
        places = rows, node, labels.nodes, labels.classes
        found = reasons(*places, n_classes=labels.n_classes, densities=densities)
        own = densities[node]
        missed.append(float(np.abs((found.support - own) / (0.3 + own)).max()))
        followed.append(found.followed)
        predicted = int(solution.scores[node].argmax())
        is_own = labels.classes[found.places] == predicted
        whole = found.support[predicted] or 1.0
        parts.append(float(found.added[is_own][:N_TOLD].sum() / whole))
        agreed.append(predicted == int(own.argmax()))
    CONSOLE.print(
        f"{name:20} missed {max(missed):.4f}  followed {np.median(followed):.2f}  "
        f"five carry {np.median(parts):.2f}  agree {np.mean(agreed):.2f}"
    )


def mapped(array: Float32Array, path: Path) -> Float32Array:
    np.save(path, array)
    kept: Float32Array = np.load(path, mmap_mode="r")
    return kept


def timed(n_nodes: int) -> None:
    rng = np.random.default_rng(1)
    classes = rng.integers(0, N_CLASSES, n_nodes)
    by_class = np.argsort(classes, kind="stable")
    n_edges = 10 * n_nodes
    u = rng.integers(0, n_nodes, n_edges)
    v = rng.integers(0, n_nodes, n_edges)
    is_own = rng.random(n_edges) < 0.75
    starts = np.searchsorted(classes[by_class], np.arange(N_CLASSES + 1))
    sizes = np.diff(starts)[classes[u]]
    within = starts[classes[u]] + (rng.random(n_edges) * sizes).astype(np.int64)
    v[is_own] = by_class[within[is_own]]
    graph = Graph.from_edges(u, v, np.ones(n_edges), n_nodes=n_nodes)
    nodes = rng.choice(n_nodes, N_LABELS, replace=False)
    labels = Labels.from_pairs(nodes, classes[nodes].tolist())
    densities = np.ones((n_nodes, N_CLASSES), np.float32)  # what they are takes no time
    made = WalkRows.of_graph(graph)
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        names = WalkRows.__dataclass_fields__
        rows = WalkRows(
            **{name: mapped(getattr(made, name), root / f"{name}.npy") for name in names}
        )
        kept = mapped(densities, root / "densities.npy")
        spent = []
        for node in rng.integers(0, n_nodes, N_ASKED + 1).tolist():
            started = perf_counter()
            places = rows, node, labels.nodes, labels.classes
            found = reasons(*places, n_classes=N_CLASSES, densities=kept)
            walked = perf_counter()
            likeliest_ways(rows, node, labels.nodes[found.places[: 2 * N_TOLD]].tolist())
            spent.append((walked - started, perf_counter() - walked))
    for what, each in zip(("reasons", "ways"), 1e3 * np.array(spent[1:]).T, strict=True):
        CONSOLE.print(
            f"{what} at {n_nodes:,} nodes: {np.median(each):.1f} ms, {np.quantile(each, 0.99):.1f}"
        )


def main() -> None:
    asked = options(__doc__, nodes=1_000_000, sets=(list(USUAL), SETS))
    for name in asked.sets:
        carried(name)
    timed(asked.nodes)


if __name__ == "__main__":
    main()
