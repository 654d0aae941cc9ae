"""Ends of the spectrum of L_H^+ L_G: known, or found by the passes that solve anyway."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Cancelled
from peewit.solvers.laplacian.extreme_eigenvalues import (
    End,
    Krylov,
    advance_krylov,
    spectrum_ends,
    start_krylov,
)
from peewit.solvers.laplacian.iterative_refinement import RefinedSolver
from peewit.solvers.laplacian.unsparsified_system import Product

N_VECTORS: Final = 8
"""Of each pass that looks for ends: one or two lanes more (P1)."""

MOST_STEPS: Final = 10
"""Passes that look for ends: later ones bring them hardly closer."""

FAILURE: Final = 0.005
"""Chance that ends which passes find are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpectralEnds:
    """low L_H <= L_G <= high L_H, but for the chance ``failure``."""

    low: float  # >= 0; 0 where nothing is known
    high: float  # may be infinite
    failure: float

    def of_shifted(self) -> "SpectralEnds":
        """Of the matrices plus the same shift, which pulls all values towards 1."""
        return SpectralEnds(low=min(self.low, 1.0), high=max(self.high, 1.0), failure=self.failure)

    @property
    def step(self) -> float:
        """Multiple of the sparsifier's answer to a residual that misses the least (P2)."""
        return (1.0 / self.low + 1.0 / self.high) / 2.0 if self.low > 0 else 0.0

    @property
    def miss(self) -> float:
        """Part of the energy of that answer that may be missed (P2)."""
        return (1.0 / self.low - 1.0 / self.high) / 2.0 if self.low > 0 else np.inf


EXACT: Final = SpectralEnds(low=1.0, high=1.0, failure=0.0)
"""Where no edge was dropped."""


@dataclass(slots=True, kw_only=True, eq=False)
class EndsByPasses:
    """Products with the full graph that also take block Lanczos steps, unless ends are known."""

    product: Product
    known: SpectralEnds | None
    graph: Graph  # the sparsifier
    seed: int = 0
    cancelled: Cancelled | None = None
    _metric: RefinedSolver | None = field(default=None, init=False)
    _krylov: Krylov | None = field(default=None, init=False)
    _basis: list[FloatArray] = field(default_factory=list, init=False)

    def __call__(self, block: FloatArray) -> FloatArray:
        """The Laplacian of the full graph times ``block``: one pass."""
        if self.known is not None or self.graph.n_nodes == self.graph.n_components:
            return self.product(block)
        if self._metric is None or self._krylov is None:
            self._metric = RefinedSolver(self.graph, cancelled=self.cancelled)
            self._krylov, first = start_krylov(self._metric, n_vectors=N_VECTORS, seed=self.seed)
            self._basis.append(first)
        if self._krylov.is_exhausted or self._krylov.n_steps == MOST_STEPS:
            self._basis.clear()
            return self.product(block)
        n_columns = block.shape[1]
        products = self.product(np.concatenate([block, self._basis[-1]], axis=1))
        self._krylov, following = advance_krylov(
            self._krylov,
            self._metric,
            self._basis,
            np.ascontiguousarray(products[:, n_columns:]),
        )
        self._basis.append(following)
        return np.ascontiguousarray(products[:, :n_columns])

    @property
    def ends(self) -> SpectralEnds:
        """The ends as known now."""
        if self.known is not None:
            return self.known
        if self.graph.n_nodes == self.graph.n_components:
            return EXACT
        found = self.found
        if found is None:
            return SpectralEnds(low=0.0, high=np.inf, failure=FAILURE)
        return SpectralEnds(low=max(found[0].outer, 0.0), high=found[1].outer, failure=FAILURE)

    @property
    def found(self) -> tuple[End, End] | None:
        """Both ends with what is known of them; None if passes did not look for them."""
        if self._krylov is None or self._krylov.n_steps == 0:
            return None
        return spectrum_ends(self._krylov, probability=1.0 - FAILURE)
