"""Sweeps, the smoother of multigrid: a block moved along its residual, in compiled threads."""

from dataclasses import dataclass
from typing import Any

from peewit.solvers.arrays import IntArray, RealArray, frozen_all
from peewit.solvers.kernels.laplacian_products import multiply_rows
from peewit.solvers.kernels.multigrid import relax_rows, residual_rows
from peewit.solvers.row_ranges import RowRanges


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """block + factor (rhs - (L + diag(shift)) block), for one matrix and one factor per row.

    ``shift`` and ``factor`` are (n_nodes,); all arrays and blocks have the type of ``weight``.
    """

    indptr: IntArray
    indices: IntArray
    weight: RealArray
    shift: RealArray
    factor: RealArray
    ranges: RowRanges

    @property
    def n_nodes(self) -> int:
        """Rows of a block."""
        return self.shift.size

    def start(self, rhs: RealArray, out: RealArray) -> None:
        """Fill ``out`` with one sweep from zero."""
        self.ranges.run(lambda a, b: multiply_rows(rhs, self.factor, out, a, b), 2 * rhs.size)

    def residual(self, block: RealArray, rhs: RealArray, out: RealArray) -> None:
        """Fill ``out`` with the right-hand side minus the matrix times the block."""
        matrix: tuple[Any, Any, Any, Any] = frozen_all(
            self.indptr, self.indices, self.weight, self.shift
        )
        work = self.weight.size * block.shape[1]
        self.ranges.run(lambda a, b: residual_rows(*matrix, block, rhs, out, a, b), work)

    def relaxed(self, block: RealArray, rhs: RealArray, out: RealArray) -> None:
        """Fill ``out`` with the block after one more sweep."""
        matrix: tuple[Any, Any, Any, Any, Any] = frozen_all(
            self.indptr, self.indices, self.weight, self.shift, self.factor
        )
        work = self.weight.size * block.shape[1]
        self.ranges.run(lambda a, b: relax_rows(*matrix, block, rhs, out, a, b), work)
