"""Preconditioned nonlinear conjugate gradients for all classes at once, (E9) to (E11).

The preconditioner diag(1, K) makes the gradient that of the space itself, so that on explicit
features the same steps are plain conjugate gradients. One product with the Gram matrix and one
with L^p per iteration, shared by every function.
"""

from dataclasses import KW_ONLY, dataclass, fields
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, IntArray
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.status import Status
from peewit.solvers.svm.line_search import exact_step
from peewit.solvers.svm.regularized_problem import Minimum, Problem
from peewit.solvers.svm.stopping import EarlyStop, MeasureName

PHASE: Final = "conjugate gradients"

_PATIENCE: Final = 200
"""Iterations without a new least measure after which a run stagnates."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Columns:
    """The functions still being worked on, one a column of every array.

    ``values`` and ``energy_values`` are K coef and L^p g; those of the direction likewise.
    """

    index: IntArray
    coef: FloatArray
    intercept: FloatArray
    values: FloatArray
    energy_values: FloatArray
    gradient: FloatArray
    gradient_intercept: FloatArray
    gradient_values: FloatArray
    direction: FloatArray
    direction_intercept: FloatArray
    direction_values: FloatArray
    objective: FloatArray
    measure: FloatArray
    scale: FloatArray
    least: FloatArray
    least_at: FloatArray

    def select(self, mask: BoolArray) -> "_Columns":
        """Some of the functions."""
        arrays = {field.name: getattr(self, field.name)[..., mask] for field in fields(self)}
        return _Columns(**arrays)


@dataclass(slots=True, kw_only=True, eq=False)
class DescentState:
    """State of a descent; ``coef`` and ``intercept`` are those of all functions."""

    live: _Columns
    coef: FloatArray
    intercept: FloatArray
    status: Status | None = None  # None until it ends
    n_iter: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ConjugateGradients:
    """The iteration; see `descend`.

    Attributes
    ----------
    problem : Problem
        Of squared or squared hinge loss.
    coef, intercept : arrays
        The start.
    measure : {'gradient', 'preconditioned-gradient', 'mixed-product', 'objective'}
        What has to become small: |K g|, |g| or sqrt(g' K g) of g of (E9), or the decrease of the
        objective in one iteration.
    rtol : float
        Its limit, relative to the measure (or the objective) at the zero function.
    early : EarlyStop or None
        Ends all functions together before that.
    """

    problem: Problem
    coef: FloatArray
    intercept: FloatArray
    _: KW_ONLY
    measure: MeasureName
    rtol: float
    early: EarlyStop | None = None

    def init(self) -> DescentState:
        """The start, with its gradient and the measures at the zero function."""
        problem = self.problem
        coef, intercept = self.coef, self.intercept
        n_functions = problem.n_functions
        none, nothing = np.zeros((problem.space.n_rows, n_functions)), np.zeros(n_functions)
        values = problem.space.values(coef) if coef.any() else none.copy()
        live = _Columns(
            index=np.arange(n_functions),
            coef=coef.copy(),
            intercept=intercept.copy(),
            values=values,
            energy_values=none,
            gradient=np.zeros_like(coef),
            gradient_intercept=nothing,
            gradient_values=none,
            direction=np.zeros_like(coef),
            direction_intercept=nothing,
            direction_values=none,
            objective=nothing,
            measure=nothing,
            scale=np.ones(n_functions),
            least=np.full(n_functions, np.inf),
            least_at=np.zeros(n_functions),
        )
        inside = self._inside(values, intercept)
        live.energy_values = np.asarray(problem.laplacian.product(inside), np.float64)
        live.scale = self._scale(live)
        self._evaluate(live)
        self._turn(live, np.zeros(n_functions))
        live.measure = self._measure(live, np.full(n_functions, np.inf))
        state = DescentState(live=live, coef=coef.copy(), intercept=intercept.copy())
        if self.early is not None:
            self.early.is_met(0, live.values + live.intercept)
        return self._retire(state)

    def step(self, state: DescentState) -> DescentState:
        """One exact step along the conjugate direction, and the next direction."""
        problem, live = self.problem, state.live
        inside = self._inside(live.direction_values, live.direction_intercept)
        energy_step = np.asarray(problem.laplacian.product(inside), np.float64)
        size = self._step_size(live, energy_step)  # (E11)
        moves = np.isfinite(size) & (size > 0)
        size = np.where(moves, size, 0.0)
        live.coef += size * live.direction
        live.intercept += size * live.direction_intercept
        # linear in coef: no product of its own
        live.values += size * live.direction_values
        live.energy_values += size * energy_step
        before, earlier = live.objective, (live.gradient, live.gradient_intercept)
        norm = self._squared_norm(live)
        self._evaluate(live)
        # (E10): Polak and Ribiere, never below 0
        change = self._squared_norm(live) - self._product_with(live, *earlier)
        omega = np.divide(change, norm, out=np.zeros_like(norm), where=moves & (norm > 0))
        self._turn(live, np.maximum(omega, 0.0))
        state.n_iter += 1
        live.measure = self._measure(live, before - live.objective)
        live.measure[~moves & (norm == 0)] = 0.0
        better = live.measure < live.least
        live.least_at[better] = state.n_iter
        live.least = np.minimum(live.measure, live.least)
        if self.early is not None and self.early.is_met(state.n_iter, live.values + live.intercept):
            state.status = Status.CONVERGED
        return self._retire(state)

    def terminate(self, state: DescentState) -> Status | None:
        """Converged once every function meets the measure, or the early rule holds."""
        return state.status

    def fraction(self, state: DescentState) -> float:
        """Share of the digits by which the slowest function's measure has to fall."""
        if state.live.index.size == 0:
            return 1.0
        worst = float(np.max(state.live.measure))
        return np.log(max(worst, self.rtol)) / np.log(self.rtol) if worst < 1 else 0.0

    def _inside(self, values: FloatArray, intercept: FloatArray) -> FloatArray:
        """Values that the graph penalty sees."""
        return values + intercept if self.problem.bias == "penalized" else values

    def _evaluate(self, live: _Columns) -> None:
        """The objective and the gradient (E9) at the present functions."""
        problem, nodes = self.problem, self.problem.nodes
        targets = problem.targets[:, live.index]
        outputs = live.values[nodes] + live.intercept
        missed = outputs - targets
        if problem.loss == "squared-hinge":
            missed = np.where(targets * outputs < 1.0, missed, 0.0)
        residual = problem.graph_penalty * live.energy_values
        residual[nodes] += missed  # (E9) without the norm term: I_E (o - y) + gamma_I L K alpha
        inside = self._inside(live.values, live.intercept)
        norm = problem.space.inner(live.coef, live.coef, live.values)
        energy = np.einsum("ij,ij->j", inside, live.energy_values)
        live.objective = 0.5 * (
            np.square(missed).sum(axis=0)
            + problem.norm_penalty * norm
            + problem.graph_penalty * energy
        )
        live.gradient = problem.space.adjoint(residual) + problem.norm_penalty * live.coef
        live.gradient_values = problem.space.values(live.gradient)
        if problem.bias == "free":
            live.gradient_intercept = missed.sum(axis=0)
        elif problem.bias == "penalized":
            # b is inside the penalty: it adds gamma_I 1' L (K alpha + b 1)
            live.gradient_intercept = residual.sum(axis=0)
        else:
            live.gradient_intercept = np.zeros(live.index.size)

    def _turn(self, live: _Columns, omega: FloatArray) -> None:
        """Set the next direction, -g + omega d; steepest descent if that does not lead down."""
        slope = omega * self._product_with(live, live.direction, live.direction_intercept)
        omega = np.where(slope < self._squared_norm(live), omega, 0.0)  # <g, d> < 0, or d = -g
        live.direction = omega * live.direction - live.gradient
        live.direction_intercept = omega * live.direction_intercept - live.gradient_intercept
        live.direction_values = omega * live.direction_values - live.gradient_values

    def _step_size(self, live: _Columns, energy_step: FloatArray) -> FloatArray:
        problem, nodes = self.problem, self.problem.nodes
        space, direction_values = problem.space, live.direction_values
        inside = self._inside(direction_values, live.direction_intercept)
        # left and slope of (E11) without the losses
        left = problem.norm_penalty * space.inner(live.direction, live.coef, live.values)
        left += problem.graph_penalty * np.einsum("ij,ij->j", inside, live.energy_values)
        slope = problem.norm_penalty * space.inner(live.direction, live.direction, direction_values)
        slope += problem.graph_penalty * np.einsum("ij,ij->j", inside, energy_step)
        return exact_step(
            live.values[nodes] + live.intercept,
            direction_values[nodes] + live.direction_intercept,
            problem.targets[:, live.index],
            left,
            slope,
            is_hinge=problem.loss == "squared-hinge",
        )

    def _squared_norm(self, live: _Columns) -> FloatArray:
        """Squared norm of the gradient, g' diag(1, K) g."""
        return self._product_with(live, live.gradient, live.gradient_intercept)

    def _product_with(self, live: _Columns, coef: FloatArray, intercept: FloatArray) -> FloatArray:
        """The gradient's product with another function, in the space."""
        inner = self.problem.space.inner(coef, live.gradient, live.gradient_values)
        return inner + intercept * live.gradient_intercept

    def _scale(self, live: _Columns) -> FloatArray:
        """The measure at the zero function; the objective there if its decrease is the measure."""
        problem = self.problem
        if self.measure == "objective":
            return np.asarray(0.5 * np.square(problem.targets).sum(axis=0))
        zero = live.select(np.ones(live.index.size, bool))
        zero.coef, zero.intercept = np.zeros_like(live.coef), np.zeros_like(live.intercept)
        zero.values = zero.energy_values = np.zeros_like(live.values)
        self._evaluate(zero)
        scale = self._size(zero)
        return np.where(scale > 0, scale, 1.0)

    def _size(self, live: _Columns) -> FloatArray:
        """Size of the gradient in the measure."""
        intercept = np.square(live.gradient_intercept)
        if self.measure == "gradient":
            return np.asarray(np.sqrt(np.square(live.gradient_values).sum(axis=0) + intercept))
        if self.measure == "preconditioned-gradient":
            return np.asarray(np.sqrt(np.square(live.gradient).sum(axis=0) + intercept))
        return np.sqrt(np.maximum(self._squared_norm(live), 0.0))

    def _measure(self, live: _Columns, decrease: FloatArray) -> FloatArray:
        size = decrease if self.measure == "objective" else self._size(live)
        return np.asarray(size / live.scale)

    def _retire(self, state: DescentState) -> DescentState:
        """Set aside the functions that are done; the rest share the products."""
        live = state.live
        state.coef[:, live.index], state.intercept[live.index] = live.coef, live.intercept
        if state.status is not None:
            return state
        done = live.measure <= self.rtol
        stuck = state.n_iter - live.least_at > _PATIENCE
        if self.early is not None:  # all functions end together
            if done.all():
                state.status = Status.CONVERGED
            return state
        if (stuck & ~done).any():
            state.status = Status.STAGNATED
        elif done.any():
            state.live = live.select(~done)
            if done.all():
                state.status = Status.CONVERGED
        return state


def descend(
    problem: Problem,
    *,
    start: tuple[FloatArray, FloatArray] | None = None,
    measure: MeasureName = "gradient",
    rtol: float = 1e-8,
    early: EarlyStop | None = None,
    max_iter: int = 1000,
    watch: Watch = UNWATCHED,
) -> Minimum:
    """The minimum of a problem by conjugate gradients, (E9) to (E11).

    The problem has squared or squared hinge loss; a ``start`` of None is the zero function.
    `ConjugateGradients` explains ``measure``, ``rtol`` and ``early``.

    References
    ----------
    Melacci and Belkin, JMLR 2011, section 4.
    """
    if start is None:
        start = np.zeros((problem.space.n_coef, problem.n_functions)), np.zeros(problem.n_functions)
    method = ConjugateGradients(problem, *start, measure=measure, rtol=rtol, early=early)
    outcome = watch.run(method, max_iter=max_iter, phase=PHASE)
    state = outcome.state
    is_early = early is not None and bool((state.live.measure > rtol).any())
    stopped_by = early.rule if is_early and early is not None else measure
    return Minimum(
        coef=state.coef,
        intercept=state.intercept,
        status=outcome.status,
        n_iter=outcome.n_iter,
        stopped_by=stopped_by if outcome.status is Status.CONVERGED else outcome.status.value,
    )
