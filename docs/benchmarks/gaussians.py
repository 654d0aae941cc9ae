"""How evenly does a tenth of 3.8 M edges stand for all of them, and how soon?

Run ``python -m docs.benchmarks.gaussians`` or ``--quick``. Four two-dimensional Gaussians, 12,100
points, union of 500-nearest-neighbor lists, unit weights, down to 98,600 edges: kappa is the exact
quotient of the extreme eigenvalues of the sparsifier relative to the graph, seconds are CPU seconds
of the sampling alone. Beside Peewit: an offline Spielman-Srivastava sampling, with replacement, by
resistances of the whole graph, and uniform sampling.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from rich.console import Console
from rich.table import Table

from docs.benchmarks.graphs import four_gaussians
from docs.benchmarks.peers import draws_for, leverages, spielman_srivastava, uniform
from docs.benchmarks.spectra import extremes
from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb, resparsify, sparsifier_graph
from tests.streaming.graphs import EdgeList


@dataclass(slots=True)
class Outcomes:
    """What the seeds gave."""

    seconds: list[float] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    kappa: list[float] = field(default_factory=list)


def peewit(edges: EdgeList, n_kept: int, seed: int) -> Graph:
    """All edges in one block, resparsified once with ``max_edges``."""
    # max_edges is an upper bound that random counts stay below: three deviations are left free
    settings = SparsifierSettings(
        epsilon=0.1,
        expected_nodes=edges.n_nodes,
        max_edges=round(n_kept + 3.0 * np.sqrt(n_kept)),
        seed=seed,
    )
    block = edges.blocks(1)[0]
    state = SparsifierState()
    state = absorb(state, settings, [block], n_nodes=edges.n_nodes)
    return sparsifier_graph(resparsify(state, settings))


def offline(edges: EdgeList, n_kept: int, seed: int) -> Graph:
    """Spielman-Srivastava with resistances of the whole graph, 4 ln n probes."""
    leverage = leverages(edges, n_probes=round(4 * np.log(edges.n_nodes)), seed=seed)
    graph, _ = spielman_srivastava(edges, leverage, draws_for(leverage, n_kept), seed)
    return graph


METHODS: dict[str, Callable[[EdgeList, int, int], Graph]] = {
    "peewit": peewit,
    "offline Spielman-Srivastava": offline,
    "uniform": uniform,
}


def compare(edges: EdgeList, n_kept: int, n_seeds: int) -> dict[str, Outcomes]:
    """Every method with every seed; the first run of each is thrown away (compilation)."""
    graph = edges.graph()
    outcomes = {name: Outcomes() for name in METHODS}
    for seed in range(-1, n_seeds):
        for name, sample in METHODS.items():
            begun = time.process_time()
            sparsifier = sample(edges, n_kept, max(seed, 0))
            seconds = time.process_time() - begun
            if seed >= 0:
                outcomes[name].seconds.append(seconds)
                outcomes[name].kept.append(sparsifier.n_edges)
                outcomes[name].kappa.append(extremes(graph, sparsifier).kappa)
    return outcomes


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-nodes", type=int, default=12_100)
    parser.add_argument("--k", type=int, default=500)
    parser.add_argument("--kept", type=int, default=98_600)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="1,210 points, k = 50, 3 seeds")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.n_nodes, arguments.k, arguments.kept, arguments.seeds = 1_210, 50, 9_860, 3
    edges = four_gaussians(arguments.n_nodes, arguments.k)
    table = Table(
        title=f"{edges.n_nodes:,} points, {edges.n_edges:,} edges to about {arguments.kept:,}; "
        f"{arguments.seeds} seeds"
    )
    for heading in ("", "kept", "CPU s", "kappa mean", "kappa worst"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, outcome in compare(edges, arguments.kept, arguments.seeds).items():
        table.add_row(
            name,
            f"{np.mean(outcome.kept):,.0f}",
            f"{np.mean(outcome.seconds):.2f}",
            f"{np.mean(outcome.kappa):.2f}",
            f"{np.max(outcome.kappa):.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
