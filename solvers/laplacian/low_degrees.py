"""A Laplacian without the nodes that have at most two neighbors, and the way back to these.

They are eliminated exactly, so an approximate solution of what is left, in its energy norm, is one
of the whole as good in that norm: eliminated nodes add nothing to its error. Of a forest nothing is
left, of a graph that nearly is one a small part.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    FloatArray,
    Int32Array,
    IntArray,
    RealArray,
    frozen,
    index_dtype,
)
from peewit.solvers.kernels.adjacency import row_sums
from peewit.solvers.kernels.low_degrees import eliminate_low_degrees, find_twins, pass_on, take_back
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.late_modules import LateModule
from peewit.solvers.row_ranges import RowRanges

sp = LateModule("scipy.sparse")

LEAST_SHARE = 0.5
"""Share of the nodes of low degree from which their elimination is worth its passes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LowDegrees:
    """Eliminated nodes in their order, and the operator of those that are left.

    Attributes
    ----------
    operator : ShiftedLaplacian
        The Schur complement, in float64: of a graph again, where two edges may join the same nodes.
    left : (n_left,) int64
        Nodes of the whole, in the operator's order.
    order : (n_eliminated,) int32
    neighbor, share, inverse
        As `kernels.low_degrees.eliminate_low_degrees` fills them, one row a node of ``order``.
    """

    operator: ShiftedLaplacian
    left: IntArray
    order: Int32Array
    neighbor: Int32Array
    share: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, whole: ShiftedLaplacian) -> Self | None:
        """Those of an operator; None where fewer than `LEAST_SHARE` of the nodes have two edges."""
        n_nodes = whole.n_nodes
        if np.count_nonzero(np.diff(whole.indptr) <= 2) < LEAST_SHARE * n_nodes:
            return None
        entries = whole.weight.astype(np.float64), whole.indices.copy(), whole.indptr.copy()
        matrix = sp.csr_array(entries, shape=(n_nodes, n_nodes))
        matrix.sum_duplicates()
        indptr, indices, weight = matrix.indptr, matrix.indices, matrix.data
        twin = np.empty(indices.size, index_dtype(indices.size, n_nodes))
        find_twins(indptr, indices, twin)
        shift = whole.shift.astype(np.float64)
        order, neighbor = np.empty(n_nodes, np.int32), np.empty((n_nodes, 2), np.int32)
        share, inverse = np.empty((n_nodes, 2)), np.empty(n_nodes)
        filled = order, neighbor, share, inverse
        done = slice(eliminate_low_degrees(indptr, indices, weight, twin, shift, *filled))
        is_left = np.ones(n_nodes, bool)
        is_left[order[done]] = False
        return cls(
            operator=_part(whole, is_left, indptr, indices, weight, shift),
            left=np.flatnonzero(is_left),
            order=order[done].copy(),
            neighbor=neighbor[done].copy(),
            share=share[done].copy(),
            inverse=inverse[done].copy(),
        )

    def reduced(self, block: FloatArray) -> FloatArray:
        """Right-hand sides of the nodes that are left; ``block`` (n_nodes, k) becomes all sides."""
        pass_on(self.order, self.neighbor, self.share, block)
        return block[self.left]

    def extend(self, solved: RealArray, block: FloatArray) -> None:
        """Turn what `reduced` made of ``block`` into solutions, those that are left ``solved``."""
        block[self.left] = solved
        take_back(self.order, self.neighbor, self.share, self.inverse, block)


def _part(
    whole: ShiftedLaplacian,
    is_left: BoolArray,
    indptr: IntArray,
    indices: IntArray,
    weight: FloatArray,
    shift: FloatArray,
) -> ShiftedLaplacian:
    """Operator of some rows and of their entries with an index >= 0."""
    stays = indices >= 0
    stays &= np.repeat(is_left, np.diff(indptr))
    before = np.concatenate([[0], np.cumsum(stays)])
    rows = np.append(before[indptr[:-1]][is_left], before[-1])
    ids = index_dtype(int(rows[-1]), is_left.size)
    number = (np.cumsum(is_left) - 1).astype(ids)
    data, own_shift = weight[stays], shift[is_left]
    degree = np.empty(own_shift.size)
    row_sums(rows, data, degree)
    components, component = np.unique(whole.component[is_left], return_inverse=True)
    return replace(
        whole,
        indptr=rows.astype(ids),
        indices=number[indices[stays]],
        weight=frozen(data),
        diagonal=frozen(degree + own_shift),
        shift=frozen(own_shift),
        component=frozen(component.astype(np.int32)),
        component_size=np.bincount(component, minlength=components.size).astype(np.float64),
        ranges=RowRanges.of(rows, whole.ranges.parallel),
        projected=whole.projected[components],
    )
