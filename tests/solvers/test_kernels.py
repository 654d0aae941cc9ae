import os
import subprocess
import sys

import numpy as np
import pytest

from solvers.kernels.block_products import (
    CHUNK_ROWS,
    advance,
    column_dots,
    component_sums,
    diagonal_rows,
    laplacian_rows,
    redirect,
    subtract_by_component,
)
from solvers.kernels.edges import add_projected_edges, squared_distances
from tests.reference.signs import probe_signs
from tests.streaming.graphs import random_graph

N_NODES = 60


@pytest.fixture(params=["compiled", "python"])
def run(request):
    """Runs a kernel as compiled code and as the Python it was written in."""
    if request.param == "compiled":
        return lambda kernel, *arguments: kernel(*arguments)
    return lambda kernel, *arguments: getattr(kernel, "py_func", kernel)(*arguments)


@pytest.fixture
def graph():
    return random_graph(N_NODES, 0.2, seed=3).graph()


def block(n_rows: int, n_columns: int, dtype=np.float64) -> np.ndarray:
    return np.random.default_rng(n_columns).standard_normal((n_rows, n_columns)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_columns", [0, 1, 5])
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


def test_advance_and_redirect_are_the_steps_of_conjugate_gradients(run) -> None:
    x, r, p, q = (block(9, 3) + shift for shift in range(4))
    length = np.array([0.5, 0.0, -2.0])
    expected_x, expected_r = x + length * p, r - length * q
    squares = run(advance, x, r, p, q, length)
    np.testing.assert_allclose(x, expected_x)
    np.testing.assert_allclose(r, expected_r)
    np.testing.assert_allclose(squares, (expected_r**2).sum(axis=0))
    gain = np.array([1.0, 3.0, 0.1])
    expected_p = gain * q + length * p
    run(redirect, p, q, length, gain)
    np.testing.assert_allclose(p, expected_p)


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


@pytest.mark.parametrize("n_probes", [1, 64, 70])
def test_projected_edges_are_the_signed_incidence_sums(run, n_probes) -> None:
    u, v = np.array([0, 1, 2, 2]), np.array([1, 2, 2, 0])
    weight = np.array([1.0, 4.0, 9.0, 0.25], dtype=np.float32)
    keys = np.array([5, 2**63 + 1, 7, 2**64 - 1], dtype=np.uint64)
    seed = 11
    out = np.zeros((3, n_probes), dtype=np.float32)
    with np.errstate(over="ignore"):
        run(add_projected_edges, u, v, weight, keys, np.uint64(seed), 0.5, out)
    incidence = np.zeros((4, 3))
    for row in range(4):
        incidence[row, u[row]] += 1
        incidence[row, v[row]] -= 1
    signs = probe_signs(seed, keys, n_probes)
    expected = incidence.T @ (np.sqrt(weight)[:, None] * signs * 0.5)
    np.testing.assert_allclose(out, expected, atol=1e-6)


def test_squared_distances_are_infinite_across_components(run) -> None:
    vectors = block(4, 3, np.float32)
    component = np.array([0, 0, 1, 1], dtype=np.int32)
    u, v = np.array([0, 2, 1, 3]), np.array([1, 3, 2, 3])
    out = np.empty(4, dtype=np.float32)
    run(squared_distances, vectors, component, u, v, out)
    expected = ((vectors[u] - vectors[v]) ** 2).sum(axis=1)
    np.testing.assert_allclose(out[[0, 1, 3]], expected[[0, 1, 3]], rtol=1e-6)
    assert out[2] == np.inf


def test_an_embedding_is_the_same_without_the_compiler() -> None:
    program = """
import numpy as np
from solvers.laplacian.resistance import resistance_embedding
nodes = np.arange(30)
embedding = resistance_embedding(
    nodes, (nodes * 7 + 1) % 30, 1.0 + nodes, nodes.astype(np.uint64),
    n_nodes=30, n_probes=5, seed=3, rtol=1e-4,
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
