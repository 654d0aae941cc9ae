"""The dual of the hinge and of the squared hinge (E3): a quadratic program for Clarabel.

Clarabel takes problems with or without the constraint of a free intercept and with or without
boxes, and ends at 1e-8; libsvm and liblinear take one case each.
"""

from typing import Any, Final

import clarabel
import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import OnStep, ignore_step
from peewit.solvers.status import Status
from peewit.solvers.svm.labeled_system import LabeledProblem
from peewit.solvers.svm.newton import LabeledMinimum
from peewit.solvers.svm.regularized_problem import LossName

MAX_STEPS: Final = 200
"""Most interior-point iterations of one function; a dozen suffice."""

_ACCURACY: Final = 1e-10
_LEAST_ACCURACY: Final = 1e-7
"""Accuracy that an answer must have even if the requested one is missed: ``AlmostSolved``."""

_STATUS: Final = {
    "Solved": Status.CONVERGED,
    "AlmostSolved": Status.CONVERGED,
    "MaxIterations": Status.MAX_ITER,
    "MaxTime": Status.MAX_ITER,
}


def maximize(
    problem: LabeledProblem,
    targets: FloatArray,
    *,
    loss: LossName,
    max_iter: int = MAX_STEPS,
    on_step: OnStep = ignore_step,
) -> LabeledMinimum:
    """The minimum of the problem by its dual, a program for each function.

    ``targets`` are (n_labeled, n_functions), 1 or -1; ``max_iter`` counts interior-point
    iterations.

    Notes
    -----
    O(n_labeled^3) an iteration. The hinge's problem is (E1), whose dual has half the kernel and
    beta in [0, 1]; the squared hinge's has the kernel plus the identity and beta >= 0.
    """
    is_hinge = loss == "hinge"

    def solved(target: FloatArray) -> tuple[FloatArray, float, int, Status]:
        matrix = problem.kernel * np.outer(target, target)  # twice Q of (E3)
        matrix = 0.5 * matrix if is_hinge else matrix + np.eye(target.size)
        answer = _solve(
            matrix,
            np.ones_like(target),
            target if problem.has_free_bias else None,
            is_hinge,
            max_iter,
        )
        beta = np.maximum(np.array(answer.x), 0.0)
        # (E2) has twice the penalties: c of (E13) is Y beta / 2 for the hinge
        dual = target * (0.5 * np.minimum(beta, 1.0) if is_hinge else beta)
        # the intercept is the multiplier of the balance
        free = float(answer.z[0]) if problem.has_free_bias else 0.0
        return dual, free, int(answer.iterations), _status_of(answer)

    return LabeledMinimum.of_functions(targets, solved, on_step)


def box_program(
    matrix: FloatArray, *, gain: FloatArray, balance: FloatArray
) -> tuple[FloatArray, float, Status]:
    """Minimize 1/2 b' matrix b - gain' b over b in [0, 1], balance' b = 0.

    Returns b, the multiplier of the balance, and how the program ended.
    """
    answer = _solve(matrix, gain, balance, True, MAX_STEPS)
    shares = np.clip(np.array(answer.x), 0.0, 1.0)
    return shares, float(answer.z[0]), _status_of(answer)


def _status_of(answer: Any) -> Status:
    return _STATUS.get(str(answer.status), Status.STAGNATED)


def _solve(
    matrix: FloatArray, gain: FloatArray, balance: FloatArray | None, has_box: bool, max_iter: int
) -> Any:
    """Minimize 1/2 b' matrix b - gain' b over b >= 0, at most 1 with a box, balance' b = 0."""
    size = matrix.shape[0]
    identity = sp.eye_array(size, format="csc")
    rows, bounds, cones = [], [], []
    if balance is not None:
        rows.append(sp.csc_array(balance[None]))
        bounds.append(np.zeros(1))
        cones.append(clarabel.ZeroConeT(1))
    rows.append(-identity)
    bounds.append(np.zeros(size))
    if has_box:
        rows.append(identity)
        bounds.append(np.ones(size))
    cones.append(clarabel.NonnegativeConeT(size * (2 if has_box else 1)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = max_iter
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _ACCURACY
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = _LEAST_ACCURACY
    settings.reduced_tol_feas = _LEAST_ACCURACY
    program = clarabel.DefaultSolver(
        sp.csc_matrix(np.triu(matrix)),
        -gain,
        sp.csc_matrix(sp.vstack(rows)),
        np.concatenate(bounds),
        cones,
        settings,
    )
    return program.solve()
