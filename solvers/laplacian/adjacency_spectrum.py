"""The ends of the spectrum of a graph's adjacency matrix, as a point of unit length for each node.

Nodes of one community have like points, and so have buyers, who know no other buyers but the same
sellers: the first is told by the largest eigenvalues, the second by the least, which are negative.
The degrees are regularized, since hubs and tiny parts would else have eigenvectors to themselves.
"""

from typing import Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.laplacian.walks.adjacency_product import AdjacencyProduct
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.row_ranges import row_blocks

RANK: Final = 24
"""Most eigenvectors of a point: from 16 on they tell as much."""

_MORE: Final = 8
_BLOCK_ENTRIES: Final = 128 << 20
_LEAST_RANK: Final = 8
"""Entries of a block, and eigenvectors of a point on graphs of so many nodes that these would be
more."""

_MOST_ROUNDS: Final = 4
_ENOUGH: Final = 0.01
"""Change of the mean inner product of a point with itself by a round that is the last, relative."""

_LOST: Final = 1e-10
"""Squared length of a direction, relative to the longest, that rounding in float32 hides."""

_SHORT: Final = 0.1
"""Points shorter than this part of the median keep their direction and are not of unit length."""


def spectral_points(
    graph: Graph, pagerank: PersonalizedPageRank, *, seed: int = 0, watch: Watch = UNWATCHED
) -> Float32Array:
    """(n_nodes, rank) rows of U |Lambda|^2, scaled to unit length (K21).

    Columns of U are the eigenvectors of (D + d)^-1/2 A (D + d)^-1/2, d the mean degree, of the
    ``RANK`` values in Lambda that are largest in size, fewer on tiny graphs. Subspace iteration
    from random columns ends when inner products of points have settled, after nine products with a
    block at most. Raises `RunStopped`.

    Parameters
    ----------
    pagerank : PersonalizedPageRank
        Of ``graph``; its weights in memory order are read.
    """
    n_nodes = graph.n_nodes
    rank = rank_of(n_nodes)
    if rank == 0 or graph.adjacency.nnz == 0:
        return np.zeros((n_nodes, rank), np.float32)
    mean = float(graph.degree.mean())
    product = AdjacencyProduct(pagerank, 1.0 / np.sqrt(graph.degree + mean))
    width = min(rank + _MORE, n_nodes)
    begun = np.random.default_rng(seed).standard_normal((n_nodes, width), dtype=np.float32)
    block, size = _orthonormal(product.times(product.in_order(begun))), np.inf
    for n_done in range(1, _MOST_ROUNDS + 1):
        watch.check()
        image = product.times(block)
        values, turn = np.linalg.eigh(_gram(block, image))
        largest = np.argsort(-np.abs(values))[:rank]
        before, size = size, float((values[largest] ** 4).sum())
        if n_done == _MOST_ROUNDS or abs(size - before) <= _ENOUGH * size:
            break
        block = _orthonormal(product.times(image))
    turned = turn[:, largest] * np.square(values[largest])
    return _of_unit_length(product.by_node(block @ turned.astype(np.float32)))


def rank_of(n_nodes: int) -> int:
    """Columns of points."""
    fitting = _BLOCK_ENTRIES // max(n_nodes, 1) - _MORE
    return min(RANK, max(fitting, _LEAST_RANK), n_nodes // 3)


def working_bytes(n_nodes: int) -> int:
    """Memory per node while points are made: four blocks in float32."""
    return 4 * 4 * (rank_of(n_nodes) + _MORE)


def _orthonormal(block: Float32Array) -> Float32Array:
    """Columns that span those of ``block``, fewer where some are lost in rounding."""
    squares, turn = np.linalg.eigh(_gram(block, block))
    is_found = squares > _LOST * squares[-1]
    turned = turn[:, is_found] / np.sqrt(squares[is_found])
    return np.asarray(block @ turned.astype(np.float32))


def _gram(left: Float32Array, right: Float32Array) -> FloatArray:
    """left^T right in float64, the mean of it and its transpose."""
    total = np.zeros((left.shape[1], right.shape[1]))
    for rows in row_blocks(len(left)):
        total += left[rows].astype(np.float64).T @ right[rows].astype(np.float64)
    return np.asarray(total + total.T) / 2.0


def _of_unit_length(points: Float32Array) -> Float32Array:
    """Points over their length in place, and over part of the median where that is more."""
    length = np.sqrt(np.einsum("ij,ij->i", points, points))
    least = _SHORT * float(np.median(length)) or float(length.max(initial=0.0)) or 1.0
    points /= np.maximum(length, np.float32(least))[:, None]
    return points
