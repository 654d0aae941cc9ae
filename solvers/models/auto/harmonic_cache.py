"""Harmonic functions of earlier labels, amended while few labels have changed (K15)."""

from dataclasses import dataclass

from peewit.solvers.arrays import Float32Array
from peewit.solvers.labels import Labels
from peewit.solvers.models.left_out.left_out_cache import LeftOutCache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HarmonicCache(LeftOutCache):
    """Harmonic functions with the labels that they were made for, and with the last ones."""

    last: Labels
    last_shares: Float32Array  # (n_nodes, n_classes), with ``last``
    screening: float  # with ``labels``

    @property
    def nbytes(self) -> int:
        """Memory of both."""
        return self.shares.nbytes + self.last_shares.nbytes
