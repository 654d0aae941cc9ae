"""What do deleted edges do to the accuracy, and what does it cost to strike them?

Run ``python -m docs.benchmarks.deletions`` or ``--quick``. Six communities of 200 nodes with
240,000 random edges, and ten between each two of them, are streamed, asked for epsilon .7, and
thinned. Then some edges are deleted, and the true error of what is left is compared by dense
algebra with the expected one and with that of a stream that never had them. Deleted are edges at
random, four fifths of the edges of some users, or nine tenths of the edges between communities.
"Came apart" counts seeds in which the sparsifier has more components than the graph, and so an
infinite error; the others make the means. The last table strikes pairs from a sparsifier of a
million nodes, in nanoseconds of CPU for each of its records.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from peewit.solvers.arrays import BoolArray, Int32Array
from peewit.solvers.graph import Graph
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import (
    absorb,
    expected_epsilon,
    is_full,
    resparsify,
    sparsifier_graph,
)
from peewit.streaming.sparsifier.strikes import n_split, strike
from tests.reference.spectrum import spectral_error

N_COMMUNITIES: Final = 6
SIZE: Final = 200
N_NODES: Final = N_COMMUNITIES * SIZE
N_EDGES: Final = 240_000
N_BETWEEN: Final = 10
"""Edges between each two communities."""

BLOCKS: Final = 16
STRUCK: Final = (1_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """Edges of weight 1, in the order of the stream."""

    u: Int32Array
    v: Int32Array

    def where(self, is_taken: BoolArray) -> "Edges":
        """Those that are marked."""
        return Edges(u=self.u[is_taken], v=self.v[is_taken])

    def graph(self) -> Graph:
        """All of them."""
        return Graph.from_edges(self.u, self.v, np.ones(self.u.size), n_nodes=N_NODES)


def communities(seed: int) -> Edges:
    """Dense communities, joined by a few edges."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, N_COMMUNITIES, N_EDGES) * SIZE
    u, v = (own + rng.integers(0, SIZE, N_EDGES) for _ in range(2))
    first, second = np.triu_indices(N_COMMUNITIES, 1)
    far_u, far_v = (
        np.repeat(each * SIZE, N_BETWEEN) + rng.integers(0, SIZE, first.size * N_BETWEEN)
        for each in (first, second)
    )
    u, v = np.concatenate([u, far_u]), np.concatenate([v, far_v])
    order = rng.permutation(u.size)
    order = order[u[order] != v[order]]
    return Edges(u=u[order].astype(np.int32), v=v[order].astype(np.int32))


def _users(edges: Edges, rng: np.random.Generator) -> BoolArray:
    users = rng.choice(N_NODES, N_NODES // 50, replace=False)
    touches = np.isin(edges.u, users) | np.isin(edges.v, users)
    return touches & (rng.random(edges.u.size) < 0.8)


def _between(edges: Edges, rng: np.random.Generator) -> BoolArray:
    is_far = edges.u // SIZE != edges.v // SIZE
    return is_far & (rng.random(edges.u.size) < 0.9)


SCENARIOS: Final[dict[str, Callable[[Edges, np.random.Generator], BoolArray]]] = {
    "1 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.01,
    "10 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.1,
    "30 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.3,
    "50 % at random": lambda edges, rng: rng.random(edges.u.size) < 0.5,
    "80 % of 2 % of the nodes": _users,
    "9 of 10 edges between communities": _between,
}


def streamed(edges: Edges, settings: SparsifierSettings) -> SparsifierState:
    """The sparsifier of a stream, thinned at its end."""
    state = SparsifierState()
    for rows in np.array_split(np.arange(edges.u.size), BLOCKS):
        block = EdgeBlock(
            u=edges.u[rows],
            v=edges.v[rows],
            weight=np.ones(rows.size, np.float32),
            n_self_loops=0,
            n_rows=rows.size,
        )
        state = absorb(state, settings, [block], n_nodes=N_NODES)
        if is_full(state, settings):
            state = resparsify(state, settings)
    return resparsify(state, settings)


def show_errors(n_seeds: int, console: Console) -> None:
    """True and expected errors, means and largest over the seeds."""
    table = Table(title=f"errors, asked .7: mean (largest) over {n_seeds} seeds")
    headings = "deleted", "before", "after", "expected after", "fresh", "came apart", "said so"
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "deleted" else "right")
    for name, choose in SCENARIOS.items():
        found = []
        for seed in range(n_seeds):
            edges, rng = communities(seed), np.random.default_rng(seed)
            settings = SparsifierSettings(seed=seed, expected_nodes=N_NODES)
            is_deleted = choose(edges, rng)
            gone = edges.where(is_deleted)
            # a pair goes with all its parallel edges
            keys = [np.minimum(e.u, e.v) * N_NODES + np.maximum(e.u, e.v) for e in (edges, gone)]
            left = edges.where(~np.isin(*keys))
            state = streamed(edges, settings)
            before = spectral_error(edges.graph(), sparsifier_graph(state))
            struck = strike(state, gone.u, gone.v)
            graph, kept = left.graph(), sparsifier_graph(struck)
            is_whole = np.array_equal(graph.component, kept.component)
            after = spectral_error(graph, kept) if is_whole else np.inf
            fresh = spectral_error(graph, sparsifier_graph(streamed(left, settings)))
            told = expected_epsilon(struck, settings), fresh, n_split(struck) > 0
            found.append((before, after, *told))
        before, after, expected, fresh, split = np.array(found, np.float64).T
        is_apart = np.isinf(after)
        shown = before, after[~is_apart], expected, fresh
        texts = [f"{e.mean():.2f} ({e.max():.2f})" if e.size else "-" for e in shown]
        table.add_row(name, *texts, str(is_apart.sum()), str(int(split.sum())))
    console.print(table)


def show_costs(n_nodes: int, console: Console) -> None:
    """CPU nanoseconds of a strike for each record of the sparsifier."""
    rng = np.random.default_rng(0)
    n_edges = 10 * n_nodes
    u, v = rng.integers(0, n_nodes, (2, n_edges), dtype=np.int32)
    block = EdgeBlock(u=u, v=v, weight=np.ones(n_edges, np.float32), n_self_loops=0, n_rows=n_edges)
    state = absorb(SparsifierState(), SparsifierSettings(), [block], n_nodes=n_nodes)
    strike(state, u[:10], v[:10])  # compiles
    table = Table(title=f"a strike from {state.n_records:,} records of {n_nodes:,} nodes")
    table.add_column("pairs", justify="right")
    table.add_column("ns of CPU a record", justify="right")
    for n_pairs in STRUCK:
        chosen = rng.choice(n_edges, min(n_pairs, n_edges), replace=False)
        began = time.process_time()
        strike(state, u[chosen], v[chosen])
        seconds = time.process_time() - began
        table.add_row(f"{chosen.size:,}", f"{1e9 * seconds / state.n_records:.1f}")
    console.print(table)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one seed, 20,000 nodes")
    arguments = parser.parse_args()
    console = Console()
    show_errors(1 if arguments.quick else arguments.seeds, console)
    show_costs(20_000 if arguments.quick else 1_000_000, console)


if __name__ == "__main__":
    main()
