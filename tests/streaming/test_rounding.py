"""Dependent rounding: fair to every edge, even at every node, the same every time."""

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from solvers.arrays import BoolArray, Float32Array, FloatArray, Int32Array
from streaming.kernels.rounding import round_dependently, rounding_bits
from tests.reference import rounding as reference

STREAM = 5
COMPILED = os.environ.get("NUMBA_DISABLE_JIT") != "1"
Edges = tuple[Int32Array, Int32Array, Float32Array]


def random_edges(n_nodes: int, n_edges: int, seed: int = 0) -> Edges:
    rng = np.random.default_rng(seed)
    u = rng.integers(0, n_nodes, n_edges)
    v = (u + rng.integers(1, n_nodes, n_edges)) % n_nodes
    probability = rng.uniform(0.01, 1.0, n_edges)
    probability[rng.random(n_edges) < 0.1] = 1.0
    return u.astype(np.int32), v.astype(np.int32), probability.astype(np.float32)


def small_cliques(n_cliques: int, size: int) -> Edges:
    """Graphs full of odd cycles."""
    first, second = np.triu_indices(size, 1)
    base = size * np.repeat(np.arange(n_cliques), first.size)
    u, v = base + np.tile(first, n_cliques), base + np.tile(second, n_cliques)
    probability = np.random.default_rng(3).uniform(0.3, 0.9, u.size)
    return u.astype(np.int32), v.astype(np.int32), probability.astype(np.float32)


def survivors(edges: Edges, n_nodes: int, seed: int) -> BoolArray:
    u, v, probability = edges
    key = np.arange(u.size, dtype=np.uint32)
    return round_dependently(u, v, probability, key, n_nodes, seed, STREAM)


def degree_error(edges: Edges, n_nodes: int, survives: BoolArray) -> FloatArray:
    u, v, probability = edges
    surplus = survives - probability.astype(np.float64)
    return np.bincount(u, surplus, n_nodes) + np.bincount(v, surplus, n_nodes)


@pytest.mark.parametrize(
    ("edges", "n_nodes"),
    [
        (random_edges(9, 60), 9),
        (random_edges(40, 300, seed=1), 45),
        (random_edges(300, 200, seed=2), 300),
        (small_cliques(4, 6), 24),
        (random_edges(2, 30, seed=4), 2),
        (random_edges(3, 1, seed=5), 3),
    ],
)
@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_survivors_are_those_of_the_reference(edges: Edges, n_nodes: int, seed: int) -> None:
    u, v, probability = edges
    key = np.random.default_rng(seed).integers(0, 2**32, u.size).astype(np.uint32)
    expected = reference.round_dependently(
        u.tolist(),
        v.tolist(),
        probability.tolist(),
        key.tolist(),
        rounding_bits(u.size, n_nodes),
        seed,
        STREAM,
    )
    assert round_dependently(u, v, probability, key, n_nodes, seed, STREAM).tolist() == expected


@pytest.mark.skipif(not COMPILED, reason="takes minutes uncompiled")
@pytest.mark.parametrize(
    ("edges", "n_nodes"),
    [(random_edges(30, 200), 30), (small_cliques(5, 5), 25), (random_edges(150, 100), 150)],
)
def test_every_edge_keeps_its_probability(edges: Edges, n_nodes: int) -> None:
    n_seeds = 20_000
    probability = edges[2].astype(np.float64)
    kept = sum(survivors(edges, n_nodes, seed).astype(np.int64) for seed in range(n_seeds))
    deviation = np.sqrt(np.maximum(probability * (1 - probability), 1e-12) / n_seeds)
    score = (kept / n_seeds - probability) / deviation
    assert np.all(kept[probability == 1.0] == n_seeds)
    tossed = score[probability < 1.0]
    assert np.abs(tossed).max() < 4.5
    assert 0.7 < np.mean(tossed**2) < 1.3  # a fair coin's spread, neither more nor less


@pytest.mark.parametrize(
    "make",
    [
        lambda: (random_edges(200, 6_000), 200),
        lambda: (random_edges(2_000, 4_000), 2_000),
        lambda: (small_cliques(50, 8), 400),
    ],
)
def test_degrees_hardly_stray(make: Callable[[], tuple[Edges, int]]) -> None:
    edges, n_nodes = make()
    n_seeds = 20 if COMPILED else 1
    error = np.array(
        [degree_error(edges, n_nodes, survivors(edges, n_nodes, seed)) for seed in range(n_seeds)]
    )
    assert np.abs(error).max() < 2.5
    assert np.std(error) < 0.65  # an even number of tossed edges leaves less than an odd one


@pytest.mark.skipif(not COMPILED, reason="takes minutes uncompiled")
@pytest.mark.parametrize("level", [0.02, 0.002])
def test_degrees_hardly_stray_where_most_edges_go(level: float) -> None:
    n_nodes = 300
    u, v, _ = random_edges(n_nodes, int(30 * n_nodes / level), seed=6)
    shares = np.random.default_rng(7).uniform(0.5, 1.5, u.size)
    edges = (u, v, (level * shares).astype(np.float32))
    error = degree_error(edges, n_nodes, survivors(edges, n_nodes, 1))
    assert np.std(error) < 0.65  # independent coins: sqrt(60) = 7.7
    assert np.abs(error).max() < 2.5


def test_certain_edges_stay_and_no_edges_are_no_trouble() -> None:
    u, v = np.array([0, 1, 2, 0], np.int32), np.array([1, 2, 0, 1], np.int32)
    certain = np.ones(4, np.float32)
    assert survivors((u, v, certain), 5, 0).all()
    none = np.empty(0, np.int32)
    assert survivors((none, none, np.empty(0, np.float32)), 3, 0).size == 0
    assert survivors((none, none, np.empty(0, np.float32)), 0, 0).size == 0


def test_of_two_parallel_halves_one_survives() -> None:
    u, v = np.array([0, 0], np.int32), np.array([1, 1], np.int32)
    halves = np.full(2, 0.5, np.float32)
    outcomes = [survivors((u, v, halves), 2, seed).tolist() for seed in range(60)]
    assert {tuple(outcome) for outcome in outcomes} == {(True, False), (False, True)}


def test_edges_of_a_star_never_lean_together() -> None:
    n_leaves, n_seeds = 6, 8_000 if COMPILED else 300
    u = np.zeros(n_leaves, np.int32)
    v = np.arange(1, n_leaves + 1, dtype=np.int32)
    probability = np.array([0.2, 0.35, 0.5, 0.5, 0.65, 0.8], np.float32)
    kept = np.array(
        [survivors((u, v, probability), n_leaves + 1, seed) for seed in range(n_seeds)], float
    )
    covariance = np.cov(kept.T)
    apart = covariance[~np.eye(n_leaves, dtype=bool)]
    assert apart.max() < 4 * 0.25 / np.sqrt(n_seeds)
    assert apart.sum() < -0.8 * np.trace(covariance)  # the degree's own variance is nearly nothing


@pytest.mark.skipif(not COMPILED, reason="takes minutes uncompiled")
def test_seeds_and_streams_decide_and_nothing_else() -> None:
    u, v, probability = random_edges(500, 5_000)
    key = np.arange(u.size, dtype=np.uint32)

    def rounded(seed: int, stream: int) -> BoolArray:
        return round_dependently(u, v, probability, key, 500, seed, stream)

    tossed = probability < 1.0
    assert np.array_equal(rounded(1, 2), rounded(1, 2))
    for other in (rounded(2, 2), rounded(1, 3)):
        differ = np.mean(other[tossed] != rounded(1, 2)[tossed])
        independent = np.mean(2 * probability[tossed] * (1 - probability[tossed]))
        assert differ == pytest.approx(independent, abs=0.04)


@pytest.mark.skipif(not COMPILED, reason="runs uncompiled already")
def test_the_kernel_is_right_without_compilation_too() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    finished = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert finished.returncode == 0, finished.stdout
