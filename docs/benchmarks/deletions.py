"""What do deleted edges do to the accuracy? What they cost is told by `deletion_costs`.

Six communities of 200 nodes with 240,000 random edges, and ten between each two of them, are
streamed and thinned. Then some edges are deleted, at once or in batches, and the true error of what
is left is found by dense algebra: *exact*, after the repairs that exact deletions make, with the
largest on the way, how often some and all edges were sampled anew for each seed, and how many times
what is left; and *fresh*, of a stream that never had the deleted edges.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from docs.benchmarks.frame import CONSOLE, Figures, mean_and_worst, options
from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    Int64Array,
    IntArray,
)
from peewit.solvers.graph import Graph
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.sparsifier.repair import Repair, repair, resolved
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import (
    absorb,
    is_full,
    resparsify,
    sparsifier_graph,
    thinned,
)
from peewit.streaming.sparsifier.strikes import strike
from tests.reference.spectrum import spectral_error

N_COMMUNITIES: Final = 6
SIZE: Final = 200
N_NODES: Final = N_COMMUNITIES * SIZE
N_EDGES: Final = 240_000
N_BETWEEN: Final = 10
"""Edges between each two communities."""

BLOCKS: Final = 16
LOOK_AFTER: Final = 10
"""Batches after which errors are found."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edges:
    """Edges in the order of the stream."""

    u: Int32Array
    v: Int32Array
    weight: Float32Array

    @classmethod
    def shuffled(cls, u: IntArray, v: IntArray, weight: FloatArray, seed: int) -> "Edges":
        """Those that are no self-loops, in random order."""
        order = np.random.default_rng(seed).permutation(np.flatnonzero(u != v))
        return cls(
            u=u[order].astype(np.int32),
            v=v[order].astype(np.int32),
            weight=weight[order].astype(np.float32),
        )

    def where(self, taken: BoolArray | IntArray) -> "Edges":
        return Edges(u=self.u[taken], v=self.v[taken], weight=self.weight[taken])

    @property
    def pairs(self) -> Int64Array:
        """A number for each one's unordered pair."""
        return np.minimum(self.u, self.v).astype(np.int64) * N_NODES + np.maximum(self.u, self.v)

    def graph(self) -> Graph:
        return Graph.from_edges(self.u, self.v, self.weight.astype(float), n_nodes=N_NODES)

    def blocks(self) -> list[EdgeBlock]:
        parts = (self.where(rows) for rows in np.array_split(np.arange(self.u.size), BLOCKS))
        return [
            EdgeBlock(u=part.u, v=part.v, weight=part.weight, n_rows=part.u.size)
            for part in parts
            if part.u.size
        ]


def communities(seed: int, *, heaviest: float = 0.0, n_between: int = N_BETWEEN) -> Edges:
    """Dense communities, joined by a few edges, or also by one that is heavy."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, N_COMMUNITIES, N_EDGES) * SIZE
    u, v = (own + rng.integers(0, SIZE, N_EDGES) for _ in range(2))
    first, second = np.triu_indices(N_COMMUNITIES, 1)
    far_u, far_v = (
        np.repeat(each * SIZE, n_between) + rng.integers(0, SIZE, first.size * n_between)
        for each in (first, second)
    )
    ends = np.concatenate([u, far_u, first * SIZE]), np.concatenate([v, far_v, second * SIZE])
    weight = np.ones(ends[0].size)
    weight[u.size + far_u.size :] = heaviest
    is_there = weight > 0.0
    return Edges.shuffled(ends[0][is_there], ends[1][is_there], weight[is_there], seed)


def _hubs(seed: int) -> Edges:
    """Communities, and a node that heavy edges join to all."""
    edges, rest = communities(seed), np.arange(1, N_NODES)
    return Edges.shuffled(
        np.concatenate([edges.u, np.zeros(rest.size, np.int64)]),
        np.concatenate([edges.v, rest]),
        np.concatenate([edges.weight, np.full(rest.size, 50.0)]),
        seed,
    )


def _randomly(share: float) -> "Choice":
    return lambda edges, rng: rng.random(edges.u.size) < share


def _users(edges: Edges, rng: np.random.Generator) -> BoolArray:
    users = rng.choice(N_NODES, N_NODES // 50, replace=False)
    touches = np.isin(edges.u, users) | np.isin(edges.v, users)
    return touches & (rng.random(edges.u.size) < 0.8)


def _between(edges: Edges, rng: np.random.Generator) -> BoolArray:
    is_far = edges.u // SIZE != edges.v // SIZE
    return is_far & (rng.random(edges.u.size) < 0.9)


def _inside(edges: Edges, rng: np.random.Generator) -> BoolArray:
    is_inside = (edges.u < SIZE) & (edges.v < SIZE)
    return np.asarray(is_inside & (rng.random(edges.u.size) < 0.97))


def _node(edges: Edges, rng: np.random.Generator) -> BoolArray:
    touches = np.asarray((edges.u == SIZE) | (edges.v == SIZE))
    return touches & (rng.random(edges.u.size) < 0.95)


def _heavy(edges: Edges, rng: np.random.Generator) -> BoolArray:
    return np.asarray(edges.weight > 1.0)


Choice: TypeAlias = Callable[[Edges, np.random.Generator], BoolArray]

SCENARIOS: Final[dict[str, tuple[Callable[[int], Edges], Choice]]] = {
    "1 % at random": (communities, _randomly(0.01)),
    "10 % at random": (communities, _randomly(0.1)),
    "30 % at random": (communities, _randomly(0.3)),
    "50 % at random": (communities, _randomly(0.5)),
    "80 % of 2 % of the nodes": (communities, _users),
    "97 % inside one community": (communities, _inside),
    "9 of 10 edges between communities": (communities, _between),
    "heavy edges over 60 light ones": (partial(communities, heaviest=600.0, n_between=60), _heavy),
    "95 % of one node": (communities, _node),
    "heavy edges of a hub to all": (_hubs, _heavy),
}


def streamed(edges: Edges, settings: SparsifierSettings) -> SparsifierState:
    state = SparsifierState()
    for block in edges.blocks():
        state = absorb(state, settings, [block], n_nodes=N_NODES)
        if is_full(state, settings):
            state = resparsify(state, settings)
    return resparsify(state, settings)


def played(name: str, epsilon: float, seed: int, n_batches: int) -> tuple[float, ...]:
    """What deleting the edges of a scenario in so many batches does, each with a repair."""
    make, choose = SCENARIOS[name]
    edges, rng = make(seed), np.random.default_rng(seed)
    settings = SparsifierSettings(epsilon=epsilon, seed=seed, expected_nodes=N_NODES)
    pairs = edges.pairs  # each goes with all its parallel edges
    gone = rng.permutation(np.unique(pairs[choose(edges, rng)]))
    state = streamed(edges, settings)
    before = _error(edges.graph(), state)
    lives, errors, n_anew, kinds = np.ones(pairs.size, bool), [], 0, []
    for number, batch in enumerate(np.array_split(gone, n_batches), 1):
        dies = lives & np.isin(pairs, batch)
        lives &= ~dies
        left = edges.where(lives)
        told = strike(state, *(part.astype(np.int32) for part in divmod(batch, N_NODES)))
        state, report = repaired(told, settings, left, edges.where(dies))
        n_anew += report.n_edges
        kinds.append(report.kind)
        if number % LOOK_AFTER == 0 or number == n_batches:
            errors.append(_error(left.graph(), thinned(state, settings)))
    fresh = _error(left.graph(), streamed(left, settings))
    n_parts, n_all = kinds.count("part"), kinds.count("all")
    return before, errors[-1], max(errors), n_parts, n_all, n_anew / left.u.size, fresh


def show_errors(epsilon: float, n_seeds: int, n_batches: int, only: str) -> None:
    """True and expected errors, means and largest over the seeds."""
    title = f"errors, asked {epsilon:g}: mean (largest) over {n_seeds} seeds"
    columns = "deleted|before {:.2f} ({:.2f})|exact {:.2f} ({:.2f})|largest {:.2f}|parts {:.1f}|"
    columns += "all {:.1f}|anew {:.1%}|fresh {:.2f} ({:.2f})|to fresh {:.2f}"
    table = Figures(title if n_batches == 1 else f"{title}, in {n_batches} batches", columns)
    for name in (each for each in SCENARIOS if only in each):
        found = np.array([played(name, epsilon, seed, n_batches) for seed in range(n_seeds)]).T
        before, exact, worst, parts, every, anew, fresh = found
        table.add(
            *(name, mean_and_worst(before), mean_and_worst(exact), worst.max(), parts.mean()),
            *(every.mean(), anew.mean(), mean_and_worst(fresh), exact.mean() / fresh.mean()),
        )
    CONSOLE.print(table)


def repaired(
    struck: SparsifierState, settings: SparsifierSettings, left: Edges, gone: Edges
) -> tuple[SparsifierState, Repair]:
    def live(at: BoolArray | None) -> Iterator[tuple[str, EdgeBlock]]:
        for block in left.blocks():
            part = block if at is None else block.where(at[block.u] | at[block.v])
            if part.n_rows:
                yield "", part

    graph = left.graph()
    first = np.full(graph.component.max() + 1, N_NODES)
    np.minimum.at(first, graph.component, np.arange(N_NODES))
    told = resolved(struck, degree=graph.degree, killed=gone.graph().degree)
    component = first[graph.component].astype(np.int32)
    return repair(told, settings, live, component=component, group_blocks=1)


def _error(graph: Graph, state: SparsifierState) -> float:
    kept = sparsifier_graph(state)
    return (
        spectral_error(graph, kept) if np.array_equal(graph.component, kept.component) else np.inf
    )


def main() -> None:
    asked = options(
        __doc__,
        quick={"seeds": 1, "epsilon": [0.7], "batches": [1]},
        seeds=10,
        batches=[1, 40],
        epsilon=[0.9, 0.5, 0.3],
        only=("", "scenarios whose names hold this"),
    )
    for epsilon in asked.epsilon:
        for n_batches in asked.batches:
            show_errors(epsilon, asked.seeds, n_batches, asked.only)


if __name__ == "__main__":
    main()
