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
"""Passes that look for ends, if these are known by then: later ones bring them hardly closer."""

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
    """Products with the full graph that also take block Lanczos steps, unless ends are known.

    With ``looks_on`` known ends may be far out, and passes look for closer ones.
    """

    product: Product
    known: SpectralEnds | None
    graph: Graph  # the sparsifier
    looks_on: bool = False
    seed: int = 0
    cancelled: Cancelled | None = None
    _metric: RefinedSolver | None = field(default=None, init=False)
    _krylov: Krylov | None = field(default=None, init=False)
    _basis: list[FloatArray] = field(default_factory=list, init=False)

    def __call__(self, block: FloatArray) -> FloatArray:
        """The Laplacian of the full graph times ``block``: one pass."""
        if not self._looks:
            self._basis.clear()
            return self.product(block)
        if self._metric is None or self._krylov is None:
            self._metric = RefinedSolver(self.graph, cancelled=self.cancelled)
            self._krylov, first = start_krylov(self._metric, n_vectors=N_VECTORS, seed=self.seed)
            self._basis.append(first)
        n_columns = block.shape[1]
        products = self.product(np.concatenate([block, self._basis[-1]], axis=1))
        self._krylov, following = advance_krylov(
            self._krylov, self._metric, self._basis, np.ascontiguousarray(products[:, n_columns:])
        )
        self._basis.append(following)
        return np.ascontiguousarray(products[:, :n_columns])

    @property
    def _looks(self) -> bool:
        """Whether the next pass takes a step."""
        if self.known is not None and not self.looks_on:
            return False
        if self.graph.n_nodes == self.graph.n_components:
            return False
        if self._krylov is None:
            return True
        is_enough = self._krylov.n_steps >= MOST_STEPS and self.ends.low > 0
        return not (self._krylov.is_exhausted or is_enough)

    @property
    def ends(self) -> SpectralEnds:
        """The closest ends that are known now."""
        if self.graph.n_nodes == self.graph.n_components:
            return EXACT
        found, known = self.found, self.known
        if found is None:
            return known or SpectralEnds(low=0.0, high=np.inf, failure=FAILURE)
        low, high = max(found[0].outer, 0.0), found[1].outer
        if known is None:
            return SpectralEnds(low=low, high=high, failure=FAILURE)
        return SpectralEnds(
            low=max(low, known.low), high=min(high, known.high), failure=FAILURE + known.failure
        )

    @property
    def found(self) -> tuple[End, End] | None:
        """Both ends with what is known of them; None if passes did not look for them."""
        if self._krylov is None or self._krylov.n_steps == 0:
            return None
        return spectrum_ends(self._krylov, probability=1.0 - FAILURE)
