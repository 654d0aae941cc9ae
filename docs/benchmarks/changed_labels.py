"""How far are answers of `auto` for changed labels from those of a first solve?

Twenty labels change one after another: every other one is new, the rest are corrections of wrong
ones. Each time a graph that is prepared once is solved beside one that is prepared anew. Printed
are the nodes that are right in the mean, of both, the mean and the range of the difference, the
nodes on which both agree, and how far a first solve moves from one change to the next.
"""

from typing import Any

import numpy as np

from docs.benchmarks.edge_families import FAMILIES
from docs.benchmarks.frame import options, share_right, show
from docs.benchmarks.large import graph_of
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto

_SEED = 3
_N_CHANGES = 20


def run(graph: Graph, classes: Int64Array, n_labels: int) -> list[Any]:
    nodes = np.random.default_rng(_SEED).permutation(classes.size)
    known = dict(zip(nodes[:n_labels].tolist(), classes[nodes[:n_labels]].tolist(), strict=True))
    wrong = list(known)[: _N_CHANGES // 2]
    known |= {node: (known[node] + 1) % (int(classes.max()) + 1) for node in wrong}
    model = Auto()
    prepared = model.prepare(graph)
    model.solve(prepared, _labels(known))
    right, agreed = np.empty((_N_CHANGES, 2)), np.empty(_N_CHANGES)
    for number in range(_N_CHANGES):
        node = int(nodes[n_labels + number]) if number % 2 == 0 else wrong[number // 2]
        known[node] = int(classes[node])
        labels = _labels(known)
        found = [
            np.asarray(labels.class_names)[model.solve(each, labels).scores.argmax(axis=1)]
            for each in (prepared, model.prepare(graph))
        ]
        right[number] = [100 * share_right(each, classes, labels.nodes) for each in found]
        agreed[number] = 100 * share_right(found[0], found[1], labels.nodes)
    apart = right[:, 0] - right[:, 1]
    moved = np.abs(np.diff(right[:, 1])).mean()
    span = float(apart.min()), float(apart.max())
    return [n_labels, *right.mean(axis=0), apart.mean(), span, agreed.mean(), moved]


def _labels(known: dict[int, int]) -> Labels:
    return Labels.from_pairs(list(known), list(known.values()))


def main() -> None:
    families = [*FAMILIES], FAMILIES
    asked = options(__doc__, families=families, nodes=30_000, labels=[60, 200, 1_000])
    columns = "labels {:,}|right % {:.2f}|first solve {:.2f}|mean {:+.2f}|range {:+.2f} to {:+.2f}|"
    columns += "agree % {:.1f}|label to label {:.2f}"
    for family in asked.families:
        graph, classes = graph_of(family, asked.nodes)
        rows = (run(graph, classes, n_labels) for n_labels in asked.labels)
        show(f"{family}: {graph.n_nodes:,} nodes", columns, rows, left=0)


if __name__ == "__main__":
    main()
