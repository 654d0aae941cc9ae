"""What would people take instead, and what does it cost and get right on the same work?

Sets: facebook_pagepage (22,470 pages of four kinds, 170,823 links) and mnist_knn10 (70,000 images).
Every method gets the same draws of labels and runs in a process of its own: seconds are CPU seconds
of the median draw, memory is the peak of the process from loading the graph on, libraries not
counted. ``networkx``, ``scikit-network`` and ``graphlearning`` are left out where they are missing.
"""

import importlib
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from docs.benchmarks import frame
from docs.benchmarks.accuracy import Problem, our_methods, peer_methods
from docs.benchmarks.peak_memory import peak_bytes
from peewit.solvers.arrays import Int64Array
from tests.data_sets import draw_per_class, labeled_graph

SETS = ("facebook_pagepage", "mnist_knn10")
NEEDS = {
    "auto": "peewit",
    "stable-hfs": "peewit",
    "networkx harmonic": "networkx",
    "sknetwork diffusion": "sknetwork.classification",
    "sknetwork propagation": "sknetwork.classification",
    "graphlearning poisson": "graphlearning",
    "sklearn spreading": "sklearn",
}
"""Methods, and the module that each imports."""


def networkx_harmonic(problem: Problem) -> Callable[[Int64Array], Int64Array]:
    """`networkx.algorithms.node_classification.harmonic_function` as it comes."""
    network = importlib.import_module("networkx")
    harmonic = importlib.import_module("networkx.algorithms.node_classification").harmonic_function
    graph = network.from_scipy_sparse_array(sp.csr_array(problem.graph.adjacency))

    def predict(nodes: Int64Array) -> Int64Array:
        for node in graph:
            graph.nodes[node].pop("label", None)
        for node in nodes.tolist():
            graph.nodes[node]["label"] = int(problem.classes[node])
        return np.array(harmonic(graph))

    return predict


def run(method: str, name: str, per_class: int, n_draws: int) -> tuple[list[float], float, float]:
    """Accuracy of each draw, CPU seconds of the median one, and MiB, in this process."""
    importlib.import_module(NEEDS[method])
    before = peak_bytes()
    graph, classes = labeled_graph(frame.folder(), name)
    problem = Problem(graph=graph, classes=classes, draws=lambda *_: iter(()))
    if method == "networkx harmonic":
        predict = networkx_harmonic(problem)
    elif NEEDS[method] == "peewit":
        predict = our_methods(problem, [method])[method]
    else:
        predict = peer_methods(problem, [method])[method]
    predict(draw_per_class(classes, per_class, seed=n_draws))  # compiles; thrown away
    right, seconds = [], []
    for seed in range(n_draws):
        nodes = draw_per_class(classes, per_class, seed=seed)
        predicted, taken = frame.cpu_of(predict, nodes)
        seconds.append(taken)
        right.append(frame.share_right(predicted, classes, nodes))
    return right, float(np.median(seconds)), (peak_bytes() - before) / 2**20


def main() -> None:
    labels = 10, "per class"
    asked = frame.options(__doc__, quick={"draws": 2}, set=(SETS[0], SETS), labels=labels, draws=10)
    title = f"{asked.set}, {asked.labels} labels per class, {asked.draws} draws"
    table = frame.Figures(title, "|accuracy % {:.1f}|+- {:.1f}|CPU s {:.2f}|MiB {:.0f}")
    for method in NEEDS:
        try:
            right, seconds, mib = frame.alone(run, method, asked.set, asked.labels, asked.draws)
        except ImportError as missing:
            frame.CONSOLE.print(f"left out: {method} ({missing})")
            continue
        table.add(method, *frame.mean_and_error(right), seconds, mib)
    frame.CONSOLE.print(table)


if __name__ == "__main__":
    main()
