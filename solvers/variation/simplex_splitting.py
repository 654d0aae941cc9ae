"""Alternating directions that bring fits of several classes to the simplex (G7)."""

from dataclasses import dataclass

import numpy as np

from solvers.arrays import FloatArray
from solvers.kernels.simplex import project_rows
from solvers.solution import Status, first_failure
from solvers.variation.label_fit import LabelFit


def on_simplex(values: FloatArray) -> FloatArray:
    """The nearest distributions of the rows, as a new array."""
    projected = np.array(values, np.float64, order="C")
    project_rows(projected, 0, projected.shape[0])
    return projected


@dataclass(slots=True, kw_only=True, eq=False)
class SimplexState:
    """The fit, its copy on the simplex, their dual, and their largest difference."""

    fitted: FloatArray
    values: FloatArray
    dual: FloatArray
    residual: float
    status: Status = Status.CONVERGED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimplexSplitting:
    """ADMM for min fit(f) with the rows of g = f on the simplex, for `solvers.iterate.iterate`.

    Attributes
    ----------
    fit : LabelFit
        Its pull is r.
    base : (n_columns,) float64
        What the fit is added to, a distribution.
    first : (n_nodes, n_columns) float64
        The sum without the constraint; where it is on the simplex, it is the answer.
    rtol : float
        Largest difference of f and g, and of g from the one before.

    Notes
    -----
    The text leaves out the update of the dual, l += r (f - g). Nor has it a base: functions that
    a norm pulls to 0 are then pulled off the simplex wherever there is no label.
    """

    fit: LabelFit
    base: FloatArray
    first: FloatArray
    rtol: float

    def init(self) -> SimplexState:
        """The free fit and its projection."""
        values = on_simplex(self.first)
        return SimplexState(
            fitted=self.first,
            values=values,
            dual=np.zeros_like(values),
            residual=float(np.abs(self.first - values).max(initial=0.0)),
        )

    def step(self, state: SimplexState) -> SimplexState:
        """One fit, one projection, and the dual."""
        pull = self.fit.inverse.pull
        fitted, _, status = self.fit.nearest(state.values - state.dual / pull - self.base)
        state.fitted = fitted + self.base
        before, state.values = state.values, on_simplex(state.fitted + state.dual / pull)
        missed = state.fitted - state.values
        state.dual += pull * missed
        moved = float(np.abs(state.values - before).max(initial=0.0))
        state.residual = max(float(np.abs(missed).max(initial=0.0)), moved)
        state.status = first_failure(state.status, status)
        return state

    def terminate(self, state: SimplexState) -> Status | None:
        """Converged once f and g are the same."""
        return Status.CONVERGED if state.residual <= self.rtol else None

    def fraction(self, state: SimplexState) -> float:
        """How near the residual is, on a logarithmic scale."""
        if state.residual <= self.rtol:
            return 1.0
        return float(np.clip(np.log(state.residual) / np.log(self.rtol), 0.0, 1.0))
