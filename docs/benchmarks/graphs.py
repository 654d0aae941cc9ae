"""Graphs on which sparsifiers are compared, as edge lists in random order."""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse
from sklearn.neighbors import NearestNeighbors

from docs.benchmarks.frame import folder
from peewit.solvers.arrays import FloatArray, IntArray
from tests.streaming.graphs import EdgeList

_MASK_NODES = 20_000
_ROWS_AT_A_TIME = 500


def four_gaussians(n_nodes: int = 12_100, k: int = 500, *, seed: int = 0) -> EdgeList:
    """Union k-NN graph of four round Gaussians in a square, unit weights.

    Centers 6 standard deviations apart: 3.76 M edges and one component with the default sizes.
    """
    rng = np.random.default_rng(seed)
    corners = 3.0 * np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    sizes = np.bincount(np.arange(n_nodes) % 4)
    points = [
        rng.normal(corner, 1.0, (size, 2)) for corner, size in zip(corners, sizes, strict=True)
    ]
    return neighbors(np.concatenate(points), k, seed=seed)


def four_rectangles(n_nodes: int = 12_100, k: int = 4_500, *, seed: int = 0) -> EdgeList:
    """Union k-NN graph of the reconstructed set of 12,100 points (section D.6), unit weights."""
    points, _ = rectangle_points(n_nodes, seed=seed)
    return neighbors(points, k, seed=seed)


def rectangle_points(n_nodes: int = 12_100, *, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """The reconstructed set of 12,100 points (section D.6), and the number of each one's rectangle.

    Four rectangles, 0 the uppermost; the inner two lie close together, and hold 4,100 points.
    """
    rng = np.random.default_rng(seed)
    shares = np.array([4_000, 2_050, 2_050, 4_000]) / 12_100
    ends = np.round(n_nodes * np.cumsum(shares)).astype(int)
    sizes = np.diff(ends, prepend=0)
    halves = np.array([[1.0, 0.9], [0.7, 0.5], [0.7, 0.5], [1.0, 0.9]])
    heights = (4.5, 0.8, -0.8, -4.5)
    points = [
        rng.uniform(-half, half, (size, 2)) + np.array([0.0, height])
        for size, half, height in zip(sizes, halves, heights, strict=True)
    ]
    return np.concatenate(points), np.repeat(np.arange(4), sizes)


def mnist(k: int = 100, *, n_nodes: int | None = None) -> EdgeList:
    """Union k-NN graph of the images in ``$PEEWIT_DATA/mnist.npz`` (X), unit weights.

    Finding the neighbors of all 70,000 takes minutes; the result is kept in the temporary folder.
    """
    kept = Path(tempfile.gettempdir()) / f"peewit-mnist-{k}-{n_nodes or 'all'}.npz"
    if kept.exists():
        with np.load(kept) as stored:
            u, v = stored["u"], stored["v"]
            ones = np.ones(u.size, np.float32)
            return EdgeList(u=u, v=v, weight=ones, n_nodes=int(stored["n_nodes"]))
    with np.load(folder() / "mnist.npz") as stored:
        features = stored["X"][:n_nodes]
    edges = neighbors(features.reshape(len(features), -1).astype(np.float32), k, seed=0)
    unfinished = kept.with_suffix(".part.npz")
    np.savez(unfinished, u=edges.u, v=edges.v, n_nodes=edges.n_nodes)
    unfinished.rename(kept)
    return edges


def small_clusters(n_clusters: int, size: int, n_between: int, *, seed: int = 0) -> EdgeList:
    """Complete clusters in a ring, ``n_between`` edges between: degrees tell nothing of cuts."""
    rng = np.random.default_rng(seed)
    first, second = np.triu_indices(size, 1)
    base = size * np.repeat(np.arange(n_clusters), first.size)
    cluster = np.repeat(np.arange(n_clusters), n_between)
    u = size * cluster + rng.integers(0, size, cluster.size)
    v = size * ((cluster + 1) % n_clusters) + rng.integers(0, size, cluster.size)
    heads = np.concatenate([base + np.tile(first, n_clusters), u])
    tails = np.concatenate([base + np.tile(second, n_clusters), v])
    return _shuffled(heads, tails, n_clusters * size, seed)


def neighbors(points: FloatArray, k: int, *, seed: int) -> EdgeList:
    """Edges between points one of which is among the other's k nearest."""
    n_nodes = len(points)
    index = NearestNeighbors(n_neighbors=k + 1).fit(points)
    if n_nodes <= _MASK_NODES:
        near = np.zeros((n_nodes, n_nodes), np.bool_)
        for start in range(0, n_nodes, _ROWS_AT_A_TIME):
            rows = np.arange(start, min(start + _ROWS_AT_A_TIME, n_nodes))
            near[rows[:, None], index.kneighbors(points[rows], return_distance=False)] = True
        near |= near.T.copy()
        u, v = np.nonzero(np.triu(near, 1))
        return _shuffled(u, v, n_nodes, seed)
    columns = index.kneighbors(points, return_distance=False).astype(np.int32)
    starts = np.arange(0, columns.size + 1, k + 1)
    directed = scipy.sparse.csr_matrix(
        (np.ones(columns.size, np.int8), columns.ravel(), starts), shape=(n_nodes, n_nodes)
    )
    both = scipy.sparse.triu(directed + directed.T, 1).tocoo()
    return _shuffled(both.row, both.col, n_nodes, seed)


def _shuffled(u: IntArray, v: IntArray, n_nodes: int, seed: int) -> EdgeList:
    order = np.random.default_rng(seed).permutation(u.size)
    return EdgeList(
        u=u[order].astype(np.int32),
        v=v[order].astype(np.int32),
        weight=np.ones(u.size, np.float32),
        n_nodes=n_nodes,
    )
