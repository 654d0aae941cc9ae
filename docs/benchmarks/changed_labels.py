"""How far are answers of `auto` for changed labels from those of a first solve?

Run ``python -m docs.benchmarks.changed_labels [--families road ...] [--nodes 30_000]``. Twenty
labels change one after another: every other one is new, the rest are corrections of wrong ones.
Each time a graph that is prepared once is solved beside one that is prepared anew. Printed are the
nodes that are right in the mean, of both, the mean and the range of the difference, the nodes on
which both agree, and how far a first solve moves from one change to the next.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks.edge_families import FAMILIES
from docs.benchmarks.large import graph_of
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto

_SEED = 3
_N_CHANGES = 20


def run(graph: Graph, classes: Int64Array, n_labels: int) -> list[str]:
    """A row of the table."""
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
        asked = np.ones(classes.size, bool)
        asked[labels.nodes] = False
        found = [
            np.asarray(labels.class_names)[model.solve(each, labels).scores.argmax(axis=1)]
            for each in (prepared, model.prepare(graph))
        ]
        right[number] = [100 * (each == classes)[asked].mean() for each in found]
        agreed[number] = 100 * (found[0] == found[1])[asked].mean()
    apart = right[:, 0] - right[:, 1]
    moved = np.abs(np.diff(right[:, 1])).mean()
    means = right.mean(axis=0)
    return [
        f"{n_labels:,}",
        *(f"{each:.2f}" for each in means),
        f"{apart.mean():+.2f}",
        f"{apart.min():+.2f} to {apart.max():+.2f}",
        f"{agreed.mean():.1f}",
        f"{moved:.2f}",
    ]


def _labels(known: dict[int, int]) -> Labels:
    return Labels.from_pairs(list(known), list(known.values()))


def main() -> None:
    """Print a table for each family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=[*FAMILIES])
    parser.add_argument("--nodes", type=int, default=30_000)
    parser.add_argument("--labels", nargs="+", type=int, default=[60, 200, 1_000])
    options = parser.parse_args()
    console = Console(width=120)
    for family in options.families:
        graph, classes = graph_of(family, options.nodes)
        table = Table(title=f"{family}: {graph.n_nodes:,} nodes")
        names = "labels", "right %", "first solve", "mean", "range", "agree %", "label to label"
        for name in names:
            table.add_column(name, justify="right")
        for n_labels in options.labels:
            table.add_row(*run(graph, classes, n_labels))
        console.print(table)


if __name__ == "__main__":
    main()
