"""Columns of all edges and bounds on their errors, from a residual on all edges (P1, P2).

M_G f_G = b holds on all edges, M_H belongs to the sparsifier, and low L_H <= L_G <= high L_H. Any f
leaves the residual r = b - M_G f, and z = M_H^-1 r is one solve in memory. Then f + step z misses
f_G by at most miss |z| in the energy norm of M_H, and at a node by as much times the root of the
node's entry of M_H^-1.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import gammaincinv

from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Cancelled, RunStopped
from peewit.solvers.kernels.inner_products import cross_products
from peewit.solvers.kernels.laplacian_products import component_sums
from peewit.solvers.laplacian.iterative_refinement import RefinedSolver
from peewit.solvers.laplacian.unsparsified_system import FullDegrees, FullSystem
from peewit.solvers.proof.spectral_ends import EndsByPasses, SpectralEnds

VARIANCE_FAILURE: Final = 0.0025
"""Chance that the variance of any node is above its bound."""

N_PROBES: Final = 64
_PROBES_AT_ONCE: Final = 32
_EPS: Final = float(np.finfo(np.float64).eps)
_ROUNDINGS: Final = 64.0
"""Of an entry of a product, beside one for each edge of its node."""
_CANCELED: Final = 1e-10
"""Part of energies that may be lost to rounding where they are subtracted."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bounded:
    """Columns f + step z, and how far those of all edges may be from them (P2)."""

    columns: FloatArray  # (n_nodes, n_columns)
    gram: FloatArray  # (n_columns, n_columns) R^T Z
    error: FloatArray  # (n_columns,) of Z, in energy
    rounding: float  # of the residual of any column, in energy
    ends: SpectralEnds  # of the matrices of the system

    def radius(self, weights: FloatArray) -> FloatArray:
        """(n_some,) energies of the errors of combinations of columns, (n_columns, n_some)."""
        size = np.abs(weights)
        off, lost = size.T @ self.error, self.rounding * size.sum(axis=0)
        energy = np.einsum("gk,gh,hk->k", weights, self.gram, weights)
        alone = np.sqrt(np.maximum(np.diagonal(self.gram), 0.0))
        return self._of(energy + _CANCELED * (size.T @ alone) ** 2, off, lost)

    def pairs(self, slope: FloatArray) -> FloatArray:
        """The same of differences of columns times ``slope``, (n_some, n_columns).

        As (n_some, n_columns, n_columns).
        """
        scaled = slope[:, :, None] * self.gram * slope[:, None, :]
        own = np.einsum("ckk->ck", scaled)

        def both(columns: FloatArray) -> FloatArray:
            return columns[:, :, None] + columns[:, None, :]

        energy = both(own) * (1.0 + 2.0 * _CANCELED) - 2.0 * scaled
        return self._of(energy, both(slope * self.error), both(slope * self.rounding))

    def _of(self, energy: FloatArray, off: FloatArray, lost: FloatArray) -> FloatArray:
        """That is, miss (|z| + rounding) + step (rounding + error)."""
        if not np.isfinite(self.ends.miss):
            return np.full_like(energy, np.inf)
        size = (off + np.sqrt(off**2 + 4.0 * np.maximum(energy, 0.0))) / 2.0
        return self.ends.miss * (size + lost) + self.ends.step * (lost + off)


@dataclass(slots=True, kw_only=True, eq=False)
class BoundedSystem:
    """A system of all edges with what its matrix on the sparsifier says of errors.

    ``weights`` (n_nodes,), of sum 1 on every component, are those of means that are taken off
    before columns are read; None where none is.
    """

    system: FullSystem
    passes: EndsByPasses
    degrees: FullDegrees  # of all edges
    weights: FloatArray | None = None
    failure: float = VARIANCE_FAILURE  # chance that the variance of any node is above its bound
    seed: int = 0
    cancelled: Cancelled | None = None
    _metric: RefinedSolver = field(init=False)
    _deviation: FloatArray | None = field(default=None, init=False)
    _rounding: tuple[float, float, float] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        graph, shift = self.system.on_sparsifier()
        self._metric = RefinedSolver(
            graph,
            scale=self.system.scale,
            shift=shift,
            zero_mean=self.system.zero_mean,
            parallel=self.system.parallel,
            cancelled=self.cancelled,
        )

    @property
    def ends(self) -> SpectralEnds:
        """Of the matrices of the system; a shift that both have pulls them towards 1."""
        ends = self.passes.ends
        return ends.of_shifted() if self.system.shift.any() else ends

    def solved(self, block: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The sparsifier's answer to ``block`` and its error in energy; raises `RunStopped`."""
        free = self.system.free
        solved = self._metric.solve(np.ascontiguousarray(block if free is None else block[free]))
        if self.cancelled is not None and self.cancelled():
            raise RunStopped
        return self.system.spread(solved.x), solved.error

    def roughly(self, x: FloatArray, residual: FloatArray, answer: FloatArray) -> Bounded:
        """From an ``answer`` to a few digits, and a residual that may be that of a recurrence."""
        return self._bounded(x, residual, answer, np.zeros(x.shape[1]), 0.0)

    def exactly(self, x: FloatArray, residual: FloatArray) -> Bounded:
        """From the true residual, with all errors counted; raises `RunStopped`."""
        answer, error = self.solved(residual)
        least = min(self.ends.low, 1.0) or 1.0  # where nothing is known all is infinite anyway
        error = error + self._rounding_of(answer) / least
        return self._bounded(x, residual, answer, error, self._rounding_of(x))

    def _bounded(
        self,
        x: FloatArray,
        residual: FloatArray,
        answer: FloatArray,
        error: FloatArray,
        rounding: float,
    ) -> Bounded:
        gram = cross_products(residual, answer)
        return Bounded(
            columns=x + self.ends.step * answer,
            gram=(gram + gram.T) / 2.0,
            error=error,
            rounding=rounding,
            ends=self.ends,
        )

    def deviations(self) -> FloatArray:
        """(n_nodes,) upper bounds on the roots of the entries of M_H^-1, or of its differences.

        By vectors of N(0, M_H^-1): the sum of their squares at a node is chi-squared, and lies
        below a low quantile at one of all nodes with the chance ``failure``.
        """
        if self._deviation is not None:
            return self._deviation
        squares, missed = np.zeros(self.system.sparsifier.n_nodes), 0.0
        for first in range(0, N_PROBES, _PROBES_AT_ONCE):
            n_probes = min(_PROBES_AT_ONCE, N_PROBES - first)
            drawn = self._metric.sample(n_probes, seed=self.seed + first)
            if self.cancelled is not None and self.cancelled():
                raise RunStopped
            vectors = self.system.spread(drawn.x)
            if self.weights is not None:
                component = self.system.sparsifier.component
                means = np.zeros((self.system.sparsifier.n_components, vectors.shape[1]))
                component_sums(self.weights[:, None] * vectors, component, means)
                vectors = vectors - means[component]
            squares += np.square(vectors).sum(axis=1)
            missed += float(drawn.error @ drawn.error)
        quantile = 2.0 * gammaincinv(N_PROBES / 2.0, self.failure / len(squares))
        least = np.sqrt(quantile) - np.sqrt(missed)
        self._deviation = np.sqrt(squares) / least if least > 0 else np.full_like(squares, np.inf)
        return self._deviation

    def _rounding_of(self, x: FloatArray) -> float:
        """Energy of what rounding may have done to the true residual of any column.

        Entries of the residual are off by at most the entries of t >= 0. The inverse of M_H, held
        at one node of each component where it is singular, has no negative entries, so the energy
        is at most t^T M_H^-1 t.
        """
        system = self.system
        if self._rounding is None:
            graph, shift = system.on_sparsifier()
            free = slice(None) if system.free is None else system.free
            degree = system.scale * self.degrees.weight[free]
            hold = np.array(shift)
            is_loose = np.ones(graph.n_components, bool)
            is_loose[graph.component[shift > 0]] = False
            _, first = np.unique(graph.component, return_index=True)
            firsts = first[is_loose]
            hold[firsts] = np.maximum(system.scale * graph.degree[firsts], np.finfo(float).tiny)
            off = np.column_stack(
                [
                    2.0 * (self.degrees.n_edges[free] + _ROUNDINGS) * degree,
                    8.0 * system.shift[free],
                    8.0 * np.abs(system.rhs[free]).max(axis=1),
                ]
            )
            # of singular components the mean is taken off, which spreads it
            means = np.zeros((graph.n_components, off.shape[1]))
            component_sums(off, graph.component, means)
            means /= graph.component_sizes()[:, None]
            means[~(is_loose | system.zero_mean)] = 0.0
            off += means[graph.component]
            held = RefinedSolver(graph, scale=system.scale, shift=hold, cancelled=self.cancelled)
            solved = held.solve(off)
            if self.cancelled is not None and self.cancelled():
                raise RunStopped
            energy = np.maximum((off * solved.x).sum(axis=0), 0.0)
            of_range, of_size, of_rhs = (
                _EPS * (solved.error + np.sqrt(solved.error**2 + 4.0 * energy)) / 2.0
            )
            self._rounding = float(of_range), float(of_size), float(of_rhs)
        of_range, of_size, of_rhs = self._rounding
        spread = float((x.max(axis=0) - x.min(axis=0)).max(initial=0.0))
        size = float(np.abs(x).max(initial=0.0))
        return of_range * spread + of_size * size + of_rhs
