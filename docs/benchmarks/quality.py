"""What does an epsilon buy, beside uniform and offline sampling of as many edges?

Run ``python -m docs.benchmarks.quality`` or ``--quick``; ``--graphs`` names some of the graphs.
Every graph is streamed in one block and in 100, over several seeds; the true epsilon is that of the
extreme eigenvalues relative to the graph, in the mean over seeds and, in brackets, of the worst.
The graphs are those on which leverage matters little (rectangles: the k-NN graph of 12,100 points;
mnist) and those on which uniform sampling must fail. ``inf`` means: came apart.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks.graphs import four_rectangles, mnist, small_clusters
from docs.benchmarks.peers import draws_for, leverages, spielman_srivastava, uniform
from docs.benchmarks.spectra import extremes
from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from peewit.streaming.sparsifier.sparsifier import expected_epsilon, sparsifier_graph, thinned
from tests.streaming.graphs import (
    EdgeList,
    core_with_paths,
    heavy_tailed,
    sparsified,
    two_communities,
)

FULL: dict[str, Callable[[], EdgeList]] = {
    "rectangles": four_rectangles,
    "mnist": mnist,
    "two communities": lambda: two_communities(3_000, 1.0, 5, seed=0),
    "heavy tail": lambda: heavy_tailed(2_000, 1.0, seed=0),
    "core with paths": lambda: core_with_paths(2_000, 20, 50, seed=0),
    "small clusters": lambda: small_clusters(30, 100, 3),
}
QUICK: dict[str, Callable[[], EdgeList]] = {
    "rectangles": lambda: four_rectangles(600, 223),
    "two communities": lambda: two_communities(600, 1.0, 5, seed=0),
    "heavy tail": lambda: heavy_tailed(500, 1.0, seed=0),
    "core with paths": lambda: core_with_paths(500, 10, 20, seed=0),
    "small clusters": lambda: small_clusters(10, 60, 3),
}
LABELS = (
    "graph",
    "asked",
    "kept",
    "of edges",
    "of n ln n/eps²",
    "expected",
    "one block",
    "blocks",
    "ratio",
    "within",
    "uniform",
    "offline SS",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Outcome of one graph and one epsilon; arrays have one entry per seed."""

    kept: np.ndarray
    expected: np.ndarray
    one_block: np.ndarray
    blocks: np.ndarray
    uniform: np.ndarray
    offline: np.ndarray


def streamed(
    edges: EdgeList, settings: SparsifierSettings, n_blocks: int
) -> tuple[Graph, float, int]:
    """The graph that would be published, the epsilon expected of it and its records."""
    state = thinned(sparsified(edges, settings, n_blocks=n_blocks), settings)
    return sparsifier_graph(state), expected_epsilon(state, settings), state.n_records


def true_epsilon(graph: Graph, sparsifier: Graph) -> float:
    """Exact epsilon, infinite when the sparsifier has come apart."""
    found = extremes(graph, sparsifier)
    return found.epsilon if found.lowest > 0.0 else math.inf


def measure(
    edges: EdgeList, epsilon: float, n_seeds: int, n_blocks: int, slack: float | None
) -> Row:
    """Stream with every seed, and sample as many edges in the other ways."""
    graph = edges.graph()
    leverage = leverages(edges, n_probes=round(4 * math.log(edges.n_nodes)), seed=0)
    columns: list[tuple[float, ...]] = []
    for seed in range(n_seeds):
        settings = SparsifierSettings(epsilon=epsilon, expected_nodes=edges.n_nodes, seed=seed)
        if slack is not None:
            settings = SparsifierSettings(
                epsilon=epsilon, expected_nodes=edges.n_nodes, seed=seed, slack=slack
            )
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
    return Row(
        kept=kept_, expected=expected_, one_block=one, blocks=many, uniform=even, offline=sampled
    )


def main() -> None:
    """Print one line per graph and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", nargs="+", choices=list(FULL), default=None)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.9, 0.5, 0.3])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--slack", type=float, default=None, help="instead of the default")
    parser.add_argument("--quick", action="store_true", help="small graphs, 3 seeds, two epsilons")
    arguments = parser.parse_args()
    graphs = FULL
    if arguments.quick:
        graphs, arguments.seeds, arguments.epsilons = QUICK, 3, [0.9, 0.5]
    console = Console(width=190)
    table = Table(title=f"{arguments.seeds} seeds; 'blocks' are {arguments.blocks}")
    for label in LABELS:
        table.add_column(label, justify="left" if label == "graph" else "right")
    for name in arguments.graphs or graphs:
        if name not in graphs:
            console.print(f"{name}: not among the quick graphs")
            continue
        begun = time.perf_counter()
        try:
            edges = graphs[name]()
        except FileNotFoundError as reason:
            console.print(f"{name}: left out, {reason}")
            continue
        for epsilon in arguments.epsilons:
            row = measure(edges, epsilon, arguments.seeds, arguments.blocks, arguments.slack)
            cells = _cells(name, edges, epsilon, row)
            table.add_row(*cells)
            # an hour's run that is broken off has shown what it found
            console.print(f"{time.perf_counter() - begun:.0f} s: {' | '.join(cells)}")
    console.print(table)


def _cells(name: str, edges: EdgeList, epsilon: float, row: Row) -> list[str]:
    kept = float(row.kept.mean())
    unit = edges.n_nodes * math.log(edges.n_nodes) / epsilon**2
    one = float(row.one_block.mean())
    return [
        f"{name} ({edges.n_nodes:,} / {edges.n_edges:,})",
        f"{epsilon}",
        f"{kept:,.0f}",
        f"{kept / edges.n_edges:.1%}",
        f"{kept / unit:.2f}",
        f"{row.expected.mean():.3f}",
        _mean_and_worst(row.one_block),
        _mean_and_worst(row.blocks),
        f"{row.blocks.mean() / one:.2f}" if one > 0.0 else "-",
        f"{np.mean(row.blocks <= epsilon):.0%}",
        _mean_and_worst(row.uniform),
        _mean_and_worst(row.offline),
    ]


def _mean_and_worst(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ({values.max():.3f})"


if __name__ == "__main__":
    main()
