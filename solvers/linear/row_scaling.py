"""Row scaling of features before they are multiplied: length, center and a constant."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, frozen
from peewit.solvers.features import Rows

_LARGEST: Final = 1e150
"""Largest entry of a row, so that its square is a finite float."""

_SMALLEST: Final = 1e-150
"""Least of the largest entries of all rows, so that squares are not 0 to a float."""

_ROUNDING: Final = 1e-26
"""Square of what the subtraction of a center leaves of a row at it, against the row's."""

_ROUNDING_OF_SPARSE: Final = 1e-12
"""The same where squares are subtracted, as of sparse rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowScaling:
    """Scaling of a row x before products: ((x - center) / |x - center|, constant).

    With ``zeros_stay`` rows of zeros stay zero despite ``center``, since they say nothing of a
    node; rows that differ from the center by rounding become zero.
    """

    is_unit: bool  # rows get unit length, and dense ones are centered before
    constant: float  # the feature that all rows have
    center: FloatArray = field(default_factory=lambda: np.zeros(0))  # mean; empty: none
    length: float = 1.0  # median of scaled rows not zero, without the constant; or 1
    zeros_stay: bool = False

    @classmethod
    def fitted(cls, rows: Rows, *, is_unit: bool, constant: float) -> "RowScaling":
        """The scaling for these rows; one pass, or none for sparse rows of unit length."""
        if not is_unit:
            lengths = np.concatenate([_lengths(block) for _, block in rows.blocks()])
            lengths = lengths[lengths > 0]
            length = float(np.median(lengths)) if lengths.size else 1.0
            return cls(is_unit=False, constant=constant, length=length)
        if rows.is_sparse:
            return cls(is_unit=True, constant=constant)
        return cls(is_unit=True, constant=constant, center=mean_of_rows(rows))

    def scale(self, block: Any) -> FloatArray:
        """(n_rows,) factor of each row."""
        if not self.is_unit:
            return np.ones(block.shape[0])
        if self.center.size and (sp.issparse(block) or self.zeros_stay):
            lengths = self._centered_lengths(block)
        else:
            lengths = _lengths(block - self.center if self.center.size else block)
        nothing = np.zeros_like(lengths) if self.zeros_stay else np.ones_like(lengths)
        return np.divide(1.0, lengths, out=nothing, where=lengths > 0)

    def _centered_lengths(self, block: Any) -> FloatArray:
        """(n_rows,) |x - center|; 0 if that is rounding beside |x|, or if x has to stay 0."""
        own, center = np.square(_lengths(block)), float(self.center @ self.center)
        if sp.issparse(block):
            squares, rounding = own - 2.0 * (block @ self.center) + center, _ROUNDING_OF_SPARSE
        else:
            squares, rounding = np.square(_lengths(block - self.center)), _ROUNDING
        is_nothing = squares < rounding * (own + center)
        squares[is_nothing | (self.zeros_stay & (own == 0))] = 0.0
        return np.asarray(np.sqrt(squares))


def mean_of_rows(rows: Rows) -> FloatArray:
    """(n_columns,) mean of the rows; raises ValueError where all of their squares underflow.

    Dense rows are summed as they differ from the first, so that those all alike have it exactly.
    """
    sums, largest = np.zeros(rows.n_columns), 0.0
    first: FloatArray | None = None
    for _, block in rows.blocks():
        if not block.shape[0]:
            continue
        if first is None:
            first = np.zeros(rows.n_columns) if rows.is_sparse else block[0].astype(np.float64)
        away = block if rows.is_sparse else block - first
        sums += away.sum(axis=0, dtype=np.float64)
        largest = max(largest, _largest(block))
    if 0.0 < largest < _SMALLEST:
        raise ValueError(f"features must reach {_SMALLEST:g}, got at most {largest}; scale them up")
    return frozen(sums / rows.n_rows if first is None else first + sums / rows.n_rows)


def _largest(block: Any) -> float:
    return float(np.abs(block.data if sp.issparse(block) else block).max(initial=0.0))


def _lengths(block: Any) -> FloatArray:
    """(n_rows,) lengths of rows; raises ValueError if a square overflows."""
    largest = _largest(block)
    if largest > _LARGEST:
        rule = f"features must lie within -{_LARGEST:g} and {_LARGEST:g}, got {largest}"
        raise ValueError(f"{rule}; scale them down")
    if not sp.issparse(block):
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64)))
    squares, filled = np.zeros(block.shape[0]), np.flatnonzero(np.diff(block.indptr))
    if filled.size:
        squared = np.square(block.data, dtype=np.float64)
        squares[filled] = np.add.reduceat(squared, block.indptr[filled])
    return np.asarray(np.sqrt(squares))
