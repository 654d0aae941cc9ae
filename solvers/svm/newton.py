"""Newton's method on the labeled nodes for squared hinges (E7), and its one step for squares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy.linalg as sl

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.iteration_loop import OnStep, ignore_step
from peewit.solvers.status import Status
from peewit.solvers.svm.labeled_system import LabeledProblem, LabeledSystem
from peewit.solvers.svm.line_search import exact_step
from peewit.solvers.svm.regularized_problem import Minimum

PHASE: Final = "newton"

MAX_STEPS: Final = 100
"""Most Newton steps of one function; a handful suffices."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabeledMinimum:
    """The functions at the labeled nodes: kernel @ dual + free."""

    dual: FloatArray  # (n_labeled, n_functions) minus the slopes of the losses
    free: FloatArray  # (n_functions,) free intercepts
    status: Status
    n_iter: int  # of the function with most steps

    @classmethod
    def of_functions(
        cls,
        targets: FloatArray,
        solved: Callable[[FloatArray], tuple[FloatArray, float, int, Status]],
        on_step: OnStep,
    ) -> "LabeledMinimum":
        """One function after another; ``solved`` gives dual, intercept, steps and status of one."""
        n_functions = targets.shape[1]
        dual, free = np.zeros_like(targets), np.zeros(n_functions)
        n_iter, status = 0, Status.CONVERGED
        for column in range(n_functions):
            on_step(column, n_functions)
            dual[:, column], free[column], n_own, ended = solved(targets[:, column])
            n_iter = max(n_iter, n_own)
            status = status if ended is Status.CONVERGED else ended
        on_step(n_functions, n_functions)
        return cls(dual=dual, free=free, status=status, n_iter=n_iter)

    def lifted(self, system: LabeledSystem) -> Minimum:
        """The functions on all nodes."""
        coef, intercept = system.lifted(self.dual, self.free)
        status = self.status if system.is_accurate else Status.STAGNATED
        by = "optimal" if status is Status.CONVERGED else status.value
        return Minimum(
            coef=coef, intercept=intercept, status=status, n_iter=self.n_iter, stopped_by=by
        )


def minimize(
    problem: LabeledProblem,
    targets: FloatArray,
    *,
    is_hinge: bool,
    max_iter: int = MAX_STEPS,
    on_step: OnStep = ignore_step,
) -> LabeledMinimum:
    """The exact minimum: for every function the set of active labels that reproduces itself.

    ``targets`` are (n_labeled, n_functions): 1 or -1, or any numbers for the squared loss. Without
    ``is_hinge`` the loss is squared and all labels are active (E12).

    Notes
    -----
    Full steps, as in the paper; one that would raise the objective is cut to the exact minimum
    along it, so that steps cannot cycle.
    """

    def solved(target: FloatArray) -> tuple[FloatArray, float, int, Status]:
        method = _OneFunction(problem, target, is_hinge)
        n_iter, status = method.run(max_iter)
        return method.dual, method.free, n_iter, status

    return LabeledMinimum.of_functions(targets, solved, on_step)


class _OneFunction:
    """Newton's method for one column of targets."""

    def __init__(self, problem: LabeledProblem, target: FloatArray, is_hinge: bool) -> None:
        self._kernel = problem.kernel
        self._has_bias = problem.has_free_bias
        self._target = target
        self._is_hinge = is_hinge
        self.dual = np.zeros_like(target)
        self.free = 0.0

    def run(self, max_iter: int) -> tuple[int, Status]:
        """Steps taken, and how they ended."""
        outputs = np.zeros_like(self._target)
        active = self._active(outputs)
        for n_steps in range(1, max_iter + 1):
            dual, free = self._step(active)
            moved = self._kernel @ dual + free - outputs
            size = self._size(outputs, moved, dual)
            if not 0 < size < np.inf:  # rounding took the kernel's least eigenvalues below 0
                return n_steps, Status.STAGNATED
            self.dual = self.dual + size * (dual - self.dual)
            self.free += size * (free - self.free)
            outputs = outputs + size * moved
            before, active = active, self._active(outputs)
            if size == 1.0 and bool((active == before).all()):  # (E7): they repeat
                return n_steps, Status.CONVERGED
        return max_iter, Status.MAX_ITER

    def _active(self, outputs: FloatArray) -> BoolArray:
        if not self._is_hinge:
            return np.ones(outputs.size, bool)
        return np.asarray(self._target * outputs < 1.0)

    def _step(self, active: BoolArray) -> tuple[FloatArray, float]:
        """The minimum while the active labels stay active (E7)."""
        dual = np.zeros_like(self._target)
        own = np.flatnonzero(active)
        if own.size == 0:
            return dual, self.free
        right = np.column_stack([self._target[own], np.ones(own.size)])
        # (K_EE + I) c = y - b 1, by (E13); b makes the sum of c 0
        answer = _solve(self._kernel[np.ix_(own, own)], right)
        free = 0.0
        if self._has_bias:
            free = float(answer[:, 0].sum() / answer[:, 1].sum())
        dual[own] = answer[:, 0] - free * answer[:, 1]
        return dual, free

    def _size(self, outputs: FloatArray, moved: FloatArray, dual: FloatArray) -> float:
        """1, or the exact minimum along the step if a full step would raise the objective."""
        change = dual - self.dual
        own, across = self._kernel @ self.dual, self._kernel @ change
        left, slope = float(change @ own), float(change @ across)
        # both penalties of (E4) together are c' kernel c
        after = self._objective(outputs + moved) + 0.5 * float(dual @ self._kernel @ dual)
        before = self._objective(outputs) + 0.5 * float(self.dual @ own)
        if after <= before + 1e-12 * abs(before):
            return 1.0
        step = exact_step(
            outputs[:, None],
            moved[:, None],
            self._target[:, None],
            np.array([left]),
            np.array([slope]),
            is_hinge=self._is_hinge,
        )
        return float(step[0])

    def _objective(self, outputs: FloatArray) -> float:
        """Half the losses."""
        missed = self._target - outputs
        if self._is_hinge:
            missed = missed[self._target * outputs < 1.0]
        return 0.5 * float(missed @ missed)


def _solve(kernel: FloatArray, right: FloatArray) -> FloatArray:
    """(kernel + I)^{-1} right; eigenvalues that rounding took below 0 count as 0."""
    matrix = kernel + np.eye(kernel.shape[0])
    try:
        factor = sl.cho_factor(matrix, check_finite=False)
    except sl.LinAlgError:  # rounding of a kernel this large is more than the identity
        values, vectors = sl.eigh(kernel, check_finite=False)
        scale = np.maximum(values, 0.0) + 1.0
        return np.asarray(vectors @ ((vectors.T @ right) / scale[:, None]))
    return np.asarray(sl.cho_solve(factor, right, check_finite=False))
