"""Alternating directions that bring fits of several classes to the simplex (G7)."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.kernels.simplex import project_rows
from peewit.solvers.status import Status
from peewit.solvers.variation.fidelity import HingeFidelity
from peewit.solvers.variation.penalty_inverses import PenaltyInverse


def on_simplex(values: FloatArray) -> FloatArray:
    """The nearest distributions of the rows, as a new array."""
    projected = np.array(values, np.float64, order="C")
    project_rows(projected, 0, projected.shape[0])
    return projected


@dataclass(slots=True, kw_only=True, eq=False)
class SimplexState:
    """g, the duals of its copies f and h, and their difference.

    ``residual`` is the largest difference of g from f and from h, and r times that from the g
    before if r > 1: a strong pull makes short steps.
    """

    values: FloatArray
    dual: FloatArray
    label_dual: FloatArray
    residual: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimplexSplitting:
    """ADMM for min penalty(f) - <linear, f> + hinges(h), base + f = g = h on the simplex.

    For `peewit.solvers.iteration_loop.iterate`. ``forces`` (n_labeled, n_columns) are the pull of
    the labels at ``first``, the dual of the hinges to start from; None for 0.

    Notes
    -----
    The text leaves out the update of the dual, l += r (f - g). It has no base either: functions
    that a norm pulls to 0 are then pulled off the simplex wherever there is no label. And it solves
    the dual program of the hinges in every step; with a copy of their own their step is (G10).
    """

    inverse: PenaltyInverse  # with the pull r in it
    linear: FloatArray  # (n_nodes, n_columns)
    hinges: HingeFidelity | None  # of distributions; h are values at the labels
    base: FloatArray  # (n_columns,) a distribution
    first: FloatArray  # (n_nodes, n_columns) distributions to start from
    rtol: float  # the residual to reach
    forces: FloatArray | None = None

    def init(self) -> SimplexState:
        """The first values and duals."""
        values = self.first
        n_labeled = 0 if self.hinges is None else self.hinges.nodes.size
        dual, label_dual = np.zeros_like(values), np.zeros((n_labeled, values.shape[1]))
        if self.hinges is not None and self.forces is not None:
            label_dual = self.forces
            dual[self.hinges.nodes] = -label_dual
        return SimplexState(values=values, dual=dual, label_dual=label_dual, residual=np.inf)

    def step(self, state: SimplexState) -> SimplexState:
        """The copies f and h, then g, then the duals."""
        pull, before = self.inverse.pull, state.values
        fitted = self.base + self.inverse.apply(self._residual(state))
        target = fitted + state.dual / pull
        if self.hinges is not None:
            nodes = self.hinges.nodes
            labeled = self.hinges.at_labels(before[nodes] - state.label_dual / pull, pull)
            target[nodes] = 0.5 * (target[nodes] + labeled + state.label_dual / pull)
        state.values = on_simplex(target)
        differences = [fitted - state.values, max(1.0, pull) * (state.values - before)]
        state.dual += pull * differences[0]
        if self.hinges is not None:
            differences.append(labeled - state.values[nodes])
            state.label_dual += pull * differences[-1]
        state.residual = max(float(np.abs(part).max(initial=0.0)) for part in differences)
        return state

    def functions(self, state: SimplexState) -> Expansion | None:
        """The copy f of a state, for any x; None on a graph."""
        return self.inverse.functions(self._residual(state), self.base)

    def _residual(self, state: SimplexState) -> FloatArray:
        pull = self.inverse.pull
        return self.linear + pull * (state.values - state.dual / pull - self.base)

    def terminate(self, state: SimplexState) -> Status | None:
        """Converged once the copies agree."""
        return Status.CONVERGED if state.residual <= self.rtol else None

    def fraction(self, state: SimplexState) -> float:
        """Progress of the residual, on a logarithmic scale."""
        if state.residual <= self.rtol:
            return 1.0
        return float(np.clip(np.log(state.residual) / np.log(self.rtol), 0.0, 1.0))
