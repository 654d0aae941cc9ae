"""What would people take instead, and what does it cost and get right on the same work?

Run ``python -m docs.benchmarks.alternatives`` or ``--set mnist_knn10``; ``PEEWIT_DATA`` names the
folder of facebook_pagepage (22,470 pages of four kinds, 170,823 links) and mnist_knn10 (70,000
images). Every method gets the same draws of labels and runs in a process of its own: seconds are
CPU seconds of the median draw, memory is the peak of the process from loading the graph on,
libraries not counted. Accuracy counts the nodes without label. ``networkx``, ``scikit-network``
and ``graphlearning`` are left out where they are not installed, and said to be.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

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


def run(
    method: str, folder: Path, name: str, per_class: int, n_draws: int
) -> tuple[list[float], float, float]:
    """Accuracy of each draw, CPU seconds of the median one, and MiB, in this process."""
    importlib.import_module(NEEDS[method])
    before = peak_bytes()
    graph, classes = labeled_graph(folder, name)
    problem = Problem(graph=graph, classes=classes, draws=lambda *_: iter(()))
    if method == "networkx harmonic":
        predict = networkx_harmonic(problem)
    elif NEEDS[method] == "peewit":
        predict = our_methods(problem, [method])[method]
    else:
        predict = peer_methods(problem, [method], Console(quiet=True))[method]
    predict(draw_per_class(classes, per_class, seed=n_draws))  # compiles; thrown away
    right, seconds = [], []
    for seed in range(n_draws):
        nodes = draw_per_class(classes, per_class, seed=seed)
        asked = classes >= 0
        asked[nodes] = False
        begun = time.process_time()
        predicted = predict(nodes)
        seconds.append(time.process_time() - begun)
        right.append(float((predicted == classes)[asked].mean()))
    return right, float(np.median(seconds)), (peak_bytes() - before) / 2**20


def main() -> None:
    """Print one row for each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=SETS, default=SETS[0])
    parser.add_argument("--labels", type=int, default=10, help="per class")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two draws")
    arguments = parser.parse_args()
    folder = os.environ.get("PEEWIT_DATA")
    if not folder:
        print("skipped: PEEWIT_DATA is not set; it names the folder of the set")  # noqa: T201 - why
        sys.exit(0)
    n_draws = 2 if arguments.quick else arguments.draws
    console = Console(width=max(100, Console().width))
    table = Table(title=f"{arguments.set}, {arguments.labels} labels per class, {n_draws} draws")
    for heading in ("", "accuracy %", "+-", "CPU s", "MiB"):
        table.add_column(heading, justify="right" if heading else "left")
    for method in NEEDS:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            asked = method, Path(folder), arguments.set, arguments.labels, n_draws
            work = alone.submit(run, *asked)
            try:
                right, seconds, mebibytes = work.result()
            except ImportError as missing:
                console.print(f"left out: {method} ({missing})")
                continue
        error = 100 * np.std(right, ddof=1) / len(right) ** 0.5
        cells = f"{100 * np.mean(right):.1f}", f"{error:.1f}", f"{seconds:.2f}", f"{mebibytes:.0f}"
        table.add_row(method, *cells)
    console.print(table)


if __name__ == "__main__":
    main()
