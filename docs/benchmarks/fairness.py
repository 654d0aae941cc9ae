"""How far do coins that even out degrees move the chance of single edges, beside independent ones?

One round of coins is thrown many times between alike nodes, and between hubs and leaves: relative
bias of the survival of single records. Then a multigraph of 40 nodes is streamed with many seeds,
its edges in random order or by their later end: relative bias of the weight between two nodes. Both
are the root of the mean square, the noise that repetitions leave taken off, which stands beside.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from docs.benchmarks.frame import options, show
from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array
from peewit.streaming.kernels.coins import throw_coins
from peewit.streaming.kernels.dependent_rounding import throw_leaning_coins
from peewit.streaming.sparsifier.sample_size import expected_size
from peewit.streaming.sparsifier.settings_and_state import Coins, SparsifierSettings
from tests.streaming.graphs import EdgeList, sparsified

COINS: tuple[Coins, ...] = ("dependent", "independent")
N_NODES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records with the probability each is to survive with, and its share in every node."""

    u: Int32Array
    v: Int32Array
    chance: Float32Array
    share: Float32Array

    @staticmethod
    def alike(n_nodes: int, n_records: int, greatest: float) -> "Records":
        """Between random nodes."""
        rng = np.random.default_rng(0)
        u = rng.integers(0, n_nodes, n_records)
        return Records(
            u=u.astype(np.int32),
            v=((u + rng.integers(1, n_nodes, n_records)) % n_nodes).astype(np.int32),
            chance=rng.uniform(0.05, greatest, n_records).astype(np.float32),
            share=np.full(n_nodes, 0.5, np.float32),
        )

    @staticmethod
    def hubs(n_hubs: int, n_leaves: int, chance: float) -> "Records":
        """From each of a few nodes to each of many, whose share is nearly all."""
        leaves = np.arange(n_hubs, n_hubs + n_leaves)
        share = np.full(n_hubs + n_leaves, n_leaves / (n_hubs + n_leaves), np.float32)
        share[:n_hubs] = n_hubs / (n_hubs + n_leaves)
        return Records(
            u=np.tile(np.arange(n_hubs), n_leaves).astype(np.int32),
            v=np.repeat(leaves, n_hubs).astype(np.int32),
            chance=np.full(n_hubs * n_leaves, chance, np.float32),
            share=share,
        )

    def thrown(self, coins: Coins, seed: int) -> Float32Array:
        """Zero where a record does not survive one round."""
        lowered, before = self.chance.copy(), np.ones_like(self.chance)
        key = np.arange(self.u.size, dtype=np.uint32)
        stream = np.uint64(seed), np.uint64(1)
        if coins == "independent":
            throw_coins(before, lowered, key, *stream)
            return lowered
        node = np.zeros((self.share.size, 2), np.float32)
        node[:, 1] = self.share  # of a weight that is its chance
        throw_leaning_coins(self.u, self.v, self.chance, before, lowered, key, node, *stream)
        return lowered


def bias_of_a_round(records: Records, coins: Coins, n_rounds: int) -> tuple[str, float]:
    """Relative bias of single records, and of all of them together."""
    survived = np.zeros(records.u.size)
    for seed in range(n_rounds):
        survived += records.thrown(coins, seed) > 0.0
    chance = records.chance.astype(np.float64)
    relative = survived / n_rounds / chance - 1.0
    noise = (1.0 - chance) / chance / n_rounds
    return _shown(relative, noise), float(survived.sum() / n_rounds / chance.sum() - 1.0)


def multigraph(order: Callable[[Int32Array, Int32Array], Int32Array] | None) -> EdgeList:
    """30,000 random edges and a path between 40 nodes, by the key ``order`` gives."""
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, N_NODES, (2, 30_000))
    u, v = u[u != v], v[u != v]
    if order is not None:
        places = np.argsort(order(u, v), kind="stable")
        u, v = u[places], v[places]
    path = np.arange(N_NODES - 1)
    u, v = np.concatenate([path, u]), np.concatenate([path + 1, v])
    return EdgeList(u=u, v=v, weight=np.ones(u.size), n_nodes=N_NODES)


def bias_of_a_stream(edges: EdgeList, coins: Coins, n_seeds: int) -> tuple[float, str, float]:
    """Rounds of coins, relative bias of the weight of a pair, and of all weight."""
    weights, n_rounds = [], 0
    for seed in range(n_seeds):
        settings = SparsifierSettings(epsilon=0.9, expected_nodes=N_NODES, seed=seed, coins=coins)
        room = int(2 * expected_size(settings, N_NODES))
        settings = replace(settings, buffer_edges=room)
        state = sparsified(edges, settings, n_blocks=60)
        n_rounds += state.n_resparsifications
        found = np.zeros((N_NODES, N_NODES))
        for chunk in state.chunks:
            np.add.at(found, (chunk.u, chunk.v), chunk.weight / chunk.keep_probability)
        weights.append((found + found.T)[np.triu_indices(N_NODES, 1)])
    true = np.zeros((N_NODES, N_NODES))
    np.add.at(true, (edges.u, edges.v), edges.weight)
    exact = (true + true.T)[np.triu_indices(N_NODES, 1)]
    relative = np.mean(weights, axis=0) / exact - 1.0
    noise = np.var(weights, axis=0, ddof=1) / n_seeds / exact**2
    total = float(np.mean(weights, axis=0).sum() / exact.sum() - 1.0)
    return n_rounds / n_seeds, _shown(relative, noise), total


def _shown(deviation: FloatArray, noise: FloatArray) -> str:
    """Root mean square of deviations without their own variance, and of that."""
    beyond = math.sqrt(max(float(np.mean(deviation**2 - noise)), 0.0))
    return f"{beyond:.1%} ({math.sqrt(float(noise.mean())):.1%})"


def main() -> None:
    quick = {"rounds": 2_000, "seeds": 5}
    asked = options(__doc__, quick=quick, rounds=200_000, seeds=150)
    kinds = {
        "200 between 30 alike nodes": Records.alike(30, 200, 0.5),
        "60 between 8 alike nodes": Records.alike(8, 60, 0.95),
        "3 hubs, 60 leaves, chance .1": Records.hubs(3, 60, 0.1),
        "10 hubs, 60 leaves, chance .5": Records.hubs(10, 60, 0.5),
    }
    rows = (
        (name, coins, *bias_of_a_round(records, coins, asked.rounds))
        for name, records in kinds.items()
        for coins in COINS
    )
    columns = "records|coins|bias of one (noise)|of all {:+.2%}"
    show(f"one round, {asked.rounds:,} times", columns, rows, left=2)
    rows = (
        (name, coins, *bias_of_a_stream(multigraph(order), coins, asked.seeds))
        for name, order in (("random", None), ("by the later end", np.maximum))
        for coins in COINS
    )
    columns = "order|coins|rounds {:.0f}|bias of a pair (noise)|of all {:+.2%}"
    title = f"30,000 edges of {N_NODES} nodes in 60 blocks, {asked.seeds} seeds"
    show(title, columns, rows, left=2)


if __name__ == "__main__":
    main()
