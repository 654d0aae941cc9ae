"""How evenly does a tenth of 3.8 M edges stand for all of them, and how soon?

Four two-dimensional Gaussians, 12,100 points, union of 500-nearest-neighbor lists, unit weights,
down to 98,600 edges: kappa is the exact quotient of the extreme eigenvalues of the sparsifier
relative to the graph, seconds are CPU seconds of the sampling alone. Beside Peewit: an offline
Spielman-Srivastava sampling, with replacement, by resistances of the whole graph, and uniform
sampling.
"""

from collections.abc import Callable

import numpy as np

from docs.benchmarks.frame import cpu_of, options, show
from docs.benchmarks.graphs import four_gaussians
from docs.benchmarks.peers import draws_for, leverages, spielman_srivastava, uniform
from docs.benchmarks.spectra import extremes
from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb, resparsify, sparsifier_graph
from tests.streaming.graphs import EdgeList


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


def main() -> None:
    quick = {"n_nodes": 1_210, "k": 50, "kept": 9_860, "seeds": 3}
    asked = options(__doc__, quick=quick, n_nodes=12_100, k=500, kept=98_600, seeds=10)
    edges = four_gaussians(asked.n_nodes, asked.k)
    graph = edges.graph()
    rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in METHODS}
    for seed in range(-1, asked.seeds):
        for name, sample in METHODS.items():
            sparsifier, seconds = cpu_of(sample, edges, asked.kept, max(seed, 0))
            if seed >= 0:  # the first run compiles
                kappa = extremes(graph, sparsifier).kappa
                rows[name].append((sparsifier.n_edges, seconds, kappa))
    title = f"{edges.n_nodes:,} points, {edges.n_edges:,} edges to about {asked.kept:,}"
    columns = "|kept {:,.0f}|CPU s {:.2f}|kappa mean {:.2f}|kappa worst {:.2f}"
    shown = ((name, *np.mean(each, axis=0), max(each)[2]) for name, each in rows.items())
    show(f"{title}; {asked.seeds} seeds", columns, shown)


if __name__ == "__main__":
    main()
