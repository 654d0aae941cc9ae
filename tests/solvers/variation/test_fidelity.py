"""Proximal steps of the squared loss and of the hinge (G5), (G10): optimality, and slow twins."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from peewit.solvers.variation.fidelity import HingeFidelity, SquaredFidelity, balanced_intercept
from tests.reference.variation import bisected_intercept

NODES = np.array([1, 2, 4, 5, 7, 8])
N_NODES = 10


def values_of(seed: int, n_columns: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N_NODES, n_columns))


def signs_of(seed: int, n_columns: int = 1) -> np.ndarray:
    """Both signs in every column."""
    signs = np.random.default_rng(seed + 1).choice([-1.0, 1.0], (NODES.size, n_columns))
    signs[0], signs[1] = 1.0, -1.0
    return signs


@given(st.integers(0, 999), st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_squared_step_has_gradient_zero(seed, label_weight, pull) -> None:
    values, targets = values_of(seed, 3), values_of(seed + 1, 3)[NODES]
    fidelity = SquaredFidelity(nodes=NODES, targets=targets, label_weight=label_weight)
    near, intercepts = fidelity.nearest(values, pull)
    gradient = pull * (near - values)
    gradient[NODES] += label_weight * (near[NODES] - targets)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-11 * (label_weight + pull))
    assert not intercepts.any()


@given(st.integers(0, 999), st.floats(0.01, 100), st.floats(0.01, 100), st.booleans())
def test_primal_and_dual_of_the_hinge_have_one_value(seed, label_weight, pull, one_class) -> None:
    """(I41): the maximum of (G10) is the minimum, so both are."""
    values, targets = values_of(seed, 2), signs_of(seed, 2)
    if one_class:
        targets[:] = 1.0
    fidelity = HingeFidelity(nodes=NODES, targets=targets, label_weight=label_weight)
    near, intercepts = fidelity.nearest(values, pull)
    if one_class:
        assert not intercepts.any()
    others = np.setdiff1d(np.arange(N_NODES), NODES)
    np.testing.assert_array_equal(near[others], values[others])
    own, moved = values[NODES], (near - values)[NODES]
    beta = pull * targets * moved
    assert beta.min() >= -1e-9 * label_weight
    assert beta.max() <= label_weight * (1.0 + 1e-9)
    if not one_class:
        np.testing.assert_allclose((targets * beta).sum(axis=0), 0.0, atol=1e-9 * label_weight)
    losses = np.maximum(0.0, 1.0 - targets * (near[NODES] + intercepts))
    primal = label_weight * losses.sum(axis=0) + 0.5 * pull * np.square(moved).sum(axis=0)
    dual = beta.sum(axis=0) - 0.5 / pull * np.square(beta).sum(axis=0)
    dual -= (targets * own * beta).sum(axis=0)
    np.testing.assert_allclose(primal, dual, rtol=1e-9, atol=1e-9 * (label_weight + pull))


@given(st.integers(0, 999), st.floats(0.01, 100), st.floats(0.01, 100))
def test_the_intercept_is_that_of_a_bisection(seed, label_weight, pull) -> None:
    own, targets = values_of(seed)[NODES, 0], signs_of(seed)[:, 0]
    found = balanced_intercept(own, targets, pull, label_weight)
    low, high = bisected_intercept(own, targets, pull, label_weight)
    assert low - 1e-9 <= found <= high + 1e-9
    assert found == pytest.approx(0.5 * (low + high), abs=1e-6)


@given(st.integers(0, 999), st.floats(0.01, 100), st.floats(0.01, 100), st.booleans())
@example(0, 0.01, 88.27537014395094, False)  # bends 1e-4 apart, rounded at 4
def test_opposite_labels_have_the_opposite_intercept(seed, label_weight, pull, has_ties) -> None:
    own, targets = values_of(seed)[NODES, 0], signs_of(seed)[:, 0]
    if has_ties:
        own = np.round(own)
    one = balanced_intercept(own, targets, pull, label_weight)
    other = balanced_intercept(-own, -targets, pull, label_weight)
    assert other == pytest.approx(-one, abs=1e-9)
    shifted = balanced_intercept(own + 3.0, targets, pull, label_weight)
    assert shifted == pytest.approx(one - 3.0, abs=1e-9)


def test_an_intercept_between_two_classes_is_in_the_middle() -> None:
    """Wide margins leave an interval: here all b from -2 to 2."""
    found = balanced_intercept(np.array([3.0, -3.0]), np.array([1.0, -1.0]), 1.0, 5.0)
    assert found == pytest.approx(0.0)
    lopsided = balanced_intercept(np.array([3.0, -1.0]), np.array([1.0, -1.0]), 1.0, 5.0)
    assert lopsided == pytest.approx(-1.0)


@given(st.integers(0, 999), st.booleans())
def test_without_weight_nothing_moves(seed, of_distributions) -> None:
    """(I42)."""
    values = values_of(seed, 3)
    given_ = {"nodes": NODES, "targets": signs_of(seed, 3), "of_distributions": of_distributions}
    for weight in (0.0, 1e-12):
        near, _ = HingeFidelity(label_weight=weight, **given_).nearest(values, 2.0)
        np.testing.assert_allclose(near, values, atol=1e-11)
    near, _ = SquaredFidelity(nodes=NODES, targets=given_["targets"], label_weight=0.0).nearest(
        values, 2.0
    )
    np.testing.assert_allclose(near, values, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("label_weight", "pull"), [(0.1, 1.0), (10.0, 1.0), (1.0, 0.05)])
def test_the_hinge_of_shares_is_least_coordinate_by_coordinate(seed, label_weight, pull) -> None:
    values, targets = values_of(seed, 3), signs_of(seed, 3)
    fidelity = HingeFidelity(
        nodes=NODES, targets=targets, label_weight=label_weight, of_distributions=True
    )
    near, intercepts = fidelity.nearest(values, pull)
    assert not intercepts.any()
    for place, node in enumerate(NODES):
        for column in range(3):
            own, target = values[node, column], targets[place, column]

            def objective(h: float, own: float = own, target: float = target) -> float:
                hinge = max(0.0, 1.0 - target * (2.0 * h - 1.0))
                return label_weight * hinge + 0.5 * pull * (h - own) ** 2

            least = minimize_scalar(objective, bounds=(-60.0, 60.0), method="bounded").fun
            assert objective(near[node, column]) <= least + 1e-9
