"""Labels proven to be those of all edges: leads beyond what errors may be (P3, P4)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, IntArray
from peewit.solvers.kernels.laplacian_products import component_sums
from peewit.solvers.proof.bounded_system import Bounded, BoundedSystem
from peewit.solvers.proof.readings import Misses, Reader, Reading
from peewit.solvers.proof.spectral_ends import SpectralEnds
from peewit.solvers.row_ranges import row_blocks

_ROUGHLY: Final = 0.75
"""Part of the allowed share that may be unproven where a rough look is to be the last.

The true residual proves a little less, and to find that out in vain costs two passes.
"""
_EPS: Final = float(np.finfo(np.float64).eps)


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

    bounds: BoundedSystem
    reader: Reader
    reachable: BoolArray  # (n_nodes,) nodes whose labels are to be proven
    most_unproven: float  # share of them at which the passes end
    on_share: Callable[[float], None]  # hears the proven share at each look
    judged: Judged | None = field(default=None, init=False)  # of the last true residual
    shares: list[float] = field(default_factory=list, init=False)  # proven, at each look
    _of_sums: FloatArray | None = field(default=None, init=False)

    def is_settled(self, x: FloatArray, residual: FloatArray, answer: FloatArray | None) -> bool:
        """Whether few enough labels stay unproven; see `peewit...unsparsified_system.Settled`."""
        if self.bounds.ends.low <= 0:
            if answer is None:
                self.judged = self._unproven(x)
            return False
        if answer is not None:
            judged = self._judge(self.bounds.roughly(x, residual, answer))
            return self._is_enough(judged.is_proven, _ROUGHLY * self.most_unproven)
        self.judged = self._judge(self.bounds.exactly(x, residual))
        return self._is_enough(self.judged.is_proven, self.most_unproven)

    def _unproven(self, x: FloatArray) -> Judged:
        """Nothing is known of the ends."""
        reading = self.reader.terms(x, self._misses(np.full(x.shape[1], np.inf)))
        winner = _scores(x, slice(None), reading, self._component).argmax(axis=1)
        none = np.zeros(len(x), bool)
        return Judged(columns=x, winner=winner, is_proven=none, ends=self.bounds.ends)

    def _is_enough(self, is_proven: BoolArray, most_unproven: float) -> bool:
        n_reached = int(np.count_nonzero(self.reachable))
        n_proven = int(np.count_nonzero(is_proven & self.reachable))
        self.shares.append(n_proven / max(n_reached, 1))
        self.on_share(self.shares[-1])
        return n_reached - n_proven <= most_unproven * n_reached

    @property
    def _component(self) -> IntArray:
        return self.bounds.system.sparsifier.component

    def _judge(self, bounded: Bounded) -> Judged:
        """P3: leads beyond what the errors of both classes may be."""
        component, columns = self._component, bounded.columns
        alone = bounded.radius(np.eye(columns.shape[1]))
        reading = self.reader.terms(columns, self._misses(alone))
        radius, slack = bounded.pairs(reading.slope), reading.slope_slack * alone
        deviation = self.bounds.deviations()
        winner = np.empty(len(columns), np.int64)
        is_proven = np.empty(len(columns), bool)
        for rows in row_blocks(len(columns)):
            own, sd = component[rows], deviation[rows][:, None]
            scores = _scores(columns, rows, reading, component)
            best = scores.argmax(axis=1)
            places = np.arange(len(best))
            lead = scores[places, best][:, None] - scores
            off = np.abs(columns[rows] - reading.middle[own]) * reading.slope_slack[own]
            off += reading.level_slack[own] + _times(sd, slack[own])
            sizes = np.abs(columns[rows]) + np.abs(reading.middle[own])
            off += 8.0 * _EPS * (reading.slope[own] * sizes + np.abs(reading.level[own]))
            bound = _times(sd, radius[own, best]) + off + off[places, best][:, None]
            lead[places, best] = np.inf
            is_proven[rows] = (lead > bound).all(axis=1)
            winner[rows] = best
        return Judged(
            columns=columns, winner=winner, is_proven=is_proven & self.reachable, ends=bounded.ends
        )

    def _misses(self, radius: FloatArray) -> Misses:
        """What columns of this energy miss in the sums that the reader asks for."""
        weights, graph = self.reader.weights, self.bounds.system.sparsifier
        shape = (graph.n_components, 1)
        if weights is None or self.reader.gauge or not np.isfinite(radius).all():
            return Misses(*np.broadcast_to(radius, (2, shape[0], len(radius))))
        if self._of_sums is None:
            answer, error = self.bounds.solved(weights[:, None])
            energy, squares = np.zeros(shape), np.zeros(shape)
            component_sums(weights[:, None] * answer, self._component, energy)
            sums = np.sqrt(np.maximum(energy, 0.0)) + error[0]
            deviation = self.bounds.deviations()
            component_sums((weights * deviation**2)[:, None], self._component, squares)
            self._of_sums = np.stack([sums, np.sqrt(squares)])
        return Misses(*(self._of_sums * radius))


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
