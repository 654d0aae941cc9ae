"""Leaning coins: fair to every edge, even at every node, the same every time."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from peewit.solvers.arrays import AnyArray, BoolArray, Float32Array, FloatArray, Int32Array
from peewit.streaming.kernels.coins import throw_coins
from peewit.streaming.kernels.dependent_rounding import lower_and_throw, throw_leaning_coins
from tests.reference.balancing import Throw, outcomes, walk
from tests.reference.sampling import short_coin
from tests.uncompiled import COMPILED, assert_passes_uncompiled, only_compiled

STREAM = 5


@dataclass(frozen=True, kw_only=True, eq=False)
class Stored:
    """Records about to be thrown, and the share of its node that a unit of weight is."""

    u: Int32Array
    v: Int32Array
    weight: Float32Array
    keep_probability: Float32Array
    lowered: Float32Array
    per_weight: Float32Array

    @property
    def ratio(self) -> FloatArray:
        return self.lowered.astype(np.float64) / self.keep_probability

    @property
    def shares(self) -> FloatArray:
        """(2, n_records)."""
        scaled = self.weight.astype(np.float64) / self.lowered
        ends: FloatArray = scaled * self.per_weight[np.array([self.u, self.v])]
        return ends

    def throws(self) -> list[Throw]:
        rows = zip(self.ratio, self.u, self.v, *self.shares, strict=True)
        return [
            Throw(float(ratio), (int(u), int(v)), (float(near), float(far)))
            for ratio, u, v, near, far in rows
        ]

    def surpluses(self, survives: AnyArray) -> FloatArray:
        """Of every node, in shares, by what survived."""
        surplus = self.shares * (survives - self.ratio)
        ends = np.array([self.u, self.v])
        total: FloatArray = np.bincount(ends.ravel(), surplus.ravel(), self.per_weight.size)
        return total


def stored(
    n_nodes: int,
    n_records: int,
    *,
    ratio: float | None = None,
    has_halves: bool = True,
    seed: int = 0,
) -> Stored:
    """Records between random nodes; some are certain unless a ``ratio`` is given for all.

    Shares are halves, or split between the ends as uneven numbers of the nodes are.
    """
    rng = np.random.default_rng(seed)
    u = rng.integers(0, n_nodes, n_records).astype(np.int32)
    v = ((u + rng.integers(1, n_nodes, n_records)) % n_nodes).astype(np.int32)
    ratios = rng.uniform(0.05, 1.0, n_records)
    ratios[rng.random(n_records) < 0.1] = 1.0
    keep = rng.uniform(0.2, 1.0, n_records).astype(np.float32)
    lowered = (keep * (ratios if ratio is None else ratio)).astype(np.float32)
    per_weight = np.full(n_nodes, 0.5) if has_halves else rng.uniform(0.05, 0.95, n_nodes)
    return Stored(
        u=u,
        v=v,
        weight=(lowered / (per_weight[u] + per_weight[v])).astype(np.float32),
        keep_probability=keep,
        lowered=lowered,
        per_weight=per_weight.astype(np.float32),
    )


def nodes_of(records: Stored) -> Float32Array:
    """Table of nodes without any surplus."""
    node = np.zeros((records.per_weight.size, 2), np.float32)
    node[:, 1] = records.per_weight
    return node


def thrown(
    records: Stored,
    node: Float32Array,
    seed: int,
    *,
    rows: slice = slice(None),
    stream: int = STREAM,
) -> Float32Array:
    """What becomes of ``lowered``; the key of a record is its place."""
    key = np.arange(records.u.size, dtype=np.uint32)
    before = records.u, records.v, records.weight, records.keep_probability
    lowered = records.lowered[rows].copy()
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        n_survivors = throw_leaning_coins(
            *(column[rows] for column in before),
            lowered,
            key[rows],
            node,
            np.uint64(seed),
            np.uint64(stream),
        )
    assert n_survivors == np.count_nonzero(lowered)
    return lowered


def survivors(records: Stored, seed: int, *, stream: int = STREAM) -> BoolArray:
    return thrown(records, nodes_of(records), seed, stream=stream) > 0.0


@pytest.mark.parametrize(
    "records",
    [
        stored(9, 60),
        stored(40, 300, seed=1, has_halves=False),
        stored(300, 200, seed=2),
        stored(2, 70, seed=4, has_halves=False),
        stored(3, 1, seed=5),
    ],
)
@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_survivors_are_those_of_the_reference(records: Stored, seed: int) -> None:
    start = np.random.default_rng(seed).normal(0.0, 0.7, records.per_weight.size)
    node = nodes_of(records)
    node[:, 0] = start
    surplus = node[:, 0].tolist()
    after = thrown(records, node, seed)
    coins = [short_coin(seed, STREAM, record) for record in range(records.u.size)]
    expected = np.array(walk(records.throws(), coins, surplus))
    assert np.array_equal(after, np.where(expected, records.lowered, np.float32(0.0)))
    np.testing.assert_allclose(node[:, 0], surplus, atol=1e-5)
    assert np.array_equal(node[:, 1], records.per_weight)


@pytest.mark.thinned(3)
@pytest.mark.skipif(not COMPILED, reason="takes minutes uncompiled")
@pytest.mark.parametrize("has_halves", [True, False])
@pytest.mark.parametrize(("n_nodes", "n_records"), [(30, 200), (8, 250), (150, 100)])
def test_every_edge_keeps_its_probability(n_nodes: int, n_records: int, has_halves: bool) -> None:
    n_seeds = 20_000
    records = stored(n_nodes, n_records, has_halves=has_halves)
    probability = records.ratio
    kept = sum(survivors(records, seed).astype(np.int64) for seed in range(n_seeds))
    assert np.all(kept[probability == 1.0] == n_seeds)
    tossed = probability < 1.0
    deviation = np.sqrt(probability[tossed] * (1 - probability[tossed]) / n_seeds)
    score = (kept[tossed] / n_seeds - probability[tossed]) / deviation
    assert np.abs(score).max() < 4.5
    assert 0.7 < np.mean(score**2) < 1.3  # a fair coin's spread, neither more nor less


@pytest.mark.thinned(3)
@pytest.mark.skipif(not COMPILED, reason="takes minutes uncompiled")
@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("n_nodes", [8, 150])
def test_cutting_hardly_moves_a_mean(ratio: float, n_nodes: int) -> None:
    records = stored(n_nodes, 200 * n_nodes, ratio=ratio)
    n_seeds = 10**7 // records.u.size
    n_kept = sum(int(survivors(records, seed).sum()) for seed in range(n_seeds))
    mean = float(n_kept) / (n_seeds * records.u.size)
    assert mean == pytest.approx(ratio, rel=1 / 300)  # noise of fair coins: one in 1,000


@pytest.mark.parametrize("has_halves", [True, False])
@pytest.mark.parametrize("coins_per_node", [20, 200, 4_000])
def test_degrees_stray_by_half_a_share_however_many_the_coins(
    coins_per_node: int, has_halves: bool
) -> None:
    if not COMPILED and coins_per_node > 20:
        pytest.skip("takes minutes uncompiled")
    n_nodes = 100
    records = stored(n_nodes, n_nodes * coins_per_node // 2, has_halves=has_halves)
    n_seeds = 10 if COMPILED else 2
    surplus = np.array([records.surpluses(survivors(records, seed)) for seed in range(n_seeds)])
    assert 0.4 < np.std(surplus) < 0.6
    assert np.abs(surplus).max() < 2.5
    # independent coins of these probabilities have a mean variance of 0.15, a share's is a quarter
    assert np.std(records.surpluses(tossed_apart(records))) > 0.5 * np.sqrt(0.12 * coins_per_node)


def tossed_apart(records: Stored) -> BoolArray:
    """What survives independent coins."""
    lowered, key = records.lowered.copy(), np.arange(records.u.size, dtype=np.uint32)
    with np.errstate(over="ignore"):
        throw_coins(records.keep_probability, lowered, key, np.uint64(0), np.uint64(STREAM))
    return lowered > 0.0


def test_certain_records_stay_and_move_nothing() -> None:
    records = stored(5, 100, ratio=1.0)
    node = nodes_of(records)
    node[:, 0] = [3.0, -3.0, 0.0, 0.5, 1e6]
    before = node.copy()
    assert np.array_equal(thrown(records, node, 0), records.lowered)
    assert np.array_equal(node, before)
    assert thrown(stored(3, 0), node, 0).size == 0
    assert np.array_equal(node, before)


def test_a_probability_of_zero_lets_go_and_moves_nothing() -> None:
    """float32 has no smaller one for edges 10^38 times lighter than others of their nodes."""
    records = stored(4, 30)
    records.lowered[10] = 0.0
    node = nodes_of(records)
    thrown(records, node, 0, rows=slice(0, 10))
    before = node.copy()
    assert thrown(records, node, 0, rows=slice(10, 11)).tolist() == [0.0]
    assert np.array_equal(node, before)


def joint_frequencies(records: Stored, n_seeds: int) -> dict[tuple[bool, ...], float]:
    kept = [tuple(survivors(records, seed).tolist()) for seed in range(n_seeds)]
    return {outcome: count / n_seeds for outcome, count in Counter(kept).items()}


def test_of_two_parallel_halves_the_second_leans_against_the_first() -> None:
    # each node is left with a quarter of a share, the pull is a quarter, P = 1/2 -+ 1/4 * 2 * 1/4
    records = stored(2, 2, ratio=0.5)
    n_seeds = 40_000 if COMPILED else 400
    exact = outcomes(records.throws(), 2)
    same, different = 0.5 * 0.375, 0.5 * 0.625
    assert [exact[first, first] for first in (False, True)] == pytest.approx([same, same])
    assert [exact[first, not first] for first in (False, True)] == pytest.approx([different] * 2)
    frequency = joint_frequencies(records, n_seeds)
    for outcome, probability in exact.items():
        assert frequency[outcome] == pytest.approx(probability, abs=4.0 * 0.5 / np.sqrt(n_seeds))


def star(probabilities: list[float]) -> Stored:
    n_leaves = len(probabilities)
    lowered = np.array(probabilities, np.float32)
    return Stored(
        u=np.zeros(n_leaves, np.int32),
        v=np.arange(1, n_leaves + 1, dtype=np.int32),
        weight=lowered,
        keep_probability=np.ones(n_leaves, np.float32),
        lowered=lowered,
        per_weight=np.full(n_leaves + 1, 0.5, np.float32),
    )


def test_every_outcome_of_a_star_is_as_likely_as_the_reference_says() -> None:
    n_seeds = 20_000 if COMPILED else 500
    records = star([0.2, 0.35, 0.5, 0.5, 0.65, 0.7])
    exact = outcomes(records.throws(), 7)
    outcome, probability = np.array(list(exact)), np.array(list(exact.values()))
    np.testing.assert_allclose(probability @ outcome, records.ratio)  # fair: nothing is cut here
    covariance = np.cov(outcome.T, aweights=probability, ddof=0)
    assert covariance[~np.eye(6, dtype=bool)].max() < 0.0  # no two edges lean together
    frequency = joint_frequencies(records, n_seeds)
    found = np.array([frequency.get(row, 0.0) for row in exact])
    deviation = np.sqrt(probability * (1.0 - probability) / n_seeds)
    score = (found - probability) / np.maximum(deviation, 1.0 / n_seeds)
    assert np.abs(score).max() < 4.5
    if COMPILED:
        assert 0.5 < np.mean(score**2) < 1.5


def test_seeds_and_streams_decide_and_nothing_else() -> None:
    records = stored(500, 5_000)
    tossed = records.ratio < 1.0
    first = survivors(records, 1, stream=2)
    assert np.array_equal(first, survivors(records, 1, stream=2))
    for other in (survivors(records, 2, stream=2), survivors(records, 1, stream=3)):
        differ = np.mean(other[tossed] != first[tossed])
        independent = np.mean(2 * records.ratio[tossed] * (1 - records.ratio[tossed]))
        assert differ == pytest.approx(independent, abs=0.03)


@pytest.mark.parametrize("n_first", [0, 1, 63, 64, 65, 130, 200])
def test_neither_batches_nor_chunks_show(n_first: int) -> None:
    records = stored(20, 200, has_halves=False)
    whole, parts = nodes_of(records), nodes_of(records)
    at_once = thrown(records, whole, 3)
    first = thrown(records, parts, 3, rows=slice(0, n_first))
    second = thrown(records, parts, 3, rows=slice(n_first, None))
    assert np.array_equal(np.concatenate([first, second]), at_once)
    assert np.array_equal(parts, whole)


@pytest.mark.parametrize("n_first", [0, 70, 300])
def test_lowering_on_the_way_is_lowering_before(n_first: int) -> None:
    records = stored(20, 300, has_halves=False)
    forest = np.random.default_rng(2).random(300) < 0.1
    node = nodes_of(records)
    node[:, 1] *= np.random.default_rng(1).uniform(0.2, 3.0, node.shape[0]).astype(np.float32)
    expected = records.weight * (node[records.u, 1] + node[records.v, 1])
    before = np.where(forest, records.keep_probability, 1.0)
    lowered = np.minimum(records.keep_probability, np.where(forest, before, expected))
    assert 0.1 < np.mean(lowered < records.keep_probability) < 0.9
    columns = records.u, records.v, records.weight, records.keep_probability
    key = np.arange(300, dtype=np.uint32)
    twin, at_once = lowered.copy(), np.full(300, np.nan, np.float32)
    tables = node, node.copy()
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        coins = np.uint64(3), np.uint64(STREAM)
        n_twin = throw_leaning_coins(*columns, twin, key, tables[0], *coins)
        n_survivors = sum(
            lower_and_throw(
                *(column[rows] for column in columns),
                forest[rows],
                at_once[rows],
                key[rows],
                tables[1],
                *coins,
            )
            for rows in (slice(0, n_first), slice(n_first, None))
        )
    assert np.array_equal(at_once, twin)
    assert np.array_equal(*tables)
    assert n_survivors == n_twin == np.count_nonzero(twin)


@only_compiled
def test_the_kernel_is_right_without_compilation_too() -> None:
    assert_passes_uncompiled(__file__)
