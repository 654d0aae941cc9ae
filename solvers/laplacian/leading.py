"""The few directions in which the residuals of many columns lie.

A start that solved the system before one more label leaves a residual of that label and of little
else, the same in every column up to a factor. So a solve for one or two combinations of the columns
does for all of them: its vectors stay in the processor's cache, where those of a block do not.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray

LEAST_COLUMNS = 3
"""Fewer columns are not worth combining."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeadingDirections:
    """Combinations of residuals that stand for all of them.

    Attributes
    ----------
    columns : (n_nodes, r)
        The combinations, orthogonal; r is less than half the number of residuals, and 0 where
        these are small enough as they are.
    mix : (r, k) float64
        ``columns @ mix`` are the residuals, up to what was allowed.
    left : (k,) float64
        Relative norm of what is left of each column.
    """

    columns: RealArray
    mix: FloatArray
    left: FloatArray

    @classmethod
    def of_residuals(
        cls, residual: RealArray, norms: FloatArray, allowed: float
    ) -> "LeadingDirections | None":
        """The fewest directions beside which no column keeps more than ``allowed``.

        None where half as many directions as columns are left, or more.

        Parameters
        ----------
        residual : (n_nodes, k)
            Of the start.
        norms : (k,) float64, > 0
            What residuals are measured against.
        allowed : float
            Relative norm of what may be left of each column.
        """
        n_columns = residual.shape[1]
        scaled = residual.T @ residual / np.outer(norms, norms)
        values, vectors = np.linalg.eigh(scaled.astype(np.float64))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        energy = np.cumsum((values * np.square(vectors))[:, ::-1], axis=1)[:, ::-1]
        left = np.sqrt(np.hstack([energy, np.zeros((n_columns, 1))]))  # without the first r
        n_kept = int(np.argmax(left.max(axis=0) <= allowed))
        if 2 * n_kept >= n_columns:
            return None
        chosen = vectors[:, :n_kept]
        combined = residual @ (chosen / norms[:, None]).astype(residual.dtype)
        return cls(
            columns=np.ascontiguousarray(combined),
            mix=chosen.T * norms,
            left=left[:, n_kept],
        )
