"""How long does networkx's node classification take, by itself and by Peewit's solvers?

Nodes are points of the unit square, tied to their nearest ones; the label of a node is its quarter,
known of a few. Each function runs by itself with its 30 steps and with ``--steps``, and as
``backend="peewit"``: with the conversion of the graph, and on the graph that networkx has kept
since. "As peewit" is the part of all nodes with the same class.
"""

import warnings
from typing import Any

import networkx as nx
import numpy as np
from networkx.algorithms import node_classification
from scipy.spatial import KDTree

from docs.benchmarks.frame import CONSOLE, cpu_of, options, show
from peewit.solvers.arrays import AnyArray, BoolArray

FUNCTIONS = ("harmonic_function", "local_and_global_consistency")


def labeled_square(
    n_nodes: int, n_neighbors: int, n_labels: int
) -> tuple[Any, AnyArray, BoolArray]:
    """The graph, the class of each node, and which are known."""
    rng = np.random.default_rng(0)
    points = rng.random((n_nodes, 2))
    _, near = KDTree(points).query(points, n_neighbors + 1)
    graph = nx.Graph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from((node, int(other)) for node in range(n_nodes) for other in near[node, 1:])
    classes = 2 * (points[:, 0] > 0.5) + (points[:, 1] > 0.5)
    known = np.zeros(n_nodes, bool)
    known[rng.permutation(n_nodes)[:n_labels]] = True
    for node in np.flatnonzero(known).tolist():
        graph.nodes[node]["label"] = int(classes[node])
    return graph, classes, known


def main() -> None:
    asked = options(__doc__, nodes=100_000, neighbors=8, labels=300, steps=1_000)
    warnings.simplefilter("ignore", UserWarning)  # that kept conversions are used, and no limit is
    graph, classes, known = labeled_square(asked.nodes, asked.neighbors, asked.labels)
    small, _, _ = labeled_square(4_000, asked.neighbors, 40)
    rows = []
    for name in FUNCTIONS:
        function = getattr(node_classification, name)
        function(small, backend="peewit")  # compiles
        runs: list[tuple[str, dict[str, Any]]] = [
            ("peewit, converting", {"backend": "peewit", "max_iter": 1_000}),
            ("peewit, converted", {"backend": "peewit", "max_iter": 1_000}),
            ("networkx, 30 steps", {}),
            (f"networkx, {asked.steps:,} steps", {"max_iter": asked.steps}),
        ]
        graph.__networkx_cache__.clear()
        first = None
        for told, arguments in runs:
            labels, seconds = cpu_of(
                lambda call, given: np.array(call(graph, **given)), function, arguments
            )
            first = labels if first is None else first
            same = np.mean(labels == first)
            rows.append((name, told, seconds, np.mean((labels == classes)[~known]), same))
    CONSOLE.print(f"{asked.nodes:,} nodes, {graph.number_of_edges():,} edges")
    show("", "function|run by|CPU s {:.2f}|accuracy {:.2%}|as peewit {:.2%}", rows, left=2)


if __name__ == "__main__":
    main()
