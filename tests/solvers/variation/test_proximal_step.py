"""The proximal step of total variation: (I36), (I37), (I38), and a second solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.status import Status
from peewit.solvers.variation.proximal_step import TotalVariation
from peewit.solvers.variation.simplex_splitting import on_simplex
from tests.reference.variation import proximal_by_conic_program
from tests.strategies import graphs

FINE = {"rtol": 1e-9, "max_iter": 20_000}


def targets(graph: Graph, n_columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(graph.n_nodes, n_columns))


@pytest.mark.slow
@settings(max_examples=30)
@given(graphs(), st.integers(1, 4), st.integers(0, 99), st.sampled_from([0.1, 1.0, 30.0]))
def test_steps_are_those_of_a_conic_program(graph, n_columns, seed, penalty) -> None:
    target = targets(graph, n_columns, seed)
    pull = np.linspace(0.5, 2.0, n_columns)
    found = TotalVariation(graph).nearest(
        target, penalty=np.full(n_columns, penalty), pull=pull, **FINE
    )
    assert found.status is Status.CONVERGED
    assert (found.gap >= -1e-12).all()
    assert (found.gap <= 1e-9 * found.objective + 1e-12).all()
    for column in range(n_columns):
        expected = proximal_by_conic_program(graph, target[:, [column]], penalty, pull[column])
        np.testing.assert_allclose(found.values[:, [column]], expected, atol=2e-4)
    np.testing.assert_allclose(found.values.mean(axis=0), target.mean(axis=0), atol=1e-9)


@pytest.mark.slow
@settings(max_examples=20)
@given(graphs(), st.integers(2, 4), st.integers(0, 99))
def test_steps_on_the_simplex_are_those_of_a_conic_program(graph, n_columns, seed) -> None:
    target = targets(graph, n_columns, seed)
    fixed = np.full(graph.n_nodes, -1)
    fixed[0] = 1
    ones = np.ones(n_columns)
    found = TotalVariation(graph).nearest(
        target, penalty=0.3 * ones, pull=ones, on_simplex=True, fixed=fixed, **FINE
    )
    assert found.gap.sum() <= 1e-9 * found.objective.sum() + 1e-12
    np.testing.assert_allclose(found.values.sum(axis=1), 1.0, atol=1e-12)
    assert found.values.min() >= 0.0
    np.testing.assert_array_equal(found.values[0], np.eye(n_columns)[1])
    expected = proximal_by_conic_program(graph, target, 0.3, 1.0, fixed=fixed)
    np.testing.assert_allclose(found.values, expected, atol=2e-4)


@pytest.mark.slow
@settings(max_examples=30)
@given(graphs(), st.integers(0, 99))
def test_ends_of_the_penalty(graph, seed) -> None:
    target, one = targets(graph, 1, seed), np.ones(1)
    variation = TotalVariation(graph)
    kept = variation.nearest(target, penalty=0.0 * one, pull=one, **FINE).values
    np.testing.assert_allclose(kept, target, atol=1e-12)
    flat = variation.nearest(target, penalty=1e5 * one, pull=one, rtol=1e-10, max_iter=5_000)
    sums = np.bincount(graph.component, target[:, 0], graph.n_components)
    means = (sums / graph.component_sizes())[graph.component]
    np.testing.assert_allclose(flat.values[:, 0], means, atol=1e-4)


@settings(max_examples=30)
@given(graphs(), st.integers(0, 99))
def test_variation_of_an_indicator_is_its_cut(graph, seed) -> None:
    inside = np.random.default_rng(seed).random(graph.n_nodes) < 0.5
    u, v, weight = graph.edges()
    cut = weight[inside[u] != inside[v]].sum()
    assert TotalVariation(graph).of(inside[:, None].astype(float)) == pytest.approx([cut])


@settings(max_examples=20)
@given(graphs(), st.integers(0, 99), st.sampled_from([0.1, 2.0]))
def test_the_dual_stays_in_its_box_and_is_antisymmetric(graph, seed, penalty) -> None:
    variation = TotalVariation(graph)
    for factor in (1.0, 0.3, 5.0):  # warm, with other bounds
        variation.nearest(
            targets(graph, 2, seed), penalty=np.full(2, factor * penalty), pull=np.ones(2)
        )
        bound = factor * penalty * graph.adjacency.data[:, None]
        assert (np.abs(variation.dual) <= bound * (1 + 1e-6)).all()
        whole = graph.adjacency.copy()
        for column in range(2):
            whole.data = variation.dual[:, column]
            assert abs(whole + whole.T).max() == 0.0


@settings(max_examples=50)
@given(st.integers(1, 9), st.integers(1, 7), st.integers(0, 999), st.sampled_from([1e-3, 1.0, 1e6]))
def test_projections_on_the_simplex(n_rows, n_columns, seed, scale) -> None:
    """(I40), and the variational inequality that makes a projection."""
    rng = np.random.default_rng(seed)
    values = scale * rng.normal(size=(n_rows, n_columns))
    near = on_simplex(values)
    assert near.min() >= 0.0
    np.testing.assert_allclose(near.sum(axis=1), 1.0, atol=1e-9 * max(1.0, scale))
    np.testing.assert_allclose(on_simplex(near), near, atol=1e-12 * max(1.0, scale))
    others = rng.dirichlet(np.ones(n_columns), size=n_rows)
    assert (((values - near) * (others - near)).sum(axis=1) <= 1e-9 * max(1.0, scale**2)).all()
