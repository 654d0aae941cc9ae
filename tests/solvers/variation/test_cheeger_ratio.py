"""Cheeger ratios and the cut of a graph in two: brute force, subgradients, falling energies."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.models.contract.spectral_embedding import spectral_embedding
from peewit.solvers.status import Status
from peewit.solvers.variation.cheeger_cut import best_cut, best_threshold, descend
from peewit.solvers.variation.cheeger_ratio import Balances, ratio
from peewit.solvers.variation.proximal_step import TotalVariation
from tests.strategies import graphs

N_STARTS = 5


def balance(column: np.ndarray, weight: np.ndarray, asymmetry: float) -> float:
    """The least over all thresholds, one of which is the best."""
    distances = column - column[:, None]
    return (np.maximum(asymmetry * distances, -distances) @ weight).min()


def columns_and_weight(n_nodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random columns, one with many ties, one an indicator and one constant."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(n_nodes, 4))
    columns[:, 1] = rng.integers(0, 3, n_nodes)
    columns[:, 2] = rng.random(n_nodes) < 0.3
    columns[:, 3] = 2.5
    return columns, rng.choice([0.5, 1.0, 1.0, 3.0], n_nodes)


@given(st.integers(1, 12), st.integers(0, 999), st.sampled_from([1.0, 2.0, 3.5]))
def test_balances_are_least_over_all_thresholds(n_nodes, seed, asymmetry) -> None:
    columns, weight = columns_and_weight(n_nodes, seed)
    found = Balances.of(columns, weight, asymmetry)
    for column, value, median in zip(columns.T, found.values, found.medians, strict=True):
        assert value == pytest.approx(balance(column, weight, asymmetry), abs=1e-12)
        distance = column - median
        at_median = weight @ np.maximum(asymmetry * distance, -distance)
        assert at_median == pytest.approx(value, abs=1e-12)
    assert found.values[3] == 0.0


@given(st.integers(1, 12), st.integers(0, 999), st.sampled_from([1.0, 2.0, 3.5]))
def test_slopes_are_subgradients_that_sum_to_zero(n_nodes, seed, asymmetry) -> None:
    columns, weight = columns_and_weight(n_nodes, seed)
    found = Balances.of(columns, weight, asymmetry)
    np.testing.assert_allclose(found.slopes.sum(axis=0), 0.0, atol=1e-12 * weight.sum())
    np.testing.assert_allclose((found.slopes * columns).sum(axis=0), found.values, atol=1e-10)
    rng = np.random.default_rng(seed + 1)
    for reach in (1e-3, 1.0, 100.0):
        others = columns + reach * rng.normal(size=columns.shape)
        moved = Balances.of(others, weight, asymmetry).values
        below = found.values + (found.slopes * (others - columns)).sum(axis=0)
        assert (moved >= below - 1e-10 * (1.0 + np.abs(below))).all()


def test_ratios_of_constant_columns_are_infinite() -> None:
    found = ratio(np.array([2.0, 0.0, 0.0]), np.array([4.0, 0.0, 1.0]))
    np.testing.assert_array_equal(found, [0.5, np.inf, 0.0])


def cut_ratio(graph: Graph, inside: np.ndarray, weight: np.ndarray) -> float:
    u, v, edge_weight = graph.edges()
    cut = edge_weight[inside[u] != inside[v]].sum()
    return cut / min(weight[inside].sum(), weight[~inside].sum())


def best_ratio(graph: Graph, weight: np.ndarray) -> float:
    """The least over all bipartitions."""
    sides = product([False, True], repeat=graph.n_nodes - 1)
    inside = [np.array([True, *rest]) for rest in sides]
    return min(cut_ratio(graph, one, weight) for one in inside if not one.all())


@given(graphs(min_nodes=2, max_nodes=12), st.integers(0, 99), st.booleans())
def test_the_best_threshold_is_that_of_all(graph, seed, has_ties) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.random(graph.n_nodes) + 0.1
    function = rng.normal(size=graph.n_nodes)
    if has_ties:
        function = np.round(function)
        function[:2] = -9.0, 9.0
    above, least = best_threshold(graph, function, weight)
    assert function[above].min() > function[~above].max()
    thresholds = np.unique(function)[:-1]
    ratios = [cut_ratio(graph, function > value, weight) for value in thresholds]
    assert least == pytest.approx(min(ratios), abs=1e-9)
    assert cut_ratio(graph, above, weight) == pytest.approx(least, abs=1e-9)


@pytest.mark.slow
@settings(max_examples=25)
@given(graphs(min_nodes=3, max_nodes=25, connected=True), st.integers(0, 99), st.booleans())
def test_energies_fall_and_thresholds_lose_nothing(graph, seed, by_degree) -> None:
    """(I39), and the co-area formula: some threshold's ratio is at most the function's."""
    weight = graph.degree if by_degree else np.ones(graph.n_nodes)
    starts = np.random.default_rng(seed).normal(size=(graph.n_nodes, N_STARTS))
    found = descend(graph, starts, weight)
    assert found.status is Status.CONVERGED
    assert (np.diff(found.history, axis=0) <= 0.0).all()
    first = TotalVariation(graph).of(starts) / Balances.of(starts, weight, 1.0).values
    scale = weight.mean()
    np.testing.assert_allclose(found.history[0], scale * first, rtol=1e-9)
    balances = Balances.of(found.functions, weight, 1.0)
    # 0 is a median; where half of the weight lies on each side, others are, too
    np.testing.assert_allclose(weight @ np.abs(found.functions), balances.values, rtol=1e-9)
    np.testing.assert_allclose(np.square(found.functions).mean(axis=0), 1.0, rtol=1e-9)
    own = TotalVariation(graph).of(found.functions) / balances.values
    np.testing.assert_allclose(found.energies, scale * own, rtol=1e-9)
    for column, energy in enumerate(found.energies):
        _, least = best_threshold(graph, found.functions[:, column], weight)
        assert scale * least <= energy * (1.0 + 1e-9)


def random_graph(seed: int) -> Graph:
    """A random tree on ten nodes and as many random edges."""
    rng = np.random.default_rng(seed)
    child = np.arange(1, 10)
    u = np.concatenate([child, rng.integers(0, 10, 10)])
    v = np.concatenate([(rng.random(9) * child).astype(int), rng.integers(0, 10, 10)])
    return Graph.from_edges(u, v, rng.random(19) + 0.1, n_nodes=10)


@pytest.mark.slow
def test_the_least_cut_of_small_graphs_is_found() -> None:
    """Of all bipartitions, nearly always the best; local minima are never far."""
    excess = []
    for seed in range(20):
        graph = random_graph(seed)
        assert graph.n_components == 1
        starts = np.random.default_rng(seed).normal(size=(10, N_STARTS))
        found = descend(graph, starts, graph.degree)
        best = found.functions[:, found.energies.argmin()]
        least = best_threshold(graph, best, graph.degree)[1]
        excess.append(least / best_ratio(graph, graph.degree) - 1.0)
    assert min(excess) >= -1e-9
    assert np.mean(np.array(excess) < 1e-9) >= 0.9
    assert max(excess) < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("n_starts", [1, 2, 5])
def test_the_winner_of_the_race_is_hardly_ever_beaten(n_starts) -> None:
    """By all bipartitions, and by the same starts without a race."""
    excess, lost = [], []
    for seed in range(20):
        graph = random_graph(seed)
        starts, _ = spectral_embedding(graph, 5, Watch())
        starts = starts[:, :n_starts]
        cut = best_cut(graph, starts, graph.degree)
        assert cut.status is Status.CONVERGED
        assert cut.above.any()
        assert not cut.above.all()
        inside = graph.degree[cut.above].sum()
        u, v, weight = graph.edges()
        least = weight[cut.above[u] != cut.above[v]].sum()
        assert cut.ratio == pytest.approx(least / min(inside, graph.degree.sum() - inside))
        excess.append(cut.ratio / best_ratio(graph, graph.degree) - 1.0)
        found = descend(graph, starts, graph.degree)
        function = found.functions[:, found.energies.argmin()]
        lost.append(cut.ratio / best_threshold(graph, function, graph.degree)[1] - 1.0)
    assert min(excess) >= -1e-9
    assert np.mean(np.array(excess) < 1e-9) >= 0.6
    assert max(excess) < 0.25
    assert np.mean(lost) < 0.02


def test_scales_of_weights_do_not_count() -> None:
    graph = random_graph(0)
    starts = np.random.default_rng(0).normal(size=(10, N_STARTS))
    one = descend(graph, starts, graph.degree)
    scaled = Graph.from_adjacency(1024.0 * graph.adjacency)
    other = descend(scaled, starts, graph.degree)
    np.testing.assert_allclose(other.functions, one.functions, atol=1e-9)
    np.testing.assert_allclose(other.energies, 1024.0 * one.energies, rtol=1e-9)
    lighter = descend(graph, starts, 2.0**-9 * graph.degree)
    np.testing.assert_array_equal(lighter.functions, one.functions)


def test_no_more_steps_than_asked_for() -> None:
    graph = random_graph(1)
    starts = np.random.default_rng(1).normal(size=(10, 2))
    found = descend(graph, starts, graph.degree, max_iter=1)
    assert found.status is Status.MAX_ITER
    assert found.history.shape == (2, 2)
