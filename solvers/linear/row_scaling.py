"""Row scaling of features before they are multiplied: length, center and a constant."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, frozen
from peewit.solvers.features import Rows

_LARGEST: Final = 1e150
"""Entries of rows, whose squares must be floats."""

_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowScaling:
    """What becomes of a row x before it is multiplied: ((x - center) / |x - center|, constant).

    Attributes
    ----------
    is_unit : bool
        Whether rows are brought to unit length, and dense ones centred before.
    constant : float
        The feature that all rows have.
    center : (n_columns,) float64
        Mean of the rows; empty where nothing is subtracted, as by machines that read sparse rows,
        which it would fill.
    length : float
        Median length of the rows so made that are not zeros, the constant left out; 1 where all
        are zeros.
    zeros_stay : bool
        Whether rows of zeros are made no other ones by ``center``: they say nothing of a node, and
        neither do rows that differ from it by rounding.
    """

    is_unit: bool
    constant: float
    center: FloatArray = field(default_factory=lambda: np.zeros(0))
    length: float = 1.0
    zeros_stay: bool = False

    @classmethod
    def fitted(cls, rows: Rows, *, is_unit: bool, constant: float) -> "RowScaling":
        """For these rows; one pass over them unless they are sparse and brought to unit length."""
        if not is_unit:
            lengths = np.concatenate([_lengths(block) for _, block in rows.blocks()])
            lengths = lengths[lengths > 0]
            length = float(np.median(lengths)) if lengths.size else 1.0
            return cls(is_unit=False, constant=constant, length=length)
        if rows.is_sparse:
            return cls(is_unit=True, constant=constant)
        sums = np.zeros(rows.n_columns)
        for _, block in rows.blocks():
            sums += block.sum(axis=0, dtype=np.float64)
        return cls(is_unit=True, constant=constant, center=frozen(sums / rows.n_rows))

    def scale(self, block: Any) -> FloatArray:
        """(n_rows,) what each row is multiplied by."""
        if not self.is_unit:
            return np.ones(block.shape[0])
        if self.center.size and (sp.issparse(block) or self.zeros_stay):
            lengths = self._centred_lengths(block)
        else:
            lengths = _lengths(block - self.center if self.center.size else block)
        nothing = np.zeros_like(lengths) if self.zeros_stay else np.ones_like(lengths)
        return np.divide(1.0, lengths, out=nothing, where=lengths > 0)

    def _centred_lengths(self, block: Any) -> FloatArray:
        """(n_rows,) |x - center|; 0 where that is rounding beside |x|, or x has to stay 0."""
        own, center = np.square(_lengths(block)), float(self.center @ self.center)
        if sp.issparse(block):
            squares = own - 2.0 * (block @ self.center) + center
        else:
            squares = np.square(_lengths(block - self.center))
        is_nothing = squares < _ROUNDING * (own + center)
        squares[is_nothing | (self.zeros_stay & (own == 0))] = 0.0
        return np.asarray(np.sqrt(squares))


def _lengths(block: Any) -> FloatArray:
    """(n_rows,) lengths of rows.

    Raises
    ------
    ValueError
        An entry whose square is beyond the floats.
    """
    entries = block.data if sp.issparse(block) else block
    largest = float(np.abs(entries).max(initial=0.0))
    if largest > _LARGEST:
        raise ValueError(f"features must lie within -{_LARGEST:g} and {_LARGEST:g}, got {largest}")
    if not sp.issparse(block):
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", block, block, dtype=np.float64)))
    squares, filled = np.zeros(block.shape[0]), np.flatnonzero(np.diff(block.indptr))
    if filled.size:
        squared = np.square(block.data, dtype=np.float64)
        squares[filled] = np.add.reduceat(squared, block.indptr[filled])
    return np.asarray(np.sqrt(squares))
