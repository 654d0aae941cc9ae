"""Descent of partitions: balances of indicators, the energy by definition, and that it falls."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import iterate
from peewit.solvers.labels import Labels
from peewit.solvers.models.variational.started_model import held_classes
from peewit.solvers.status import Status
from peewit.solvers.variation.cheeger_partition import PartitionDescent
from peewit.solvers.variation.cheeger_ratio import Balances, partition_balances
from peewit.solvers.variation.proximal_step import TotalVariation
from tests.strategies import problems


def energy_of(graph: Graph, classes: np.ndarray, n_classes: int, weight: np.ndarray) -> float:
    """sum_k cut(A_k) / min(a w(A_k), w(not A_k))."""
    u, v, edge_weight = graph.edges()
    total = 0.0
    for k in range(n_classes):
        inside = classes == k
        cut = edge_weight[inside[u] != inside[v]].sum()
        total += cut / min((n_classes - 1) * weight[inside].sum(), weight[~inside].sum())
    return total


@given(st.integers(2, 12), st.integers(2, 5), st.integers(0, 999), st.sampled_from([1.0, 2.0, 3.5]))
def test_balances_of_partitions_are_those_of_their_indicators(
    n_nodes, n_classes, seed, asymmetry
) -> None:
    rng = np.random.default_rng(seed)
    classes, weight = rng.integers(0, n_classes, n_nodes), rng.random(n_nodes) + 0.1
    indicators = np.eye(n_classes)[classes]
    values, slopes = partition_balances(classes, n_classes, weight, asymmetry)
    expected = Balances.of(indicators, weight, asymmetry).values
    np.testing.assert_allclose(values, expected, atol=1e-12)
    np.testing.assert_allclose(slopes.sum(axis=0), 0.0, atol=1e-12)
    for reach in (1e-3, 1.0, 100.0):
        others = indicators + reach * rng.normal(size=indicators.shape)
        moved = Balances.of(others, weight, asymmetry).values
        below = values + (slopes * (others - indicators)).sum(axis=0)
        assert (moved >= below - 1e-10 * (1.0 + np.abs(below))).all()


def test_equal_sides_have_the_slopes_of_either_median() -> None:
    values, slopes = partition_balances(np.array([0, 0, 1, 1]), 2, np.ones(4), 1.0)
    np.testing.assert_array_equal(values, [2.0, 2.0])
    np.testing.assert_array_equal(slopes, [[1, -1], [1, -1], [-1, 1], [-1, 1]])


class Halving:
    """Takes half of every value."""

    status = Status.CONVERGED

    def nearest(self, values: np.ndarray) -> np.ndarray:
        return 0.5 * values


def descent_of(graph: Graph, labels: Labels, seed: int, smoothing=None) -> PartitionDescent:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, labels.n_classes, graph.n_nodes)
    first[labels.nodes] = labels.classes
    return PartitionDescent(
        variation=TotalVariation(graph),
        first=first,
        n_classes=labels.n_classes,
        fixed=held_classes(labels, graph.n_nodes),
        weight=rng.random(graph.n_nodes) + 0.5,
        smoothing=smoothing,
    )


@settings(max_examples=30)
@given(problems(), st.integers(0, 99), st.booleans())
def test_the_energy_falls_is_the_defined_one_and_labels_are_kept(problem, seed, smooth) -> None:
    graph, labels = problem
    descent = descent_of(graph, labels, seed, Halving() if smooth else None)

    def energy(classes: np.ndarray) -> float:
        return energy_of(graph, classes, labels.n_classes, descent.weight)

    state = descent.init()
    assert state.energy == pytest.approx(energy(descent.first), abs=1e-12)
    before = state.energy
    while descent.terminate(state) is None:
        assert state.n_steps < 200
        state = descent.step(state)
        assert state.energy <= before
        before = state.energy
    assert state.energy == pytest.approx(energy(state.classes), abs=1e-12)
    assert state.history[-1] == state.energy
    assert (np.diff(state.history) < 0.0).all()
    np.testing.assert_array_equal(state.classes[labels.nodes], labels.classes)
    np.testing.assert_array_equal(state.classes, state.values.argmax(axis=1))
    np.testing.assert_allclose(state.values.sum(axis=1), 1.0, atol=1e-9)
    np.testing.assert_array_equal(state.values[labels.nodes], labels.targets())
    assert 0.0 <= descent.fraction(state) <= 1.0


def rings(n_rings: int, size: int) -> tuple[Graph, np.ndarray]:
    """Circles with chords, each joined to the next by one light edge."""
    classes = np.repeat(np.arange(n_rings), size)
    place = np.arange(n_rings * size)
    ends = [(classes * size + (place + step) % size) for step in (1, 2, 3)]
    u, v = np.tile(place, 3), np.concatenate(ends)
    joints = np.arange(n_rings - 1) * size
    graph = Graph.from_edges(
        np.append(u, joints),
        np.append(v, joints + size),
        np.append(np.ones(u.size), np.full(n_rings - 1, 0.1)),
        n_nodes=place.size,
    )
    return graph, classes


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_descent_from_a_spoiled_partition_reaches_the_planted_one(n_classes) -> None:
    graph, classes = rings(n_classes, 20)
    labels = Labels.from_pairs(np.arange(n_classes) * 20 + 7, list(range(n_classes)))
    first = classes.copy()
    spoiled = np.random.default_rng(0).choice(first.size, first.size // 5, replace=False)
    first[spoiled] = (first[spoiled] + 1) % n_classes
    first[labels.nodes] = labels.classes
    weight = np.ones(first.size)
    descent = PartitionDescent(
        variation=TotalVariation(graph),
        first=first,
        n_classes=n_classes,
        fixed=held_classes(labels, first.size),
        weight=weight,
    )
    outcome = iterate(descent, max_iter=100, phase="")
    assert outcome.status is Status.CONVERGED
    np.testing.assert_array_equal(outcome.state.classes, classes)
    assert outcome.state.energy == pytest.approx(energy_of(graph, classes, n_classes, weight))


def test_nodes_of_no_weight_count_in_no_balance() -> None:
    classes = np.repeat([0, 1, 2], 10)
    weight = np.where(classes == 2, 0.0, 1.0)
    balances, slopes = partition_balances(np.minimum(classes, 1), 2, weight, 1.0)
    np.testing.assert_array_equal(balances, [10.0, 10.0])
    assert not slopes[classes == 2].any()
