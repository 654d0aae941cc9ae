"""What does a first solve of a large graph cost, one label more, and what would others take?

Every method runs in a process of its own on the same graph in memory and the same random labels, on
one thread: CPU seconds of a first answer and of one with a label more, peak memory from the graph
on, and the share of the other nodes that are right, beside the commonest class. What a method makes
of the graph counts to its first answer.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from docs.benchmarks.default_model import unit_graph
from docs.benchmarks.edge_families import FAMILIES, made
from docs.benchmarks.frame import CONSOLE, Figures, alone, cpu_of, installed, options, share_right
from docs.benchmarks.peak_memory import peak_bytes
from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE

OURS = ("auto", "harmonic-mbo", "stable-hfs", "hfs")
PEERS = ("sknetwork diffusion", "sknetwork pagerank")
_WARM_NODES = 3_000

Answer = Callable[[Int64Array], Int64Array]


def graph_of(family: str, n_nodes: int) -> tuple[Graph, Int64Array]:
    """A graph of unit weights, parallel edges summed, and the class of every node."""
    u, v, classes = made(family, n_nodes)
    return unit_graph(u, v, n_nodes), classes


def ours(name: str, graph: Graph, classes: Int64Array) -> Answer:
    model = CATALOGUE[name]()
    kept = []

    def answer(nodes: Int64Array) -> Int64Array:
        labels = Labels.from_pairs(nodes, classes[nodes])
        if not kept:
            kept.append(model.prepare(graph))
        scores = model.solve(kept[0], labels).scores
        return np.asarray(labels.class_names)[scores.argmax(axis=1)]

    return answer


def peer(name: str, graph: Graph, classes: Int64Array) -> Answer:
    """A classifier of scikit-network, with its own parameters but for fifty steps of diffusion."""
    classification: Any = importlib.import_module("sknetwork.classification")
    adjacency = sp.csr_matrix(graph.adjacency)

    def answer(nodes: Int64Array) -> Int64Array:
        known = dict(zip(nodes.tolist(), classes[nodes].tolist(), strict=True))
        if name == "sknetwork diffusion":
            model = classification.DiffusionClassifier(n_iter=50)
        else:
            model = classification.PageRankClassifier()
        return np.asarray(model.fit_predict(adjacency, labels=known))

    return answer


def run(method: str, family: str, n_nodes: int, n_labels: int) -> tuple[float, float, float, float]:
    """CPU seconds of the first answer and of the next, MiB, and the share that is right."""
    for size in (_WARM_NODES, n_nodes):  # the small one compiles
        graph, classes = graph_of(family, size)
        nodes = np.random.default_rng(1).permutation(size)[: n_labels + 1]
        first, more = np.sort(nodes[:-1]), np.sort(nodes)
        answer = (ours if method in OURS else peer)(method, graph, classes)
        before = peak_bytes()
        found, once = cpu_of(answer, first)
        _, again = cpu_of(answer, more)
    return once, again, (peak_bytes() - before) / 2**20, 100 * share_right(found, classes, first)


def main() -> None:
    every = [*OURS, *PEERS]
    families = [*FAMILIES], FAMILIES
    asked = options(
        __doc__, families=families, nodes=1_000_000, labels=2_000, methods=(every, every)
    )
    for family in asked.families:
        graph, classes = graph_of(family, asked.nodes)
        commonest = np.bincount(classes).max() / classes.size
        table = Figures(
            f"{family}: {graph.n_nodes:,} nodes, {graph.n_edges:,} edges, {asked.labels:,} "
            f"labels; commonest class {commonest:.1%}",
            "|first, CPU s {:.1f}|one label more {:.1f}|MiB {:,.0f}|right % {:.1f}",
        )
        del graph
        for method in asked.methods:
            if method in OURS or installed("sknetwork"):
                table.add(method, *alone(run, method, family, asked.nodes, asked.labels))
        CONSOLE.print(table)


if __name__ == "__main__":
    main()
    main()
