"""Personalized PageRank on a graph: P = a (1 - (1 - a) S)^-1, many columns at once, in float32.

S = D^-1/2 (A + I) D^-1/2 is the adjacency matrix with self-loops (K1), so the spectrum of 1 - (1 -
a) S lies in [a, 2 - a] whatever the graph. Conjugate gradients then need no preconditioner, take at
most as many steps as Chebyshev iteration, and fewer where the graph mixes well. Columns depend on
each other only in when all of them end.

The iterates are kept as D^-1/2 times themselves: the steps then use the weights of the graph as
they are, which others share, and are conjugate gradients preconditioned by D.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from peewit.solvers.arrays import (
    AnyArray,
    Float32Array,
    FloatArray,
    Int64Array,
    IntArray,
    RealArray,
    frozen,
)
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.kernels.laplacian_products import (
    advance_by_rows,
    column_dots,
    diagonal_rows,
    redirect_by_rows,
)
from peewit.solvers.kernels.random_walk import normalize_rows
from peewit.solvers.laplacian.walks.local_start import MOST_NODES, correct_near
from peewit.solvers.row_ranges import Parallel, RowRanges

RTOL: Final = 1e-6
"""Error of a column of length 1: the accuracy of float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PersonalizedPageRank:
    """The filter P of a graph for any teleport probability a; build it with `of_graph`.

    Attributes
    ----------
    indptr, indices, weight : CSR arrays
        The adjacency matrix without loops, in float32, its nodes in ``order``. If its weights are
        out of the range of float32, S instead, and D is 1.
    degree, loop : (n_nodes,) float32
        Diagonals of D and of the self-loops' weights, in ``order``.
    inverse_root : (n_nodes,) float64
        D^-1/2 of (K1), self-loops counted.
    order : (n_nodes,) int64 or None
        Row i of ``weight`` belongs to node ``order[i]``; None: to node i.
    is_normalized : bool
        Whether ``weight`` has the entries of S.
    """

    indptr: AnyArray
    indices: AnyArray
    weight: Float32Array
    degree: Float32Array
    loop: Float32Array
    inverse_root: FloatArray
    order: Int64Array | None
    is_normalized: bool
    rows: RowRanges

    @classmethod
    def of_graph(cls, graph: Graph, parallel: Parallel = map) -> "PersonalizedPageRank":
        """The filter of ``graph``, in which every node gets a self-loop of its edges' mean weight.

        The row of an isolated node is that of the identity.
        """
        near = graph.near_in_memory
        order = None if near is None else near.order
        single = (graph if near is None else near).in_single
        inner = single or (graph if near is None else near.graph)
        adjacency = inner.adjacency
        loop = 1.0 / (np.diff(adjacency.indptr) + 1.0)
        whole = inner.degree / (1.0 - np.where(loop < 1.0, loop, 0.0))  # d + its mean weight
        degree = np.where(whole > 0, whole, 1.0)
        inverse_root = 1.0 / np.sqrt(degree)
        rows = RowRanges.of(adjacency.indptr, parallel)
        weight = adjacency.data
        if single is None:
            matrix = adjacency.indptr, adjacency.indices, adjacency.data
            weight = np.empty(adjacency.nnz, np.float32)
            rows.run(lambda a, b: normalize_rows(*matrix, inverse_root, weight, a, b))
            degree = np.ones_like(degree)
        if order is not None:
            inverse_root[order] = inverse_root.copy()
        return cls(
            indptr=adjacency.indptr,
            indices=adjacency.indices,
            weight=frozen(weight),
            degree=frozen(degree.astype(np.float32)),
            loop=frozen((loop * degree).astype(np.float32)),
            inverse_root=frozen(inverse_root),
            order=order,
            is_normalized=single is None,
            rows=rows,
        )

    @property
    def n_nodes(self) -> int:
        """Number of rows."""
        return self.loop.size

    def filtered(
        self,
        block: RealArray,
        teleport: float,
        *,
        rtol: float = RTOL,
        start: RealArray | None = None,
        changed: Sequence[Int64Array] | None = None,
        watch: Watch = UNWATCHED,
    ) -> Float32Array:
        """P @ ``block`` as a new (n_nodes, k) block.

        Asks ``watch`` before every step; raises `RunStopped` when it is cancelled.

        Parameters
        ----------
        block : (n_nodes, k)
            Read only.
        teleport : float
            a, in (0, 1]; P is the identity at 1.
        rtol : float
            Largest error of each column, relative to the column's own norm in ``block``.
        start : (n_nodes, k) or None
            Approximation of P @ ``block``; read only.
        changed : sequence of (n_changed,) int64, or None
            Nodes of each column at which the block of ``start`` differs; few nodes get steps of
            their own.
        """
        if teleport >= 1.0:
            return np.array(block, np.float32, order="C")
        left = self._in_order(block)
        root = np.sqrt(self.degree)[:, None]
        left *= root
        # divided by 1 - a, so that all a share the matrix: spectrum 1 / (1 - a) -+ 1
        center = 1.0 / (1.0 - teleport)
        diagonal = frozen(np.float32(center) * self.degree - self.loop)
        matrix = self.indptr, self.indices, self.weight, diagonal
        inverse = frozen(1.0 / self.degree)
        product = np.empty_like(left)
        direction = left * inverse[:, None]
        squares = self._dots(left, direction)
        enough = np.square(rtol) * squares
        if start is None:
            filtered = np.zeros_like(left)
        else:
            filtered = self._in_order(start)
            filtered /= np.float32(teleport * center) * root
            self._correct(diagonal, left, filtered, changed, np.sqrt(enough))
            self.rows.run(partial(diagonal_rows, *matrix, filtered, product))
            left -= product
            np.multiply(left, inverse[:, None], out=direction)
            squares = self._dots(left, direction)
        for _ in range(n_steps(teleport, rtol)):
            watch.check()
            if (squares <= enough).all():
                break
            self.rows.run(partial(diagonal_rows, *matrix, direction, product))
            length = _quotient(squares, self._dots(direction, product))  # Saad, Algorithm 9.1
            parts = self.rows.run(
                partial(_advance_rows, filtered, left, direction, product, length, inverse)
            )
            before, squares = squares, np.add.reduce(parts)
            factor = _quotient(squares, before)
            self.rows.run(partial(_turn_rows, direction, left, inverse, factor))
        filtered *= np.float32(teleport * center)
        filtered *= root
        if self.order is not None:
            product[self.order] = filtered
            return product
        return filtered

    def _correct(
        self,
        diagonal: Float32Array,
        left: Float32Array,
        filtered: Float32Array,
        changed: Sequence[Int64Array] | None,
        enough: FloatArray,
    ) -> None:
        """Correct columns of ``filtered`` near their changed nodes, in place."""
        if changed is None or all(nodes.size > MOST_NODES for nodes in changed):
            return
        rank = np.arange(self.n_nodes)
        if self.order is not None:
            rank[self.order] = np.arange(self.n_nodes)
        matrix = self.indptr, self.indices, self.weight, diagonal
        for place, nodes in enumerate(changed):
            if 0 < nodes.size <= MOST_NODES:
                column, rhs = filtered[:, place].copy(), left[:, place].copy()
                correct_near(matrix, rhs, column, rank[nodes], float(enough[place]))
                filtered[:, place] = column

    def _in_order(self, block: RealArray) -> Float32Array:
        """A copy of a block of nodes in the order of the rows."""
        if self.order is None:
            return np.array(block, np.float32, order="C")
        return np.take(block, self.order, axis=0).astype(np.float32, order="C", copy=False)

    def _dots(self, left: Float32Array, right: Float32Array) -> FloatArray:
        """(k,) dot products of columns."""
        parts = self.rows.run(lambda a, b: column_dots(left[a:b], right[a:b]))
        total: FloatArray = np.add.reduce(parts)
        return total

    def unit_columns(
        self, nodes: IntArray, teleport: float, *, watch: Watch = UNWATCHED
    ) -> Float32Array:
        """(n_nodes, k) the columns of P at ``nodes``; `filtered` of unit vectors."""
        block = np.zeros((self.n_nodes, len(nodes)), np.float32)
        block[nodes, np.arange(len(nodes))] = 1.0
        return self.filtered(block, teleport, watch=watch)


def _quotient(above: FloatArray, below: FloatArray) -> Float32Array:
    """(k,) quotients; 0 for a zero divisor, whose column has ended."""
    quotient = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return quotient.astype(np.float32)


def _advance_rows(
    filtered: Float32Array,
    left: Float32Array,
    direction: Float32Array,
    product: Float32Array,
    length: Float32Array,
    inverse: Float32Array,
    start: int,
    stop: int,
) -> FloatArray:
    """(k,) squares of the residuals of some rows after a step."""
    rows = slice(start, stop)
    squares: FloatArray = advance_by_rows(
        filtered[rows], left[rows], direction[rows], product[rows], length, inverse[rows]
    )
    return squares


def _turn_rows(
    direction: Float32Array,
    left: Float32Array,
    inverse: Float32Array,
    factor: Float32Array,
    start: int,
    stop: int,
) -> None:
    """The next direction of some rows."""
    redirect_by_rows(direction[start:stop], left[start:stop], inverse[start:stop], factor)


def n_steps(teleport: float, rtol: float) -> int:
    """Steps after which 1 / T_m(1 / (1 - a)) is below ``rtol`` (Chebyshev); none for a = 1."""
    if teleport >= 1.0:
        return 0
    return int(np.ceil(np.arccosh(1.0 / rtol) / np.arccosh(1.0 / (1.0 - teleport))))
