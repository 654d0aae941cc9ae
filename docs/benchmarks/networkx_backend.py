"""How long does networkx's node classification take, by itself and by Peewit's solvers?

Run ``python -m docs.benchmarks.networkx_backend``. Nodes are points of the unit square, tied to
their nearest ones; the label of a node is its quarter, known of a few. Each function runs by itself
with its 30 steps and with ``--steps``, and as ``backend="peewit"``: with the conversion of the
graph, and on the graph that networkx has kept since. Accuracy counts the nodes without label;
"as peewit" is the part of all nodes with the same class.
"""

import argparse
import time
import warnings
from typing import Any

import networkx as nx
import numpy as np
from networkx.algorithms import node_classification
from rich.console import Console
from rich.table import Table
from scipy.spatial import KDTree

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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--neighbors", type=int, default=8)
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--steps", type=int, default=1_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # that kept conversions are used, and no limit is
    graph, classes, known = labeled_square(asked.nodes, asked.neighbors, asked.labels)
    small, _, _ = labeled_square(4_000, asked.neighbors, 40)
    table = Table("function", "run by", "CPU s", "accuracy", "as peewit")
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
            start = time.process_time()
            labels = np.array(function(graph, **arguments))
            seconds = time.process_time() - start
            first = labels if first is None else first
            right = np.mean((labels == classes)[~known])
            table.add_row(
                name, told, f"{seconds:.2f}", f"{right:.2%}", f"{np.mean(labels == first):.2%}"
            )
    Console(width=100).print(f"{asked.nodes:,} nodes, {graph.number_of_edges():,} edges", table)


if __name__ == "__main__":
    main()
