"""Elimination of nodes of low degree: the Schur complement, and solutions of the whole from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import peewit.solvers.laplacian.low_degrees
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.edge_record_matrix import EdgeRecords, record_matrix
from peewit.solvers.laplacian.effective_resistance import Embedding, resistance_embedding
from peewit.solvers.laplacian.low_degrees import LowDegrees
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from tests.reference.laplacian import dense_laplacian, pseudo_inverse
from tests.strategies import EdgeList, edge_lists

RIDGES = st.sampled_from([0.0, 0.5])


def operator_of(edges: EdgeList, ridge: float = 0.0) -> ShiftedLaplacian:
    """Parallel records as entries of their own."""
    keys = np.arange(edges.u.size, dtype=np.uint64)
    records = EdgeRecords.checked(edges.u, edges.v, edges.weight, keys, edges.n_nodes)
    return record_matrix(records, np.arange(edges.n_nodes), ridge, map)


def dense(operator: ShiftedLaplacian) -> np.ndarray:
    matrix = np.empty((operator.n_nodes, operator.n_nodes))
    operator.product(np.eye(operator.n_nodes), matrix)
    return matrix


def near_forest(n_nodes: int, n_more: int, seed: int) -> EdgeList:
    """A random tree, some more edges, and as many nodes without any."""
    rng = np.random.default_rng(seed)
    child = np.arange(1, n_nodes)
    parent = (rng.random(n_nodes - 1) * child).astype(np.int64)
    u, v = rng.integers(0, n_nodes, (2, n_more))
    weight = 10.0 ** rng.uniform(-2, 2, n_nodes - 1 + n_more)
    rank = rng.permutation(2 * n_nodes)
    ends = rank[np.concatenate([child, u])], rank[np.concatenate([parent, v])]
    return EdgeList(u=ends[0], v=ends[1], weight=weight, n_nodes=2 * n_nodes)


@pytest.fixture
def eliminates_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peewit.solvers.laplacian.low_degrees, "LEAST_SHARE", 0.0)


@pytest.mark.usefixtures("eliminates_always")
@given(edge_lists(), RIDGES)
def test_what_is_left_is_the_schur_complement(edges: EdgeList, ridge: float) -> None:
    operator = operator_of(edges, ridge)
    low = LowDegrees.of(operator)
    assert low is not None
    whole = dense_laplacian(edges.graph()) + ridge * np.eye(edges.n_nodes)
    left, order = low.left, low.order
    assert sorted([*left.tolist(), *order.tolist()]) == list(range(edges.n_nodes))
    between = whole[np.ix_(order, left)]
    inside = pseudo_inverse(whole[np.ix_(order, order)])
    schur = whole[np.ix_(left, left)] - between.T @ inside @ between
    scale = max(1.0, np.abs(schur).max(initial=0.0))
    np.testing.assert_allclose(dense(low.operator), schur, atol=1e-6 * scale)
    np.testing.assert_allclose(low.operator.diagonal, np.diag(schur), atol=1e-6 * scale)
    assert (np.diff(low.operator.indptr) > 2).all()


@pytest.mark.usefixtures("eliminates_always")
@given(edge_lists(), RIDGES, st.integers(0, 2**32))
def test_solutions_of_what_is_left_extend_to_the_whole(
    edges: EdgeList, ridge: float, seed: int
) -> None:
    operator = operator_of(edges, ridge)
    low = LowDegrees.of(operator)
    assert low is not None
    block = np.random.default_rng(seed).standard_normal((edges.n_nodes, 3))
    operator.project(block)
    sides = block.copy()
    inverse = pseudo_inverse(dense(low.operator)) if low.left.size else np.zeros((0, 0))
    low.extend(inverse @ low.reduced(block), block)
    solved = np.empty_like(block)
    operator.product(block, solved)
    size = max(1.0, np.abs(block).max() * np.abs(operator.diagonal).max(initial=0.0))
    np.testing.assert_allclose(solved, sides, atol=1e-5 * size)


def test_nothing_is_left_of_a_forest() -> None:
    low = LowDegrees.of(operator_of(near_forest(500, 0, seed=1)))
    assert low is not None
    assert low.operator.n_nodes == 0


def test_a_graph_of_few_such_nodes_is_left_as_it_is() -> None:
    rng = np.random.default_rng(1)
    u, v = rng.integers(0, 50, (2, 400))
    assert LowDegrees.of(operator_of(EdgeList(u=u, v=v, weight=np.ones(400), n_nodes=60))) is None


def embed(edges: EdgeList, ridge: float) -> Embedding:
    keys = np.arange(edges.u.size, dtype=np.uint64)
    records = edges.u, edges.v, edges.weight, keys
    settings = {"n_nodes": edges.n_nodes, "n_probes": 8, "seed": 3, "rtol": 1e-6}
    return resistance_embedding(*records, preconditioner="approx-chol", ridge=ridge, **settings)


@pytest.mark.parametrize("ridge", [0.0, 0.01])
@pytest.mark.parametrize("n_more", [0, 1, 300])
def test_an_embedding_is_the_one_without_elimination(
    monkeypatch: pytest.MonkeyPatch, n_more: int, ridge: float
) -> None:
    edges = near_forest(1_000, n_more, seed=2)
    embedding = embed(edges, ridge)
    monkeypatch.setattr(peewit.solvers.laplacian.low_degrees, "LEAST_SHARE", 2.0)
    twin = embed(edges, ridge)
    assert embedding.status == twin.status
    component = Graph.from_edges(edges.u, edges.v, edges.weight, n_nodes=edges.n_nodes).component
    difference = (embedding.vectors - twin.vectors).astype(np.float64)
    for members in (component == number for number in range(int(component.max()) + 1)):
        difference[members] -= 0.0 if ridge else difference[members].mean(axis=0)
    np.testing.assert_allclose(difference, 0.0, atol=1e-4 * np.abs(twin.vectors).max())
