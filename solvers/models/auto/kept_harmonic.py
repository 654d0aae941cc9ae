"""Harmonic functions of the labels before, amended where few labels have changed."""

from dataclasses import dataclass

from peewit.solvers.arrays import Float32Array
from peewit.solvers.labels import Labels
from peewit.solvers.models.left_out.kept_left_out import KeptLeftOut


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptHarmonic(KeptLeftOut):
    """Harmonic functions as they were with some labels, and as they are with the last ones.

    Attributes
    ----------
    last : Labels
    last_shares : (n_nodes, n_classes) float32
        Those of ``last``.
    screening : float
        Of ``labels``.
    """

    last: Labels
    last_shares: Float32Array
    screening: float

    @property
    def nbytes(self) -> int:
        """What they take."""
        return self.shares.nbytes + self.last_shares.nbytes
