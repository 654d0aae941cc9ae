"""What does a first solve of a large graph cost, one label more, and what would others take?

Run ``python -m docs.benchmarks.large [--nodes 1_000_000] [--families rings ...]``. Every method
runs in a process of its own on the same graph in memory and the same random labels, on one thread:
CPU seconds of a first answer and of one with a label more, peak memory from the graph on, and the
share of the other nodes that are right, beside the commonest class. What a method makes of the
graph counts to its first answer. Peers are left out where they are not installed.
"""

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from docs.benchmarks.edge_families import FAMILIES, made
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
    apart = u != v
    graph = Graph.from_edges(u[apart], v[apart], np.ones(np.count_nonzero(apart)), n_nodes=n_nodes)
    return graph, classes


def ours(name: str, graph: Graph, classes: Int64Array) -> Answer:
    """A model of ours, prepared when it is first asked."""
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
        before, begun = peak_bytes(), time.process_time()
        found = answer(first)
        once = time.process_time() - begun
        answer(more)
        again = time.process_time() - begun - once
    asked = np.ones(n_nodes, bool)
    asked[first] = False
    mib = (peak_bytes() - before) / 2**20
    return once, again, mib, float((found == classes)[asked].mean())


def main() -> None:
    """Print a table for each family."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=[*FAMILIES])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=2_000)
    parser.add_argument("--methods", nargs="+", choices=[*OURS, *PEERS], default=[*OURS, *PEERS])
    options = parser.parse_args()
    console = Console(width=120)
    has_peers = importlib.util.find_spec("sknetwork") is not None
    for family in options.families:
        graph, classes = graph_of(family, options.nodes)
        commonest = np.bincount(classes).max() / classes.size
        table = Table(
            title=f"{family}: {graph.n_nodes:,} nodes, {graph.n_edges:,} edges, {options.labels:,} "
            f"labels; commonest class {commonest:.1%}"
        )
        del graph
        for name in ("", "first, CPU s", "one label more", "MiB", "right %"):
            table.add_column(name, justify="left" if not name else "right")
        for method in options.methods:
            if method in PEERS and not has_peers:
                console.print(f"{method} is not installed")
                continue
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                task = pool.submit(run, method, family, options.nodes, options.labels)
                once, again, mib, right = task.result()
            table.add_row(
                method, f"{once:.1f}", f"{again:.1f}", f"{mib:,.0f}", f"{100 * right:.1f}"
            )
        console.print(table)


if __name__ == "__main__":
    main()
