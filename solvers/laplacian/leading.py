"""Leading directions: the few directions in which the residuals of many columns lie.

If a start solved the system before one more label, the residuals of all columns are nearly
multiples of one vector. A solve for one or two combinations of the columns then serves all of them,
and its vectors stay in the processor's cache.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import FloatArray, RealArray

LEAST_COLUMNS = 3
"""Blocks of fewer columns are not combined."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeadingDirections:
    """Combinations of residuals that stand for all of them.

    ``columns`` (n_nodes, r) are orthogonal; r is less than half the number of residuals, and 0 if
    these are small enough already.
    """

    columns: RealArray
    mix: FloatArray  # (r, k) ``columns @ mix`` are the residuals, up to the allowed error
    left: FloatArray  # (k,) relative norm of the error of each column

    @classmethod
    def of_residuals(
        cls, residual: RealArray, norms: FloatArray, allowed: float
    ) -> "LeadingDirections | None":
        """The fewest directions outside which no column keeps more than ``allowed``.

        None if that takes half as many directions as columns, or more. ``allowed`` is relative to
        ``norms``, (k,) and > 0, against which residuals are measured.
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
            columns=np.ascontiguousarray(combined), mix=chosen.T * norms, left=left[:, n_kept]
        )
