"""Labels proven to be those of all edges (P1 to P4).

M_G f_G = b holds on all edges, M_H belongs to the sparsifier, and low L_H <= L_G <= high L_H. Any f
leaves the residual r = b - M_G f, and z = M_H^-1 r is one solve in memory. Then f + step z misses
f_G by at most miss |z| in the energy norm of M_H, and the difference of two classes at a node by as
much times the root of the node's entry of M_H^-1. A label whose lead is larger is proven.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import gammaincinv

from peewit.solvers.arrays import BoolArray, FloatArray, IntArray
from peewit.solvers.iteration_loop import Cancelled, RunStopped
from peewit.solvers.kernels.inner_products import cross_products
from peewit.solvers.kernels.laplacian_products import component_sums
from peewit.solvers.laplacian.iterative_refinement import RefinedSolver
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.laplacian.unsparsified_system import FullDegrees, FullSystem
from peewit.solvers.proof.readings import Misses, Reader, Reading
from peewit.solvers.proof.spectral_ends import EndsByPasses, SpectralEnds
from peewit.solvers.row_ranges import row_blocks

VARIANCE_FAILURE: Final = 0.0025
"""Chance that the variance of any node is above its bound."""

N_PROBES: Final = 64
_PROBES_AT_ONCE: Final = 8
_EPS: Final = float(np.finfo(np.float64).eps)
_ROUNDINGS: Final = 64.0
"""Of an entry of a product, beside one for each edge of its node."""
_ROUGH_RTOL: Final = 1e-2
_ROUGH: Final = 2.0
"""Factor on the energy that a solve to `_ROUGH_RTOL` tells."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """Columns of all edges as far as they are known, and which labels they prove."""

    columns: FloatArray  # (n_nodes, n_classes) f + step z
    winner: IntArray  # (n_nodes,) class read from them
    is_proven: BoolArray  # (n_nodes,)
    ends: SpectralEnds


@dataclass(slots=True, kw_only=True, eq=False)
class LabelJudge:
    """Judges answers on the way to that of all edges."""

    system: FullSystem
    reader: Reader
    passes: EndsByPasses
    degrees: FullDegrees  # of all edges
    reachable: BoolArray  # (n_nodes,) nodes whose labels are to be proven
    most_unproven: float  # share of them at which the passes end
    seed: int = 0
    cancelled: Cancelled | None = None
    judged: Judged | None = field(default=None, init=False)  # of the last true residual
    _metric: RefinedSolver = field(init=False)
    _deviation: FloatArray | None = field(default=None, init=False)
    _of_sums: FloatArray | None = field(default=None, init=False)
    _rounding: tuple[float, float, float] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        graph, shift = self.system.on_sparsifier()
        self._metric = RefinedSolver(
            graph,
            scale=self.system.scale,
            shift=shift,
            zero_mean=self.system.zero_mean,
            cancelled=self.cancelled,
        )

    @property
    def ends(self) -> SpectralEnds:
        """Of the matrices of the system; a shift that both have pulls them towards 1."""
        ends = self.passes.ends
        return ends.of_shifted() if self.system.shift.any() else ends

    def is_settled(self, x: FloatArray, residual: FloatArray, answer: FloatArray | None) -> bool:
        """Whether few enough labels stay unproven; see `peewit...unsparsified_system.Settled`."""
        if self.ends.low <= 0:
            if answer is not None:
                return False
            proven = np.zeros(len(x), bool)
            reading = self.reader.terms(x, self._misses(np.full(x.shape[1], np.inf)))
            winner = _scores(x, slice(None), reading, self._component).argmax(axis=1)
            self.judged = Judged(columns=x, winner=winner, is_proven=proven, ends=self.ends)
            return self._is_enough(proven)
        if answer is not None:
            judged = self._judge(x, residual, answer, np.zeros(x.shape[1]), 0.0)
            return self._is_enough(judged.is_proven)
        free = self.system.free
        solved = self._metric.solve(residual if free is None else residual[free])
        self._stop_if_cancelled()
        answer = self.system.spread(solved.x)
        error = solved.error + self._rounding_of(answer) / min(self.ends.low, 1.0)
        self.judged = self._judge(x, residual, answer, error, self._rounding_of(x))
        return self._is_enough(self.judged.is_proven)

    def _is_enough(self, is_proven: BoolArray) -> bool:
        n_reached = int(np.count_nonzero(self.reachable))
        n_proven = int(np.count_nonzero(is_proven & self.reachable))
        return n_reached - n_proven <= self.most_unproven * n_reached

    @property
    def _component(self) -> IntArray:
        return self.system.sparsifier.component

    def _judge(
        self,
        x: FloatArray,
        residual: FloatArray,
        answer: FloatArray,
        error: FloatArray,
        rounding: float,
    ) -> Judged:
        """P2 and P3, with the ``error`` of the solve for z and that of the residual in energy."""
        ends, component = self.ends, self._component
        columns = x + ends.step * answer
        gram = cross_products(residual, answer)
        gram = (gram + gram.T) / 2.0
        of_column = _radius(gram, error, rounding, np.ones((1, len(error))), ends)
        alone = np.diagonal(of_column.alone[0]).copy()
        reading = self.reader.terms(columns, self._misses(alone))
        radius = _radius(gram, error, rounding, reading.slope, ends).pairs
        deviation = self._deviations()
        slack = reading.slope_slack * alone
        winner = np.empty(len(x), np.int64)
        is_proven = np.empty(len(x), bool)
        for rows in row_blocks(len(x)):
            own, sd = component[rows], deviation[rows][:, None]
            scores = _scores(columns, rows, reading, component)
            best = scores.argmax(axis=1)
            places = np.arange(len(best))
            lead = scores[places, best][:, None] - scores
            off = np.abs(columns[rows] - reading.middle[own]) * reading.slope_slack[own]
            off += reading.level_slack[own] + _times(sd, slack[own])
            off += 8.0 * _EPS * np.abs(np.where(np.isfinite(scores), scores, 0.0))
            bound = _times(sd, radius[own, best]) + off + off[places, best][:, None]
            lead[places, best] = np.inf
            is_proven[rows] = (lead > bound).all(axis=1)
            winner[rows] = best
        return Judged(
            columns=columns, winner=winner, is_proven=is_proven & self.reachable, ends=ends
        )

    def _misses(self, radius: FloatArray) -> Misses:
        """What columns of this energy miss in the sums that the reader asks for."""
        weights = self.reader.weights
        shape = (self.system.sparsifier.n_components, 1)
        if weights is None or self.reader.gauge or not np.isfinite(radius).all():
            return Misses(*np.broadcast_to(radius, (2, shape[0], len(radius))))
        if self._of_sums is None:
            free = self.system.free
            rhs = weights[:, None] if free is None else weights[free][:, None]
            solved = self._metric.solve(np.ascontiguousarray(rhs))
            self._stop_if_cancelled()
            energy = np.zeros(shape)
            component_sums(weights[:, None] * self.system.spread(solved.x), self._component, energy)
            sums, squares = np.sqrt(np.maximum(energy, 0.0)) + solved.error[0], np.zeros(shape)
            component_sums((weights * self._deviations() ** 2)[:, None], self._component, squares)
            self._of_sums = np.stack([sums, np.sqrt(squares)])
        return Misses(*(self._of_sums * radius))

    def _deviations(self) -> FloatArray:
        """(n_nodes,) upper bounds on the roots of the entries of M_H^-1, or of its differences.

        By vectors of N(0, M_H^-1): the sum of their squares at a node is chi-squared, and lies
        below a low quantile at one of all nodes with the chance `VARIANCE_FAILURE`.
        """
        if self._deviation is not None:
            return self._deviation
        squares, missed = np.zeros(len(self.reachable)), 0.0
        for first in range(0, N_PROBES, _PROBES_AT_ONCE):
            drawn = self._metric.sample(_PROBES_AT_ONCE, seed=self.seed + first)
            self._stop_if_cancelled()
            vectors = self.system.spread(drawn.x)
            if self.reader.gauge and self.reader.weights is not None:
                means = np.zeros((self.system.sparsifier.n_components, vectors.shape[1]))
                component_sums(self.reader.weights[:, None] * vectors, self._component, means)
                vectors = vectors - means[self._component]
            squares += np.square(vectors).sum(axis=1)
            missed += float(drawn.error @ drawn.error)
        quantile = 2.0 * gammaincinv(N_PROBES / 2.0, VARIANCE_FAILURE / len(squares))
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
            solver = LaplacianSolver(
                graph, scale=system.scale, shift=hold, rtol=_ROUGH_RTOL, max_iter=10_000
            )
            solved = solver.solve(off, cancelled=self.cancelled)
            self._stop_if_cancelled()
            energy = np.maximum((off * solved.x).sum(axis=0), 0.0)
            of_range, of_size, of_rhs = _EPS * np.sqrt(_ROUGH * energy)
            self._rounding = float(of_range), float(of_size), float(of_rhs)
        of_range, of_size, of_rhs = self._rounding
        spread = float((x.max(axis=0) - x.min(axis=0)).max(initial=0.0))
        size = float(np.abs(x).max(initial=0.0))
        return of_range * spread + of_size * size + of_rhs

    def _stop_if_cancelled(self) -> None:
        if self.cancelled is not None and self.cancelled():
            raise RunStopped


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Radius:
    """Energies that errors of scores may have: of pairs of classes, and of single ones."""

    pairs: FloatArray  # (n_components, n_classes, n_classes)
    alone: FloatArray  # the same with one class of each pair, on the diagonal


def _radius(
    gram: FloatArray,
    error: FloatArray,
    rounding: float,
    slope: FloatArray,
    ends: SpectralEnds,
) -> _Radius:
    """P2: miss (|z| + rounding) + step (rounding + error), of scores slope f."""
    scaled = slope[:, :, None] * gram * slope[:, None, :]
    own = np.einsum("ckk->ck", scaled)
    off, lost = slope * error, slope * rounding

    def of(energy: FloatArray, off: FloatArray, lost: FloatArray) -> FloatArray:
        size = (off + np.sqrt(off**2 + 4.0 * np.maximum(energy, 0.0))) / 2.0
        return ends.miss * (size + lost) + ends.step * (lost + off)

    def both(columns: FloatArray) -> FloatArray:
        return columns[:, :, None] + columns[:, None, :]

    alone = np.zeros_like(scaled)
    np.einsum("ckk->ck", alone)[...] = of(own, off, lost)
    return _Radius(pairs=of(both(own) - 2.0 * scaled, both(off), both(lost)), alone=alone)


def _times(deviation: FloatArray, radius: FloatArray) -> FloatArray:
    """The product, 0 where either is 0: held nodes do not move, however far others may."""
    is_open = (deviation > 0) & (radius > 0)
    product: FloatArray = np.multiply(deviation, radius, out=np.zeros_like(radius), where=is_open)
    return product


def _scores(columns: FloatArray, rows: slice, reading: Reading, component: IntArray) -> FloatArray:
    """Scores of some nodes; -inf for classes that cannot win."""
    own = component[rows]
    scores = reading.slope[own] * (columns[rows] - reading.middle[own]) + reading.level[own]
    return np.where(reading.may_win[own], scores, -np.inf)
