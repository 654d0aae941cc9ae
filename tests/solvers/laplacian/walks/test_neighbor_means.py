"""A step of the walk, against the dense matrix D^-1 A."""

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.walks.neighbor_means import NeighborMeans


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 5, 10])
def test_a_step_takes_means_of_neighbors_and_leaves_isolated_nodes(n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    u, v = rng.integers(0, 40, (2, 150))
    apart = u != v
    graph = Graph.from_edges(u[apart], v[apart], rng.uniform(0.1, 9.0, apart.sum()), n_nodes=42)
    dense = graph.adjacency.toarray()
    dense[40, 40] = dense[41, 41] = 1.0
    transition = dense / dense.sum(axis=1, keepdims=True)
    walk = NeighborMeans.of(graph, map)
    block = rng.standard_normal((42, n_columns)).astype(np.float32)
    out = np.empty_like(block)
    walk.step(block, out)
    np.testing.assert_allclose(out, transition @ block, rtol=1e-5, atol=1e-6)
    classes = rng.integers(0, n_columns, 42).astype(np.uint8)
    indicators = np.eye(n_columns)[classes]
    walk.step_from_classes(classes, out)
    np.testing.assert_allclose(out, transition @ indicators, rtol=1e-5, atol=1e-6)
