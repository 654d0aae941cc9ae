import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from peewit.solvers.kernels.adjacency import row_sums
from peewit.solvers.kernels.components import find_root, join_edges, number_components
from peewit.solvers.kernels.jacobi_chebyshev import (
    chebyshev_rows,
    first_directions,
    scaled_energies,
    smooth_rows,
)
from peewit.solvers.kernels.laplacian_products import (
    CHUNK_ROWS,
    advance,
    column_dots,
    component_sums,
    diagonal_rows,
    laplacian_rows,
    multiply_rows,
    redirect,
    redirect_by_rows,
    squares_by_rows,
    subtract_by_component,
    vector_rows,
)
from peewit.solvers.kernels.random_projection import project_rows
from peewit.solvers.kernels.random_walk import (
    UNIT,
    lanczos_rows,
    normalize_rows,
    orthogonalize_rows,
    project_roots,
    walk_rows,
)
from peewit.solvers.kernels.resistance_records import (
    add_projected_nodes,
    count_ends,
    estimated_resistances,
    fill_rows,
    spread_over_edges,
)
from tests.reference.signs import probe_signs
from tests.streaming.graphs import random_graph

N_NODES = 60
SALT = np.uint64(1 << 32)


def uncompiled(kernel: Any) -> Callable[..., Any]:
    """The Python of a kernel, and of the kernels that it calls."""
    function = getattr(kernel, "py_func", kernel)
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if hasattr(scope.get(name), "py_func"):
            scope[name] = uncompiled(scope[name])
    return FunctionType(function.__code__, scope)


@pytest.fixture(params=["compiled", "python"])
def run(request):
    """Runs a kernel as compiled code and as the Python it was written in."""
    if request.param == "compiled":
        return lambda kernel, *arguments: kernel(*arguments)
    return lambda kernel, *arguments: uncompiled(kernel)(*arguments)


@pytest.fixture
def graph():
    return random_graph(N_NODES, 0.2, seed=3).graph()


def block(n_rows: int, n_columns: int, dtype=np.float64) -> np.ndarray:
    return np.random.default_rng(n_columns).standard_normal((n_rows, n_columns)).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_columns", [0, 1, 2, 4, 5, 8])
def test_both_products_are_the_shifted_laplacian(run, graph, dtype, n_columns) -> None:
    shift = np.linspace(0, 1, N_NODES).astype(dtype)
    vectors = block(N_NODES, n_columns, dtype)
    matrix = graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data.astype(dtype)
    expected = (graph.laplacian().toarray() + np.diag(shift)) @ vectors
    diagonal = (graph.degree + shift).astype(dtype)
    for kernel, diagonal_or_shift in ((laplacian_rows, shift), (diagonal_rows, diagonal)):
        out = np.full_like(vectors, np.nan)
        run(kernel, *matrix, diagonal_or_shift, vectors, out, 0, N_NODES)
        np.testing.assert_allclose(out, expected, atol=np.finfo(dtype).eps * 200)


def test_products_over_ranges_of_rows_make_the_whole(graph) -> None:
    vectors = block(N_NODES, 3)
    matrix = graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data
    whole, parts = np.empty_like(vectors), np.empty_like(vectors)
    laplacian_rows(*matrix, np.zeros(N_NODES), vectors, whole, 0, N_NODES)
    for start, stop in ((40, N_NODES), (0, 17), (17, 40)):
        laplacian_rows(*matrix, np.zeros(N_NODES), vectors, parts, start, stop)
    np.testing.assert_array_equal(parts, whole)


def test_column_dots_are_dot_products_beyond_one_chunk(run) -> None:
    n_rows = CHUNK_ROWS + 3
    left, right = block(n_rows, 2), block(n_rows, 2)[::-1].copy()
    np.testing.assert_allclose(run(column_dots, left, right), (left * right).sum(axis=0))


def test_column_dots_of_a_column_do_not_depend_on_the_others() -> None:
    left, right = block(CHUNK_ROWS * 3, 7, np.float32), block(CHUNK_ROWS * 3, 7, np.float32)
    together = column_dots(left, right)
    alone = column_dots(np.ascontiguousarray(left[:, 4:5]), np.ascontiguousarray(right[:, 4:5]))
    assert together[4] == alone[0]


@pytest.mark.parametrize("n_rows", [CHUNK_ROWS + 1, CHUNK_ROWS + 2, 2 * CHUNK_ROWS + 3])
def test_steps_of_a_column_do_not_depend_on_the_others(n_rows: int) -> None:
    x, r, p, q = (block(n_rows, 5) + shift for shift in range(4))
    alone = [np.ascontiguousarray(each[:, 3:4]) for each in (x, r, p, q)]
    length, inverse = np.linspace(-1.0, 1.0, 5), np.linspace(0.1, 2.0, n_rows)
    assert advance(x, r, p, q, length)[3] == advance(*alone, length[3:4])[0]
    assert squares_by_rows(r, inverse)[3] == squares_by_rows(alone[1], inverse)[0]
    redirect_by_rows(p, r, inverse, length)
    redirect_by_rows(alone[2], alone[1], inverse, length[3:4])
    redirect(q, x, length, length)
    redirect(alone[3], alone[0], length[3:4], length[3:4])
    for together, column in zip((x, r, p, q), alone, strict=True):
        np.testing.assert_allclose(column[:, 0], together[:, 3], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_squares_are_counted_by_row(run, n_columns: int) -> None:
    residual, inverse = block(CHUNK_ROWS + 3, n_columns), np.linspace(0.0, 2.0, CHUNK_ROWS + 3)
    expected = (inverse[:, None] * residual**2).sum(axis=0)
    np.testing.assert_allclose(run(squares_by_rows, residual, inverse), expected)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_advance_and_redirect_are_the_steps_of_conjugate_gradients(run, n_columns: int) -> None:
    x, r, p, q = (block(9, n_columns) + shift for shift in range(4))
    length = np.array([0.5, 0.0, -2.0])[:n_columns]
    expected_x, expected_r = x + length * p, r - length * q
    squares = run(advance, x, r, p, q, length)
    np.testing.assert_allclose(x, expected_x)
    np.testing.assert_allclose(r, expected_r)
    np.testing.assert_allclose(squares, (expected_r**2).sum(axis=0))
    gain = np.array([1.0, 3.0, 0.1])[:n_columns]
    expected_p = gain * q + length * p
    run(redirect, p, q, length, gain)
    np.testing.assert_allclose(p, expected_p)
    inverse = np.linspace(0.1, 2.0, 9)
    expected_p = inverse[:, None] * r + length * p
    run(redirect_by_rows, p, r, inverse, length)
    np.testing.assert_allclose(p, expected_p)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_rows_are_multiplied_by_their_factors(run, n_columns: int) -> None:
    vectors, factor = block(9, n_columns), np.linspace(-1.0, 1.0, 9)
    out = np.zeros_like(vectors)
    run(multiply_rows, vectors, factor, out, 2, 9)
    np.testing.assert_array_equal(out[2:], (factor[:, None] * vectors)[2:])
    assert not out[:2].any()


def test_component_sums_and_their_removal(run) -> None:
    component = np.array([0, 1, 0, 2, 1], dtype=np.int32)
    vectors = block(5, 2)
    sums = np.zeros((3, 2))
    run(component_sums, vectors, component, sums)
    expected = np.array([vectors[component == number].sum(axis=0) for number in range(3)])
    np.testing.assert_allclose(sums, expected)
    means = sums / np.bincount(component)[:, None]
    run(subtract_by_component, vectors, component, means)
    again = np.zeros((3, 2))
    run(component_sums, vectors, component, again)
    np.testing.assert_allclose(again, 0, atol=1e-14)


def test_one_vector_is_a_block_of_one(run, graph) -> None:
    matrix = graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data
    vector = block(N_NODES, 1)[:, 0]
    diagonal = graph.degree + 0.5
    expected = np.diag(diagonal) @ vector - graph.adjacency.toarray() @ vector
    out = np.full(N_NODES, np.nan)
    run(vector_rows, *matrix, diagonal, vector, out, 5, N_NODES)
    run(vector_rows, *matrix, diagonal, vector, out, 0, 5)
    np.testing.assert_allclose(out, expected, atol=1e-12)


@pytest.fixture
def records():
    """Records with loops and parallels, and the order in which their nodes stand."""
    rng = np.random.default_rng(7)
    n_records, n_nodes = 90, 12
    return {
        "u": rng.integers(0, n_nodes, n_records).astype(np.int32),
        "v": rng.integers(0, n_nodes, n_records).astype(np.int32),
        "weight": rng.uniform(0.1, 5.0, n_records).astype(np.float32),
        "key": rng.integers(0, 2**64, n_records, dtype=np.uint64),
        "node": rng.permutation(n_nodes),
    }


def rows_of(run, records) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """indptr, indices, data and keys as the embedding fills them."""
    n_nodes = records["node"].size
    rank = np.argsort(records["node"]).astype(np.int32)
    indptr = np.zeros(n_nodes + 1, np.int32)
    run(count_ends, records["u"], records["v"], rank, indptr[1:])
    np.cumsum(indptr, out=indptr)
    indices = np.empty(indptr[-1], np.int32)
    data, keys = np.empty(indptr[-1], np.float32), np.empty(indptr[-1], np.uint64)
    for name, values in (("weight", data), ("key", keys)):
        columns, cursor = (records["u"], records["v"], records[name]), indptr[:-1].copy()
        for low, high in ((5, n_nodes), (0, 5)):
            run(fill_rows, *columns, rank, cursor, indices, values, low, high)
        np.testing.assert_array_equal(cursor, indptr[1:])
    return indptr, indices, data, keys


def test_rows_hold_both_ends_of_every_record_in_order(run, records) -> None:
    rank = np.argsort(records["node"])
    expected: list[list[tuple[int, float, int]]] = [[] for _ in rank]
    columns = (records[name].tolist() for name in ("u", "v", "weight", "key"))
    for i, j, weight, key in zip(*columns, strict=True):
        if i != j:
            expected[rank[i]].append((rank[j], weight, key))
            expected[rank[j]].append((rank[i], weight, key))
    indptr, *columns = rows_of(run, records)
    for row, entries in enumerate(expected):
        part = slice(indptr[row], indptr[row + 1])
        assert list(zip(*(column[part].tolist() for column in columns), strict=True)) == entries


def test_row_sums_are_taken_in_float64(run, records) -> None:
    indptr, _, data, _ = rows_of(run, records)
    data[:] = 1e-3
    data[indptr[:-1]] = 1e6
    out = np.empty(12)
    run(row_sums, indptr, data, out)
    expected = [data[a:b].astype(np.float64).sum() for a, b in itertools.pairwise(indptr)]
    np.testing.assert_allclose(out, expected, rtol=1e-13)


@pytest.mark.parametrize("n_probes", [1, 64, 70])
def test_projected_rows_are_the_signed_incidence_sums(run, records, n_probes) -> None:
    indptr, indices, data, keys = rows_of(run, records)
    seed, node = 2**64 - 11, records["node"]
    out = np.full((12, n_probes), np.nan, dtype=np.float32)
    with np.errstate(over="ignore"):
        for first in range(0, n_probes, 64):
            for start, stop in ((7, 12), (0, 7)):
                columns = out[:, first : min(first + 64, n_probes)]
                matrix = indptr, indices, data, keys, node
                run(project_rows, *matrix, np.uint64(seed), 0.5, first // 64, columns, start, stop)
    incidence = np.zeros((records["u"].size, 12))
    for row, (i, j) in enumerate(zip(records["u"], records["v"], strict=True)):
        incidence[row, min(i, j)] += 1
        incidence[row, max(i, j)] -= 1
    signs = probe_signs(seed, records["key"], n_probes)
    expected = incidence.T @ (np.sqrt(records["weight"])[:, None] * signs * 0.5)
    np.testing.assert_allclose(out, expected[node], atol=1e-5)


@pytest.mark.parametrize("n_probes", [1, 64, 70])
def test_projected_nodes_are_added_with_signs_of_their_own(run, n_probes) -> None:
    node, seed = np.array([3, 0, 2, 1]), 11
    out = np.ones((4, n_probes), dtype=np.float32)
    with np.errstate(over="ignore"):
        for first in range(0, n_probes, 64):
            columns = out[:, first : min(first + 64, n_probes)]
            run(add_projected_nodes, node, 9.0, np.uint64(seed), 0.5, first // 64, columns)
    signs = probe_signs(seed, np.arange(4, dtype=np.uint64), n_probes)
    np.testing.assert_allclose(out, 1.0 + 1.5 * signs[node], rtol=1e-6)


@pytest.mark.parametrize("stride", [1, 7])
def test_values_spread_over_every_so_manieth_edge(run, records, stride) -> None:
    vector = np.random.default_rng(1).standard_normal(12).astype(np.float32)
    sums, totals = np.zeros(12, np.float32), np.zeros(12, np.float32)
    columns = records["u"], records["v"], records["weight"]
    for low, high in ((0, 4), (4, 12)):
        run(spread_over_edges, *columns, stride, vector, sums, totals, low, high)
    expected, expected_totals = np.zeros(12), np.zeros(12)
    u, v, weight = (column[::stride] for column in columns)
    for ends, others in ((u, v), (v, u)):
        np.add.at(expected, ends, weight * vector[others])
        np.add.at(expected_totals, ends, weight)
    np.testing.assert_allclose(sums, expected, atol=1e-4)
    np.testing.assert_allclose(totals, expected_totals, rtol=1e-5)


def test_estimated_resistances_add_what_degrees_tell_to_the_distance(run) -> None:
    vectors = block(4, 3, np.float32)
    degree = np.array([2.0, 4.0, 5.0, 8.0])
    inverse = (1 / degree).astype(np.float32)
    component = np.array([0, 0, 1, 1], dtype=np.int32)
    u, v = np.array([0, 2, 1, 3]), np.array([1, 3, 2, 3])
    distance = ((vectors[u] - vectors[v]) ** 2).sum(axis=1)
    for conductance in (np.array([0.5]), np.array([0.5, 3.0, 1.0, 2.0])):
        out = np.empty(4, dtype=np.float32)
        run(estimated_resistances, vectors, inverse, component, u, v, conductance, out)
        local = 1 / degree[u] + 1 / degree[v] - 2 * conductance / (degree[u] * degree[v])
        np.testing.assert_allclose(out[:2], (local + distance)[:2], rtol=1e-6)
        assert out[2:].tolist() == [np.inf, 0.0]


def chebyshev_system(graph) -> tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """CSR arrays, diagonal and its inverse in float32, one node without an edge."""
    diagonal = (graph.degree + 0.25).astype(np.float32)
    inverse = (1 / diagonal).astype(np.float32)
    inverse[3] = 0.0
    matrix = graph.adjacency.indptr, graph.adjacency.indices, graph.adjacency.data
    return (matrix[0], matrix[1], matrix[2].astype(np.float32)), diagonal, inverse


@pytest.mark.parametrize("n_columns", [1, 32])
def test_a_chebyshev_step_is_what_its_three_formulas_say(run, graph, n_columns) -> None:
    matrix, diagonal, inverse = chebyshev_system(graph)
    solution, residual, direction = (
        np.random.default_rng(seed).standard_normal((N_NODES, n_columns)).astype(np.float32)
        for seed in range(3)
    )
    dense = np.diag(diagonal) - graph.adjacency.toarray()
    gain, keep = 0.7, 0.3
    expected_solution = solution + direction
    expected_residual = residual - dense @ direction
    expected_direction = gain * inverse[:, None] * expected_residual + keep * direction
    spare = np.full_like(direction, np.nan)
    blocks = direction, spare, solution, residual
    for start, stop in ((30, N_NODES), (0, 30)):
        run(chebyshev_rows, *matrix, diagonal, inverse, *blocks, gain, keep, start, stop)
    np.testing.assert_allclose(solution, expected_solution, atol=1e-5)
    np.testing.assert_allclose(residual, expected_residual, atol=2e-4)
    np.testing.assert_allclose(spare, expected_direction, atol=2e-4)


def test_first_directions_are_the_scaled_residual(run, graph) -> None:
    _, _, inverse = chebyshev_system(graph)
    residual = block(N_NODES, 5, np.float32)
    direction = np.full_like(residual, np.nan)
    run(first_directions, residual, inverse, 0.7, direction, 0, 9)
    assert np.isnan(direction[9:]).all()
    run(first_directions, residual, inverse, 0.7, direction, 9, N_NODES)
    np.testing.assert_allclose(direction, 0.7 * inverse[:, None] * residual, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smoothed_rows_are_weighted_means_over_neighbors(run, graph, dtype) -> None:
    matrix, _, inverse = chebyshev_system(graph)
    vectors = block(N_NODES, 5, dtype)
    out = np.full_like(vectors, np.nan)
    run(smooth_rows, *matrix, inverse.astype(dtype), vectors, out, 0, 20)
    run(smooth_rows, *matrix, inverse.astype(dtype), vectors, out, 20, N_NODES)
    expected = inverse[:, None] * (graph.adjacency.toarray() @ vectors)
    np.testing.assert_allclose(out, expected, atol=1e-5)


def normalized(run, graph) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """N in dense form, and its CSR arrays by the kernel."""
    matrix, _, _ = chebyshev_system(graph)
    root = (1 / np.sqrt(graph.degree + 1.0)).astype(np.float32)
    values = np.full_like(matrix[2], np.nan)
    for start, stop in ((0, 20), (20, N_NODES)):
        run(normalize_rows, *matrix, root, values, start, stop)
    dense = root[:, None] * graph.adjacency.toarray() * root
    return dense, (*matrix[:2], values)


def step(run, *arguments: Any) -> None:
    with np.errstate(over="ignore"):  # the salt is multiplied modulo 2^64
        run(walk_rows, *arguments)


def test_walk_rows_step_and_count_what_returns(run, graph) -> None:
    dense, matrix = normalized(run, graph)
    before = np.random.default_rng(0).integers(-100, 100, (N_NODES, 32)).astype(np.int8)
    after, returns = np.zeros_like(before), np.ones(N_NODES)
    for start, stop in ((0, 20), (20, N_NODES)):
        step(run, *matrix, before, after, 0.5, 2.0, returns, SALT, start, stop)
    exact = dense @ before
    assert np.abs(exact).max() < 127
    np.testing.assert_allclose(after, exact, atol=1.0)
    assert abs((after - exact).mean()) < 0.02
    odd, even = (exact * before).mean(axis=1), (exact**2).mean(axis=1)
    assert (odd < 0).any()
    np.testing.assert_allclose(
        returns, 1 + (0.5 * np.maximum(odd, 0) + 2.0 * even) / UNIT**2, rtol=1e-4
    )


def test_what_does_not_fit_a_byte_is_cut(run) -> None:
    matrix = np.array([0, 1, 2]), np.array([1, 0]), np.array([10, -10], np.float32)
    before, after = np.full((2, 32), 64, np.int8), np.zeros((2, 32), np.int8)
    step(run, *matrix, before, after, 0.0, 0.0, np.zeros(2), SALT, 0, 2)
    assert (after[0] == 127).all()
    assert (after[1] == -127).all()


@pytest.mark.slow
def test_what_many_neighbors_hold_is_not_rounded_away(run) -> None:
    n_leaves = 3_000
    indptr = np.arange(n_leaves + 1)
    matrix = indptr, np.zeros(n_leaves, np.int64), np.full(n_leaves, 0.01, np.float32)
    before, after = np.zeros((2, n_leaves, 32), np.int8)
    before[0] = 32
    step(run, *matrix, before, after, 0.0, 0.0, np.zeros(n_leaves), SALT, 0, n_leaves)
    assert set(np.unique(after)) == {0, 1}
    np.testing.assert_allclose(after.mean(axis=0), 0.32, atol=0.03)
    np.testing.assert_allclose(after.mean(axis=1).mean(), 0.32, atol=0.003)


@pytest.mark.slow
def test_lanczos_rows_are_one_step_of_the_recurrence(run, graph) -> None:
    dense, matrix = normalized(run, graph)
    current, previous = block(N_NODES, 2, np.float32), block(N_NODES, 2, np.float32)[::-1].copy()
    scale, coupling = np.array([0.5, 2.0], np.float32), np.array([0.25, 3.0], np.float32)
    exact = scale * (current - dense @ current) - coupling * previous
    quotient = (scale * current * exact).sum(axis=0)
    sums = [
        run(lanczos_rows, *matrix, current, previous, scale, coupling, *rows)
        for rows in ((0, 20), (20, N_NODES))
    ]
    np.testing.assert_allclose(previous, exact, atol=1e-4)
    np.testing.assert_allclose(sum(sums), quotient, rtol=1e-4)
    factor = (quotient * scale).astype(np.float32)
    exact -= factor * current
    squares = [
        run(orthogonalize_rows, previous, current, factor, *rows)
        for rows in ((0, 20), (20, N_NODES))
    ]
    np.testing.assert_allclose(previous, exact, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(sum(squares), (exact**2).sum(axis=0), rtol=1e-4)


def test_roots_are_projected_out_of_the_components_asked(run) -> None:
    vectors = block(6, 2, np.float32)
    root = np.array([1, 2, 3, 1, 1, 0], np.float32)
    component, total = np.array([0, 0, 0, 1, 1, 2], np.int32), np.array([14.0, np.inf, np.inf])
    projected = vectors.copy()
    run(project_roots, projected, root, component, total, np.zeros((3, 2)))
    assert np.array_equal(projected[3:], vectors[3:])
    np.testing.assert_allclose(root[:3] @ projected[:3], 0, atol=1e-5)
    np.testing.assert_allclose(
        projected[:3] - vectors[:3], root[:3, None] * ((projected[:3] - vectors[:3])[0]), rtol=1e-5
    )


def test_scaled_energies_are_norms_in_the_inverse_diagonal(run, graph) -> None:
    _, _, inverse = chebyshev_system(graph)
    vectors = block(N_NODES, 5, np.float32)
    parts = [run(scaled_energies, vectors, inverse, *part) for part in ((0, 20), (20, N_NODES))]
    expected = (inverse[:, None] * vectors.astype(np.float64) ** 2).sum(axis=0)
    np.testing.assert_allclose(np.sum(parts, axis=0), expected, rtol=1e-6)


@pytest.mark.parametrize("n_edges", [0, 5, 15, 60])
def test_components_are_numbered_by_their_first_node(run, n_edges) -> None:
    rng = np.random.default_rng(n_edges)
    u, v = rng.integers(0, 25, n_edges), rng.integers(0, 25, n_edges)
    matrix = scipy.sparse.coo_array((np.ones(n_edges), (u, v)), shape=(25, 25))
    n_components, expected = connected_components(matrix, directed=False)
    for order in (np.arange(n_edges), rng.permutation(n_edges)):
        parent, component = np.arange(25, dtype=np.int32), np.empty(25, np.int32)
        run(join_edges, u[order], v[order], parent)
        roots = [run(find_root, parent, node) for node in range(25)]
        assert run(number_components, parent, component) == n_components
        np.testing.assert_array_equal(component, expected)
        assert all(roots[node] == component.tolist().index(component[node]) for node in range(25))


@pytest.mark.usefixtures("processes")
def test_an_embedding_is_the_same_without_the_compiler() -> None:
    program = """
import numpy as np
from peewit.solvers.laplacian.effective_resistance import resistance_embedding
nodes = np.arange(30)
embedding = resistance_embedding(
    nodes, (nodes * 7 + 1) % 30, 1.0 + nodes, nodes.astype(np.uint64),
    n_nodes=30, n_probes=5, seed=3, rtol=1e-4, ridge=0.5,
)
print(embedding.vectors.tobytes().hex())
"""
    outputs = []
    for disabled in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": disabled}
        outputs.append(
            subprocess.run(
                [sys.executable, "-W", "error", "-c", program],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    vectors = [np.frombuffer(bytes.fromhex(text.strip()), dtype=np.float32) for text in outputs]
    np.testing.assert_allclose(vectors[0], vectors[1], atol=1e-6)
