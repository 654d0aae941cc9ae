"""First steps near a few nodes, beside the whole system."""

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.solvers.laplacian.walks.local_start import correct_near
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from tests.solvers.models.auto.test_auto import rings


def grid(side: int, shift: float) -> tuple[sp.csr_array, np.ndarray]:
    """The adjacency matrix of a grid, and degrees plus a shift."""
    path = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    adjacency = sp.csr_array(
        sp.kron(path, sp.eye_array(side)) + sp.kron(sp.eye_array(side), path)
    ).astype(np.float32)
    return adjacency, (adjacency.sum(axis=1) + shift).astype(np.float32)


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_rows_near_the_node_are_solved_and_the_others_stay(shift: float) -> None:
    adjacency, diagonal = grid(40, shift)
    matrix = sp.diags_array(diagonal) - adjacency
    rng = np.random.default_rng(0)
    before = rng.standard_normal(1_600).astype(np.float32)
    rhs = (matrix @ before).astype(np.float32)
    rhs[820] += 1.0
    iterate = before.copy()
    parts = adjacency.indptr, adjacency.indices, adjacency.data, diagonal
    correct_near(parts, rhs, iterate, np.array([820]), 1e-4)
    moved = np.flatnonzero(iterate != before)
    assert 820 in moved
    assert 50 < moved.size <= 110  # a sixteenth of the entries
    place = np.stack(np.divmod(moved, 40)) - np.array(np.divmod(820, 40))[:, None]
    assert np.abs(place).sum(axis=0).max() <= 8
    left = rhs - matrix @ iterate
    inside = np.linalg.solve(matrix.toarray()[np.ix_(moved, moved)], (rhs - matrix @ before)[moved])
    np.testing.assert_allclose(iterate[moved] - before[moved], inside, atol=2e-4)
    assert np.abs(left[moved]).max() < 1e-3
    assert np.linalg.norm(left) < 0.5


def test_nothing_is_done_where_the_residual_is_small_enough() -> None:
    adjacency, diagonal = grid(10, 0.1)
    iterate, rhs = np.ones(100, np.float32), np.full(100, 0.1, np.float32)
    correct_near(
        (adjacency.indptr, adjacency.indices, adjacency.data, diagonal),
        rhs,
        iterate,
        np.array([3]),
        1e-2,
    )
    np.testing.assert_array_equal(iterate, 1.0)


@pytest.mark.parametrize("changed", [None, [np.array([70]), np.arange(9), np.zeros(0, np.int64)]])
def test_pagerank_from_a_start_is_that_without(changed: list[np.ndarray] | None) -> None:
    graph, _ = rings(100, 20, 0.3)
    pagerank = PersonalizedPageRank.of_graph(graph)
    block = np.zeros((graph.n_nodes, 3), np.float32)
    block[np.arange(60, 360, 10), np.arange(30) % 3] = 1.0
    before = block.copy()
    before[[70, 80, 90]] = 0.0
    start = pagerank.filtered(before, 0.05, rtol=1e-4)
    expected = pagerank.filtered(block, 0.05, rtol=1e-6)
    found = pagerank.filtered(block, 0.05, rtol=1e-4, start=start, changed=changed)
    error = np.linalg.norm(found - expected, axis=0) / np.linalg.norm(block, axis=0)
    assert error.max() < 1e-4
