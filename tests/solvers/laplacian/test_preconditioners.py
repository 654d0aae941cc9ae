import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.preconditioners import ApproximateCholesky, Jacobi
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.solver import LaplacianSolver
from tests.reference.laplacian import dense_laplacian, zero_sum_projection
from tests.strategies import graphs

PRECONDITIONERS = pytest.mark.parametrize("preconditioner", [Jacobi, ApproximateCholesky])


def operator_of(graph: Graph, shift: np.ndarray, *, zero_mean: bool = False) -> ShiftedLaplacian:
    return ShiftedLaplacian.of_graph(
        graph, scale=1.0, shift=shift, zero_mean=zero_mean, dtype=np.float64
    )


def applied_to_identity(preconditioner, n_nodes: int) -> np.ndarray:
    out = np.empty((n_nodes, n_nodes))
    preconditioner.apply(np.eye(n_nodes), out)
    return out


@st.composite
def shifts(draw: st.DrawFn, n_nodes: int) -> np.ndarray:
    level = st.sampled_from([0.0, 0.0, 1e-6, 1.0, 100.0])
    return np.array(draw(st.lists(level, min_size=n_nodes, max_size=n_nodes)))


@PRECONDITIONERS
@given(graph=graphs(max_nodes=15), data=st.data(), zero_mean=st.booleans())
def test_preconditioners_are_symmetric_and_positive_where_the_system_lives(
    preconditioner, graph, data, zero_mean
) -> None:
    operator = operator_of(graph, data.draw(shifts(graph.n_nodes)), zero_mean=zero_mean)
    inverse = applied_to_identity(preconditioner(operator), graph.n_nodes)
    # where the operator is singular only the part of zero sums counts
    inside = np.eye(graph.n_nodes)
    singular = operator.projected[graph.component]
    inside[singular] = zero_sum_projection(graph)[singular]
    seen = inside @ inverse @ inside
    size = np.abs(seen).max(initial=0.0)
    np.testing.assert_allclose(seen, seen.T, atol=1e-9 * size)
    lowest = np.linalg.eigvalsh((seen + seen.T) / 2)
    n_null = np.linalg.matrix_rank(inside, tol=1e-9)
    assert lowest.min() >= -1e-9 * size
    assert (lowest > 1e-12 * size).sum() >= n_null


@given(graph=graphs(min_nodes=2, connected=True), data=st.data())
def test_grounding_turns_the_shifted_system_into_a_laplacian(graph, data) -> None:
    shift = data.draw(shifts(graph.n_nodes))
    shift[0] = 1.0
    n_nodes = graph.n_nodes
    rhs = np.random.default_rng(0).standard_normal(n_nodes)
    u, v, weight = graph.edges()
    joined = np.flatnonzero(shift)
    grounded = Graph.from_edges(
        np.concatenate([u, joined]),
        np.concatenate([v, np.full(joined.size, n_nodes)]),
        np.concatenate([weight, shift[joined]]),
        n_nodes=n_nodes + 1,
    )
    z = LaplacianSolver(grounded, rtol=1e-9).solve(np.append(rhs, -rhs.sum())).x
    x = LaplacianSolver(graph, shift=shift, rtol=1e-9).solve(rhs).x
    expected = np.linalg.solve(dense_laplacian(graph) + np.diag(shift), rhs)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(z[:-1] - z[-1], expected, atol=1e-4 * scale)
    np.testing.assert_allclose(x, expected, atol=1e-4 * scale)


@pytest.mark.parametrize("n_nodes", [10, 500])
def test_approximate_cholesky_is_exact_on_trees(n_nodes: int) -> None:
    rng = np.random.default_rng(0)
    child = np.arange(1, n_nodes)
    parent = (rng.random(n_nodes - 1) * child).astype(np.int64)
    graph = Graph.from_edges(child, parent, rng.uniform(0.1, 10, n_nodes - 1), n_nodes=n_nodes)
    rhs = rng.standard_normal((n_nodes, 3))
    solution = LaplacianSolver(graph, preconditioner="approx-chol").solve(rhs, project=True)
    assert solution.n_iter == 1


def test_isolated_nodes_cost_nothing() -> None:
    graph = Graph.from_edges([0], [1], [2.0], n_nodes=4)
    for preconditioner in (Jacobi, ApproximateCholesky):
        inverse = applied_to_identity(preconditioner(operator_of(graph, np.zeros(4))), 4)
        np.testing.assert_array_equal(inverse[2:], 0.0)
