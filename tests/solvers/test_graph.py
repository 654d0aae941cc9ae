import dataclasses
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from scipy.sparse.csgraph import connected_components

from peewit.solvers.graph import Graph
from tests.reference.adjacency import symmetric_matrix
from tests.reference.laplacian import dense_laplacian
from tests.strategies import EdgeList, edge_lists, graphs


def path(*weights: float) -> Graph:
    nodes = np.arange(len(weights))
    return Graph.from_edges(nodes, nodes + 1, weights, n_nodes=len(weights) + 1)


@given(edge_lists())
def test_adjacency_sums_parallel_edges_of_both_orientations(edges: EdgeList) -> None:
    expected = np.zeros((edges.n_nodes, edges.n_nodes))
    for u, v, weight in zip(edges.u, edges.v, edges.weight, strict=True):
        if u != v:
            expected[u, v] += weight
            expected[v, u] += weight
    graph = edges.graph()
    np.testing.assert_allclose(graph.adjacency.toarray(), expected, rtol=1e-12)
    np.testing.assert_array_equal(graph.adjacency.toarray(), graph.adjacency.toarray().T)
    np.testing.assert_allclose(graph.degree, expected.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("n_nodes", "n_records"), [(4, 50_000), (700, 50_000), (60_000, 40_000), (200_000, 1_000)]
)
@pytest.mark.parametrize("weight_type", [np.float32, np.float64])
def test_matrix_and_components_are_those_of_scipy(n_nodes, n_records, weight_type) -> None:
    rng = np.random.default_rng(n_nodes)
    u, v = rng.integers(0, n_nodes, (2, n_records), dtype=np.int32)
    weight = rng.uniform(0.5, 2.0, n_records).astype(weight_type)
    graph = Graph.from_edges(u, v, weight, n_nodes=n_nodes)
    expected = symmetric_matrix(u, v, weight.astype(np.float64), n_nodes)
    np.testing.assert_array_equal(graph.adjacency.indptr, expected.indptr)
    np.testing.assert_array_equal(graph.adjacency.indices, expected.indices)
    np.testing.assert_allclose(graph.adjacency.data, expected.data, rtol=1e-13)
    np.testing.assert_allclose(graph.degree, expected.sum(axis=1), rtol=1e-13)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    n_components, component = connected_components(expected, directed=False)
    assert graph.n_components == n_components
    np.testing.assert_array_equal(graph.component, component)


def test_float32_graph_takes_the_rounded_weights_and_sums_degrees_in_float64() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 50, (2, 5_000))
    weight = rng.uniform(0.5, 2.0, 5_000)
    exact = Graph.from_edges(u, v, weight, n_nodes=50)
    rounded = Graph.from_edges(u, v, weight, n_nodes=50, dtype=np.float32)
    assert rounded.adjacency.data.dtype == np.float32
    np.testing.assert_allclose(rounded.adjacency.data, exact.adjacency.data, rtol=1.2e-7)
    np.testing.assert_array_equal(rounded.degree, rounded.adjacency.astype(np.float64).sum(axis=1))
    with pytest.raises(ValueError, match="dtype must be float64 or float32, got int32"):
        Graph.from_edges(u, v, weight, n_nodes=50, dtype=np.int32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_graph_takes_little_memory_beyond_itself(dtype: type) -> None:
    n_nodes, n_records = 20_000, 300_000
    u, v = np.random.default_rng(0).integers(0, n_nodes, (2, n_records), dtype=np.int32)
    weight = np.ones(n_records, np.float32)
    Graph.from_edges(u[:9], v[:9], weight[:9], n_nodes=n_nodes, dtype=dtype)  # compiles
    tracemalloc.start()
    try:
        graph = Graph.from_edges(u, v, weight, n_nodes=n_nodes, dtype=dtype)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    matrix = graph.adjacency
    result = sum(array.nbytes for array in (matrix.data, matrix.indices, matrix.indptr))
    unmerged = 2 * (n_records - graph.n_edges) * (np.dtype(dtype).itemsize + 4)
    assert peak <= result + unmerged + 2 * n_records + 40 * n_nodes + 100_000


@pytest.mark.slow
@given(graphs())
def test_sorted_edges_make_the_graph_again(graph: Graph) -> None:
    u, v, weight = graph.edges()
    batches = [(u[:3], v[:3], weight[:3]), (u[3:], v[3:], weight[3:])]
    again = Graph.from_sorted_edges(batches, n_nodes=graph.n_nodes)
    for name in ("indptr", "indices", "data"):
        left, right = getattr(graph.adjacency, name), getattr(again.adjacency, name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(graph.degree, again.degree)
    np.testing.assert_array_equal(graph.component, again.component)


@pytest.mark.parametrize(
    "bad",
    [(1, 1, 1.0), (2, 1, 1.0), (0, 2, 1.0), (0, 1, 1.0), (1, 4, 1.0), (-1, 2, 1.0)]
    + [(1, 2, weight) for weight in (0.0, -1.0, np.nan, np.inf)],
)
def test_edges_that_are_not_sorted_and_merged_are_refused(bad: tuple[int, int, float]) -> None:
    good = [(0, 1, 1.0), (0, 2, 1.0)]
    rows = [*good, bad, (2, 3, 1.0)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    for split in (0, 2, 3):
        batches = [tuple(c[:split] for c in columns), tuple(c[split:] for c in columns)]
        with pytest.raises(ValueError, match=r"0 <= u < v < 4 in rising order.* in row 2"):
            Graph.from_sorted_edges(batches, n_nodes=4)


@given(edge_lists())
def test_edges_given_twice_double_the_laplacian(edges: EdgeList) -> None:
    twice = Graph.from_edges(
        np.concatenate([edges.u, edges.v]),
        np.concatenate([edges.v, edges.u]),
        np.concatenate([edges.weight, edges.weight]),
        n_nodes=edges.n_nodes,
    )
    expected = 2 * edges.graph().laplacian().toarray()
    np.testing.assert_allclose(twice.laplacian().toarray(), expected, rtol=1e-12, atol=1e-12)


@given(graphs())
def test_laplacian_is_positive_semidefinite_with_constants_in_its_kernel(graph: Graph) -> None:
    laplacian = graph.laplacian().toarray()
    np.testing.assert_allclose(laplacian, dense_laplacian(graph), rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(laplacian).min() >= -1e-9 * max(1.0, graph.degree.max(initial=0.0))
    np.testing.assert_array_equal(graph.laplacian_product(np.ones(graph.n_nodes)), 0.0)


@given(graphs())
def test_laplacian_product_agrees_with_the_matrix(graph: Graph) -> None:
    vectors = np.random.default_rng(0).standard_normal((graph.n_nodes, 3))
    expected = dense_laplacian(graph) @ vectors
    scale = 1e-12 * max(1.0, graph.degree.max(initial=0.0))
    np.testing.assert_allclose(graph.laplacian_product(vectors), expected, rtol=1e-9, atol=scale)
    np.testing.assert_allclose(
        graph.laplacian_product(vectors[:, 0]), expected[:, 0], rtol=1e-9, atol=scale
    )


@given(graphs())
def test_edges_lists_each_edge_once_in_order(graph: Graph) -> None:
    u, v, weight = graph.edges()
    assert u.size == graph.n_edges
    assert (u < v).all()
    assert (np.diff(u.astype(np.int64) * graph.n_nodes + v) > 0).all()
    again = Graph.from_edges(u, v, weight, n_nodes=graph.n_nodes)
    np.testing.assert_array_equal(again.adjacency.toarray(), graph.adjacency.toarray())


@given(graphs())
def test_components_are_the_classes_of_connected_nodes(graph: Graph) -> None:
    reach = np.eye(graph.n_nodes, dtype=bool) | (graph.adjacency.toarray() > 0)
    for _ in range(graph.n_nodes):
        reach = reach @ reach
    same = graph.component[:, None] == graph.component[None, :]
    np.testing.assert_array_equal(same, reach)
    assert graph.n_components == len(np.unique(graph.component))
    np.testing.assert_array_equal(graph.component_sizes(), np.bincount(graph.component))


@given(graphs())
def test_adjacency_matrix_and_back_is_the_identity(graph: Graph) -> None:
    again = Graph.from_adjacency(graph.adjacency)
    np.testing.assert_array_equal(again.adjacency.toarray(), graph.adjacency.toarray())
    np.testing.assert_array_equal(again.component, graph.component)


def test_diagonal_and_stored_zeros_of_an_adjacency_matrix_are_dropped() -> None:
    rows, columns, values = [0, 0, 1, 2, 0], [0, 1, 0, 2, 2], [3.0, 1.0, 1.0, 2.0, 0.0]
    graph = Graph.from_adjacency(sp.coo_array((values, (rows, columns)), shape=(3, 3)).tocsr())
    assert graph.n_edges == 1
    assert graph.n_components == 2


def test_graph_without_nodes_is_a_graph() -> None:
    graph = Graph.from_edges([], [], [], n_nodes=0)
    assert (graph.n_nodes, graph.n_edges, graph.n_components) == (0, 0, 0)
    assert graph.laplacian_product(np.zeros((0, 2))).shape == (0, 2)
    assert all(part.size == 0 for part in graph.edges())


def test_isolated_nodes_are_components() -> None:
    graph = Graph.from_edges([0], [2], [1.0], n_nodes=4)
    assert graph.n_components == 3
    assert graph.component[0] == graph.component[2]


def test_indices_are_int32_and_arrays_read_only() -> None:
    graph = path(1.0, 2.0)
    assert graph.adjacency.indices.dtype == np.int32
    assert graph.adjacency.indptr.dtype == np.int32
    for array in (graph.adjacency.data, graph.adjacency.indices, graph.degree, graph.component):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        graph.n_components = 7  # type: ignore[misc]


def test_inputs_are_not_changed_and_not_kept() -> None:
    u, v, weight = np.array([0, 1, 1]), np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0])
    graph = Graph.from_edges(u, v, weight, n_nodes=2)
    u[:] = weight[:] = 9
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 3], [3, 0]])


@pytest.mark.parametrize(
    ("u", "v", "weight", "message"),
    [
        ([0], [3], [1.0], r"v must lie in \[0, 3\), got 3 in row 0"),
        ([0, -1], [1, 1], [1.0, 1.0], r"u must lie in \[0, 3\), got -1 in row 1"),
        ([0, 0], [1, 1], [1.0, 0.0], "weight must be finite and > 0, got 0.0 in row 1"),
        ([0], [1], [np.nan], "weight must be finite and > 0, got nan in row 0"),
        ([0], [1], [np.inf], "weight must be finite and > 0, got inf in row 0"),
        ([0], [2**63], [1.0], rf"v must lie in \[0, 3\), got {2**63} in row 0"),
        ([0, 1], [1], [1.0], "equal lengths, got 2, 1 and 1"),
        ([[0]], [1], [1.0], r"u must be one-dimensional, got shape \(1, 1\)"),
    ],
)
def test_bad_edges_are_refused_with_the_row(u, v, weight, message) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.from_edges(u, v, weight, n_nodes=3)


def test_real_node_ids_are_refused() -> None:
    with pytest.raises(TypeError, match="u must hold integer node ids, got dtype float64"):
        Graph.from_edges([0.5], [1], [1.0], n_nodes=3)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0, 1, 0], [1, 0, 0]], r"square, got shape \(2, 3\)"),
        ([[0, 1], [2, 0]], "symmetric, got entries that differ by 1"),
        ([[0, -1], [-1, 0]], "finite and >= 0"),
        ([[0, np.nan], [np.nan, 0]], "finite and >= 0"),
    ],
)
def test_bad_adjacency_matrices_are_refused(matrix, message) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.from_adjacency(np.array(matrix, dtype=float))


def test_product_with_vectors_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"vectors must have shape \(2,\) or \(2, k\)"):
        path(1.0).laplacian_product(np.ones(3))


def test_a_graph_shows_its_size() -> None:
    graph = Graph.from_edges([0, 1], [1, 2], [1.0, 2.0], n_nodes=4)
    assert repr(graph) == "Graph(n_nodes=4, n_edges=2, n_components=2)"


def test_the_number_of_nodes_may_be_any_integer() -> None:
    ends = np.array([0]), np.array([2]), np.array([1.0])
    assert Graph.from_edges(*ends, n_nodes=np.int64(3)).n_nodes == 3
    with pytest.raises(TypeError, match="float"):
        Graph.from_edges(*ends, n_nodes=3.0)
