"""The kernels of the sparsifier against plain Python, compiled and not."""

import os
import subprocess
import sys

import numpy as np
import pytest

from streaming.kernels.sampling import (
    degree_variance,
    lower_probabilities,
    raise_resistances,
    sample_arrivals,
    thin_records,
)
from streaming.kernels.spanning_forest import mark_forest
from tests.reference.sampling import arrival_probability, coin, record_key

N_NODES, N_EDGES, N_PROBES = 12, 400, 5
SEED, STREAM = 2**63 - 5, 14


@pytest.fixture
def edges() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "u": rng.integers(0, N_NODES + 2, N_EDGES).astype(np.int32),
        "v": rng.integers(0, N_NODES + 2, N_EDGES).astype(np.int32),
        "weight": rng.uniform(0.1, 3.0, N_EDGES).astype(np.float32),
        "vectors": rng.normal(0, 0.05, (N_NODES, N_PROBES)).astype(np.float32),
        "component": (np.arange(N_NODES) // 8).astype(np.int32),
        "degree": rng.uniform(20.0, 60.0, N_NODES).astype(np.float32),
    }


def test_arrivals_follow_the_reference(edges: dict[str, np.ndarray]) -> None:
    row = np.empty(N_EDGES, np.int32)
    probability = np.empty(N_EDGES, np.float32)
    key = np.empty(N_EDGES, np.uint32)
    constant = 4.0
    with np.errstate(over="ignore"):
        n_kept = sample_arrivals(
            *edges.values(), constant, np.uint64(SEED), np.uint64(STREAM), row, probability, key
        )
    expected = []
    for number in range(N_EDGES):
        keep = arrival_probability(
            float(edges["weight"][number]),
            (int(edges["u"][number]), int(edges["v"][number])),
            edges["vectors"].astype(np.float64),
            edges["component"].tolist(),
            edges["degree"].astype(np.float64).tolist(),
            constant,
        )
        if keep >= 1.0 or coin(SEED, STREAM, number) < keep:
            expected.append((number, keep, record_key(SEED, STREAM, number)))
    assert 0.1 * N_EDGES < n_kept < 0.9 * N_EDGES
    assert row[:n_kept].tolist() == [number for number, _, _ in expected]
    np.testing.assert_allclose(probability[:n_kept], [keep for _, keep, _ in expected], rtol=1e-5)
    assert key[:n_kept].tolist() == [name for _, _, name in expected]


def test_thinning_follows_the_reference() -> None:
    rng = np.random.default_rng(1)
    key = rng.integers(0, 2**32, N_EDGES).astype(np.uint32)
    before = rng.uniform(0.2, 1.0, N_EDGES).astype(np.float32)
    after = np.where(rng.random(N_EDGES) < 0.3, before, before * np.float32(0.5))
    survives = np.empty(N_EDGES, np.bool_)
    with np.errstate(over="ignore"):
        n_survivors = thin_records(before, after, key, np.uint64(SEED), np.uint64(STREAM), survives)
    expected = [
        float(after[record]) == float(before[record])
        or coin(SEED, STREAM, int(key[record])) * float(before[record]) < float(after[record])
        for record in range(N_EDGES)
    ]
    assert survives.tolist() == expected
    assert n_survivors == sum(expected)


def test_probabilities_are_lowered_but_on_the_forest() -> None:
    weight = np.array([1.0, 1.0, 2.0, 1.0], np.float32)
    before = np.array([1.0, 0.5, 1.0, 0.8], np.float32)
    resistance = np.array([0.1, 0.1, 0.1, np.inf], np.float32)
    on_forest = np.array([True, False, False, False])
    lowered = np.empty(4, np.float32)
    expected = lower_probabilities(weight, before, resistance, on_forest, 2.0, lowered)
    np.testing.assert_allclose(lowered, [1.0, 0.2, 0.4, 0.8], rtol=1e-6)
    assert expected == pytest.approx(1.0 + 0.4 + 0.4 + 1.0)


def test_resistances_are_raised_to_what_the_degrees_prove() -> None:
    # A triangle of unit edges and an edge by itself: 2/3 exactly, and 1/4 for the weight 4.
    u, v = np.array([0, 1, 0, 3], np.int32), np.array([1, 2, 2, 4], np.int32)
    conductance = np.array([1.0, 1.0, 1.0, 4.0])
    degree = np.array([2.0, 2.0, 2.0, 4.0, 4.0])
    resistance = np.array([0.1, 0.9, 0.0, 0.0], np.float32)
    raise_resistances(u, v, conductance, degree, resistance)
    np.testing.assert_allclose(resistance, [2 / 3, 0.9, 2 / 3, 0.25], rtol=1e-6)


def test_degree_variance_is_that_of_independent_coins() -> None:
    u, v = np.array([0, 0], np.int32), np.array([1, 2], np.int32)
    weight, keep = np.array([1.0, 3.0], np.float32), np.array([0.5, 1.0], np.float32)
    degree, variance = np.zeros(3), np.zeros(3)
    degree_variance(u, v, weight, keep, degree, variance)
    np.testing.assert_allclose(degree, [5.0, 2.0, 3.0])
    np.testing.assert_allclose(variance, [2.0, 2.0, 0.0])


def test_the_forest_takes_edges_in_order() -> None:
    u, v = np.array([0, 1, 2, 4], np.int32), np.array([1, 2, 0, 5], np.int32)
    on_forest = np.zeros(4, np.bool_)
    order = np.array([2, 0, 1, 3])
    assert mark_forest(u, v, order, np.arange(6, dtype=np.int32), on_forest) == 3
    assert on_forest.tolist() == [True, False, True, True]


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="runs uncompiled already")
def test_kernels_are_right_without_compilation_too() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    finished = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert finished.returncode == 0, finished.stdout
