"""Aggregation kernels against dense matrices."""

import numpy as np
import pytest
from hypothesis import given

from peewit.solvers.graph import Graph
from peewit.solvers.kernels.multigrid import (
    contract,
    dense_rows,
    pair_up,
    prolong_rows,
    relax_rows,
    residual_rows,
    restrict_rows,
)
from tests.strategies import graphs
from tests.uncompiled import assert_passes_uncompiled, only_compiled


def parts_of(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data


@given(graphs())
def test_aggregates_are_connected_and_halve_the_nodes(graph: Graph) -> None:
    aggregate = np.empty(graph.n_nodes, dtype=np.int64)
    n_aggregates = pair_up(*parts_of(graph), aggregate)
    has_edges = np.diff(graph.adjacency.indptr) > 0
    np.testing.assert_array_equal(aggregate >= 0, has_edges)
    assert 2 * n_aggregates <= has_edges.sum()
    for number in range(n_aggregates):
        members = np.flatnonzero(aggregate == number)
        inside = Graph.from_adjacency(graph.adjacency[members][:, members])
        assert members.size >= 2
        assert inside.n_components == 1


@given(graphs())
def test_contraction_keeps_the_energy_of_vectors_constant_on_aggregates(graph: Graph) -> None:
    aggregate = np.empty(graph.n_nodes, dtype=np.int64)
    n_aggregates = pair_up(*parts_of(graph), aggregate)
    members = np.argsort(aggregate, kind="stable")
    first = np.cumsum(np.bincount(aggregate + 1, minlength=n_aggregates + 1))
    indptr = np.empty(n_aggregates + 1, graph.adjacency.indptr.dtype)
    indices, weight = np.empty_like(graph.adjacency.indices), np.empty(graph.adjacency.nnz)
    n_entries = contract(*parts_of(graph), aggregate, members, first, indptr, indices, weight)
    dense = np.zeros((n_aggregates, n_aggregates))
    rows = np.repeat(np.arange(n_aggregates), np.diff(indptr))
    np.add.at(dense, (rows, indices[:n_entries]), weight[:n_entries])
    joined = np.zeros((graph.n_nodes, n_aggregates))
    known = aggregate >= 0
    joined[known, aggregate[known]] = 1.0
    expected = joined.T @ graph.adjacency.toarray() @ joined
    np.fill_diagonal(expected, 0.0)
    np.testing.assert_allclose(dense, expected, rtol=1e-12)


@pytest.mark.parametrize("n_columns", [1, 3, 4])
def test_sweeps_are_products_with_the_matrix(n_columns: int) -> None:
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 30, (2, 90))
    graph = Graph.from_edges(u, v, rng.random(90) + 0.1, n_nodes=30)
    shift, factor = rng.random((2, 30))
    matrix = graph.laplacian().toarray() + np.diag(shift)
    block, rhs = rng.standard_normal((2, 30, n_columns))
    missing = rhs - matrix @ block
    shifted = (*parts_of(graph), shift)
    for kernel, arguments, expected in (
        (residual_rows, (*shifted, block, rhs), missing),
        (relax_rows, (*shifted, factor, block, rhs), block + factor[:, None] * missing),
        (dense_rows, (matrix, block), matrix @ block),
    ):
        out = np.full_like(block, np.nan)
        kernel(*arguments, out, 4, 27)
        np.testing.assert_allclose(out[4:27], expected[4:27], rtol=1e-10, atol=1e-12)
        assert np.isnan(out[:4]).all()
        assert np.isnan(out[27:]).all()


def test_restriction_sums_children_and_prolongation_adds_to_them() -> None:
    first_child = np.array([0, 2, 2, 5])
    fine = np.arange(12.0).reshape(6, 2)
    coarse = np.empty((3, 2))
    restrict_rows(fine, first_child, coarse, 0, 3)
    np.testing.assert_array_equal(coarse, [fine[:2].sum(axis=0), [0.0, 0.0], fine[2:5].sum(axis=0)])
    block = np.zeros_like(fine)
    prolong_rows(coarse, first_child, 1.5, block, 0, 3)
    np.testing.assert_array_equal(block[[0, 1]], np.tile(1.5 * coarse[0], (2, 1)))
    np.testing.assert_array_equal(block[[2, 3, 4]], np.tile(1.5 * coarse[2], (3, 1)))
    np.testing.assert_array_equal(block[5], [0.0, 0.0])


@only_compiled
def test_this_file_passes_uncompiled() -> None:
    assert_passes_uncompiled(__file__)
