"""What does an epsilon buy, beside uniform and offline sampling of as many edges?

Every graph is streamed in one block and in 100, over several seeds; the true epsilon is that of the
extreme eigenvalues relative to the graph, in the mean over seeds and, in brackets, of the worst.
The graphs are those on which leverage matters little (rectangles: the k-NN graph of 12,100 points;
mnist) and those on which uniform sampling must fail. ``inf`` means: came apart.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from docs.benchmarks.frame import CONSOLE, Figures, mean_and_worst, options
from docs.benchmarks.graphs import four_rectangles, mnist, small_clusters
from docs.benchmarks.peers import draws_for, leverages, spielman_srivastava, uniform
from docs.benchmarks.spectra import extremes
from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from peewit.streaming.sparsifier.sparsifier import expected_epsilon, sparsifier_graph, thinned
from tests.streaming import graphs as drawn
from tests.streaming.graphs import EdgeList

FULL: dict[str, Callable[[], EdgeList]] = {
    "rectangles": four_rectangles,
    "mnist": mnist,
    "two communities": lambda: drawn.two_communities(3_000, 1.0, 5, seed=0),
    "heavy tail": lambda: drawn.heavy_tailed(2_000, 1.0, seed=0),
    "core with paths": lambda: drawn.core_with_paths(2_000, 20, 50, seed=0),
    "small clusters": lambda: small_clusters(30, 100, 3),
}
QUICK: dict[str, Callable[[], EdgeList]] = {
    "rectangles": lambda: four_rectangles(600, 223),
    "two communities": lambda: drawn.two_communities(600, 1.0, 5, seed=0),
    "heavy tail": lambda: drawn.heavy_tailed(500, 1.0, seed=0),
    "core with paths": lambda: drawn.core_with_paths(500, 10, 20, seed=0),
    "small clusters": lambda: small_clusters(10, 60, 3),
}
COLUMNS = (
    "graph|asked|kept {:,.0f}|of edges {:.1%}|of n ln n/eps² {:.2f}|expected {:.3f}|"
    "one block {:.3f} ({:.3f})|blocks {:.3f} ({:.3f})|ratio {:.2f}|within {:.0%}|"
    "uniform {:.3f} ({:.3f})|offline SS {:.3f} ({:.3f})"
)


def streamed(
    edges: EdgeList, settings: SparsifierSettings, n_blocks: int
) -> tuple[Graph, float, int]:
    """The graph that would be published, the epsilon expected of it and its records."""
    state = thinned(drawn.sparsified(edges, settings, n_blocks=n_blocks), settings)
    return sparsifier_graph(state), expected_epsilon(state, settings), state.n_records


def true_epsilon(graph: Graph, sparsifier: Graph) -> float:
    """Exact epsilon, infinite when the sparsifier has come apart."""
    found = extremes(graph, sparsifier)
    return found.epsilon if found.lowest > 0.0 else math.inf


def measure(name: str, edges: EdgeList, epsilon: float, n_seeds: int, n_blocks: int) -> list[Any]:
    """Stream with every seed, and sample as many edges in the other ways; a row."""
    """Stream with every seed, and sample as many edges in the other ways."""
    graph = edges.graph()
    leverage = leverages(edges, n_probes=round(4 * math.log(edges.n_nodes)), seed=0)
    columns: list[tuple[float, ...]] = []
    for seed in range(n_seeds):
        settings = SparsifierSettings(epsilon=epsilon, expected_nodes=edges.n_nodes, seed=seed)
        whole, _, _ = streamed(edges, settings, 1)
        final, expected, kept = streamed(edges, settings, n_blocks)
        offline, _ = spielman_srivastava(edges, leverage, draws_for(leverage, kept), seed)
        columns.append(
            (
                kept,
                expected,
                true_epsilon(graph, whole),
                true_epsilon(graph, final),
                true_epsilon(graph, uniform(edges, kept, seed)),
                true_epsilon(graph, offline),
            )
        )
    kept_, expected_, one, many, even, sampled = np.array(columns).T
    unit = edges.n_nodes * math.log(edges.n_nodes) / epsilon**2
    return [
        *(f"{name} ({edges.n_nodes:,} / {edges.n_edges:,})", epsilon, kept_.mean()),
        *(kept_.mean() / edges.n_edges, kept_.mean() / unit, expected_.mean()),
        *(mean_and_worst(one), mean_and_worst(many)),
        many.mean() / one.mean() if one.mean() > 0.0 else None,
        *(np.mean(many <= epsilon), mean_and_worst(even), mean_and_worst(sampled)),
    ]


def main() -> None:
    asked = options(
        __doc__,
        quick={"seeds": 3, "epsilons": [0.9, 0.5]},
        graphs=([str], list(FULL)),
        epsilons=[0.9, 0.5, 0.3],
        seeds=10,
        blocks=100,
    )
    graphs = QUICK if asked.quick else FULL
    table = Figures(f"{asked.seeds} seeds; 'blocks' are {asked.blocks}", COLUMNS)
    for name in asked.graphs or graphs:
        begun = time.perf_counter()
        try:
            edges = graphs[name]()
        except FileNotFoundError as reason:
            CONSOLE.print(f"{name}: left out, {reason}")
            continue
        for epsilon in asked.epsilons:
            row = measure(name, edges, epsilon, asked.seeds, asked.blocks)
            table.add(*row)
            # an hour's run that is broken off has shown what it found
            took, found = time.perf_counter() - begun, f"{row[7][0]:.3f}"
            CONSOLE.print(f"{took:.0f} s: {row[0]}, {epsilon}: {row[2]:,.0f} kept, blocks {found}")
    CONSOLE.print(table)


if __name__ == "__main__":
    main()
