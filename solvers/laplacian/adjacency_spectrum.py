"""The ends of the spectrum of a graph's adjacency matrix, as a point of unit length for each node.

Nodes of one community have like points, and so have buyers, who know no other buyers but the same
sellers: the first is told by the largest eigenvalues, the second by the least, which are negative.
The degrees are regularized, since hubs and tiny parts would else have eigenvectors to themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.laplacian.walks.adjacency_product import AdjacencyProduct
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank

RANK: Final = 24
"""Most eigenvectors of a point: from 16 on they tell as much."""

_MORE: Final = 8
WIDTH: Final = RANK + _MORE
"""Most columns of a block."""

_BLOCK_ENTRIES: Final = 128 << 20
"""Most entries of a block: on graphs of more than four million nodes points are shorter."""

_LEAST_RANK: Final = 8
"""Eigenvectors of a point on any graph that has them."""

_DENSE_NODES: Final = 400
_MOST_ROUNDS: Final = 3
MOST_PRODUCTS: Final = 2 * _MOST_ROUNDS
"""Products with a block that points take at most."""

_ENOUGH: Final = 0.01
"""Change of the mean inner product of a point with itself by a round that is the last, relative."""

_GRAM_ROWS: Final = 1 << 11
"""Rows that are in float64 at a time."""

_LOST: Final = 1e-10
"""Squared length of a direction, relative to the longest, that rounding in float32 hides."""

_SHORT: Final = 0.1
"""Points shorter than this part of the median keep their direction and are not of unit length."""


Multiply: TypeAlias = Callable[[Float32Array], Float32Array]
"""S times a block."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subspace:
    """Where an iteration stands: what it has multiplied last, and what makes points of it."""

    image: Float32Array  # (n_nodes, width) S Q, Q the orthonormal block before
    turn: Float32Array  # (width, rank), so that image @ turn is S U Lambda

    def points(self) -> Float32Array:
        """(n_nodes, rank) points of unit length (K21).

        S U Lambda stands for U Lambda^2, and is a step of the iteration further.
        """
        points = self.image @ self.turn
        if not points.any():
            return points
        length = np.sqrt(np.einsum("ij,ij->i", points, points))
        least = _SHORT * float(np.median(length)) or float(length.max())
        points /= np.maximum(length, np.float32(least))[:, None]
        return points


def spectral_subspace(
    graph: Graph, pagerank: PersonalizedPageRank, *, seed: int = 0, watch: Watch = UNWATCHED
) -> Subspace:
    """The leading eigenvectors of S = (D + d)^-1/2 A (D + d)^-1/2, d the mean degree (K21).

    They belong to the values that are largest in size, `rank_of` as many. Those of small graphs are
    exact. Else subspace iteration from random columns ends when they have settled, after six
    products with a block at most. Raises `RunStopped`.

    Parameters
    ----------
    pagerank : PersonalizedPageRank
        Of ``graph``; its weights in memory order are read.
    """
    n_nodes, rank = graph.n_nodes, rank_of(graph.n_nodes)
    if rank == 0 or graph.adjacency.nnz == 0:
        nothing = np.zeros((n_nodes, rank), np.float32)
        return Subspace(image=nothing, turn=np.eye(rank, dtype=np.float32))
    scale = regularized(graph.degree)
    if n_nodes <= _DENSE_NODES:
        watch.check()
        return _exact(scale[:, None] * graph.adjacency.toarray() * scale, rank)
    product = AdjacencyProduct(pagerank, scale)
    found = _iterated(product.times, product.in_order(_begun(n_nodes, rank, seed)), rank, watch)
    return replace(found, image=product.by_node(found.image))


def subspace_by_products(
    n_nodes: int, multiply: Multiply, *, seed: int = 0, watch: Watch = UNWATCHED
) -> Subspace:
    """`spectral_subspace` of a graph by products alone, of few nodes by a single one.

    ``multiply`` takes S times a block; one with edges. Raises `RunStopped`.
    """
    rank = rank_of(n_nodes)
    if n_nodes <= _DENSE_NODES:
        return _exact(multiply(np.eye(n_nodes, dtype=np.float32)).astype(np.float64), rank)
    return _iterated(multiply, _begun(n_nodes, rank, seed), rank, watch)


def _begun(n_nodes: int, rank: int, seed: int) -> Float32Array:
    shape = n_nodes, rank + _MORE
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _exact(matrix: FloatArray, rank: int) -> Subspace:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    largest = np.argsort(-np.abs(values))[:rank]
    image = (vectors[:, largest] * values[largest]).astype(np.float32)
    return Subspace(image=image, turn=np.diag(values[largest]).astype(np.float32))


def _iterated(multiply: Multiply, begun: Float32Array, rank: int, watch: Watch) -> Subspace:
    """Subspace iteration until the points have settled."""
    image, size = multiply(begun), np.inf
    del begun
    for n_done in range(1, _MOST_ROUNDS + 1):
        watch.check()
        block = _orthonormal(image if n_done == 1 else multiply(image))
        image = multiply(block)
        before = size
        turn, size = _turn(block, image, rank)
        if abs(size - before) <= _ENOUGH * size:
            break
    return Subspace(image=image, turn=turn)


def regularized(degree: FloatArray) -> FloatArray:
    """(n_nodes,) diagonal of (D + d)^-1/2."""
    return np.asarray(1.0 / np.sqrt(degree + degree.mean()))


def multiplied(subspace: Subspace, product: Multiply) -> Subspace:
    """One step further, by a product with another S, as of a graph that is read in passes."""
    block = _orthonormal(subspace.image)
    image = product(block)
    return Subspace(image=image, turn=_turn(block, image, subspace.turn.shape[1])[0])


def _turn(block: Float32Array, image: Float32Array, rank: int) -> tuple[Float32Array, float]:
    """What turns S Q into S U Lambda, and the sum of Lambda^4, by the Ritz values of Q."""
    values, vectors = np.linalg.eigh(_gram(block, image))
    largest = np.argsort(-np.abs(values))[:rank]
    turn = vectors[:, largest] * values[largest]
    return turn.astype(np.float32), float((values[largest] ** 4).sum())


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
    for start in range(0, len(left), _GRAM_ROWS):
        rows = slice(start, start + _GRAM_ROWS)
        total += left[rows].astype(np.float64).T @ right[rows].astype(np.float64)
    return np.asarray(total + total.T) / 2.0
