"""Every method on one split: errors, CPU seconds from the Gram matrix on, steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy.linalg as sl

from docs.benchmarks.frame import cpu_of
from docs.benchmarks.lapsvm.cases import Case, Joined
from docs.benchmarks.lapsvm.penalties import NEWTON_STEPS, Pair, system_of, trained
from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.status import Status
from peewit.solvers.svm.conjugate_gradients import ConjugateGradients, DescentState, descend
from peewit.solvers.svm.labeled_system import DenseInverse, NoGraphPenalty
from peewit.solvers.svm.regularized_problem import BiasName, Minimum, Problem
from peewit.solvers.svm.stopping import RTOL, EarlyStop, StopName, Validation, decisions

EARLY: Final[Sequence[StopName]] = ("stability", "validation", "mixed")
CAP: Final = 200
"""Most iterations where a rule may stop them, as in the authors' code."""


SIZES: Final = ("objective", "gradient", "preconditioned gradient", "mixed product")
"""What conjugate gradients lower: |K g|, |g| and sqrt(g' K g) of g of (E9)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A method on a split: (3,) percent wrong, CPU seconds of training, and steps.

    Newton steps are the mean over functions; a run that a limit ended has not converged.
    """

    errors: FloatArray
    seconds: float
    n_iter: float
    is_converged: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """Of a split, what holds after each iteration of conjugate gradients."""

    errors: FloatArray  # (n_iter, 3) percent wrong, of unlabeled, validation and test points
    sizes: FloatArray  # (n_iter, 4) each of `SIZES`, relative to the zero function
    every: int  # iterations between two checks
    changed: Sequence[float]  # share of the unlabeled that changed class, at each check


def supervised(case: Case, method: str, norm_penalty: float, bias: BiasName) -> Run:
    """SVM or RLSC of the labeled points."""
    space, targets = case.labeled_space, case.targets

    def train() -> Minimum:
        inverse = NoGraphPenalty(space=space, norm_penalty=norm_penalty)
        return trained(method, system_of(case, inverse, None, 0.0, bias), targets)

    minimum, seconds = cpu_of(train)
    functions = space.expansion(minimum.coef, minimum.intercept).trimmed()
    values = functions.values(case.rows.values)
    return _run(case.errors(values, functions), seconds, minimum)


def factored(
    case: Case, joined: Joined, methods: Sequence[str], penalties: Pair, bias: BiasName
) -> dict[str, Run]:
    """Methods of one factorisation, at the same penalties; each is charged with all of it."""
    own, laplacian, gram = case.targets, joined.laplacian, joined.gram

    inverse, factoring = cpu_of(DenseInverse, gram, laplacian, *penalties)
    system, reducing = cpu_of(system_of, case, inverse, laplacian, penalties[1], bias)
    runs = {}
    for method in methods:
        minimum, seconds = cpu_of(trained, method, system, own)
        functions = gram.expansion(minimum.coef, minimum.intercept)
        values = gram.values(minimum.coef) + minimum.intercept
        errors = case.errors(values, functions)
        steps = [trained(method, system, own[:, [k]]).n_iter for k in range(own.shape[1])]
        runs[method] = Run(
            errors=errors,
            seconds=factoring + reducing + seconds,
            n_iter=float(np.mean(steps)),
            is_converged=minimum.status is Status.CONVERGED,
        )
    return runs


def printed_newton(case: Case, joined: Joined, penalties: Pair) -> Run:
    """Newton as the paper has it, (E7): a system of all points at every step; no intercept."""
    own, gram = case.targets, joined.gram
    coef, steps = np.zeros((case.n_rows, own.shape[1])), np.zeros(own.shape[1])

    def train() -> None:
        norm, graph = penalties
        penalty = graph * joined.laplacian.product(gram.matrix)
        penalty[np.diag_indices(case.n_rows)] += norm
        for column, target in enumerate(own.T):
            active, before = np.ones(target.size, bool), np.zeros(target.size, bool)
            while (active != before).any() and steps[column] < NEWTON_STEPS:
                matrix, right = penalty.copy(), np.zeros(case.n_rows)
                nodes = case.nodes[active]
                matrix[nodes] += gram.matrix[nodes]
                right[nodes] = target[active]
                coef[:, column] = sl.solve(matrix, right, overwrite_a=True, check_finite=False)
                outputs = gram.matrix[case.nodes] @ coef[:, column]
                before, active = active, target * outputs < 1.0
                steps[column] += 1

    _, seconds = cpu_of(train)
    errors = case.errors(gram.values(coef), gram.expansion(coef, np.zeros(own.shape[1])))
    return Run(
        errors=errors,
        seconds=seconds,
        n_iter=float(steps.mean()),
        is_converged=bool((steps < NEWTON_STEPS).all()),
    )


def conjugate_gradients(
    case: Case, joined: Joined, penalties: Pair, bias: BiasName, max_iter: int
) -> dict[str, Run]:
    """LapSVM to the optimum and by every early stop."""
    problem = case.problem(joined, penalties, bias, "squared-hinge")
    runs = {}
    for rule in ("optimal", *EARLY):
        if rule == "optimal":
            minimum, seconds = cpu_of(descend, problem, max_iter=max_iter)
        else:
            minimum, seconds = cpu_of(_stopped, case, joined, problem, rule)
        functions = joined.gram.expansion(minimum.coef, minimum.intercept)
        values = joined.gram.values(minimum.coef) + minimum.intercept
        runs[f"PCG {rule}"] = _run(case.errors(values, functions), seconds, minimum)
    return runs


def trace(case: Case, joined: Joined, penalties: Pair, bias: BiasName, n_iter: int = CAP) -> Trace:
    """What each iteration of conjugate gradients leaves."""
    descent = _descent(case, case.problem(joined, penalties, bias, "squared-hinge"))
    state, is_unlabeled = descent.init(), _unlabeled(case)
    zero, every = _sizes(state), check_interval(case)
    errors, sizes, decided = [], [], [decisions(state.live.values + state.live.intercept)]
    while len(errors) < n_iter:
        if descent.terminate(state) is None:
            state = descent.step(state)
        values = state.live.values + state.live.intercept
        errors.append(case.errors_of(values, _held_values(joined, state)))
        sizes.append(_sizes(state) / zero)
        decided.append(decisions(values))
    changed = [
        np.mean((decided[number] != decided[number - every])[is_unlabeled])
        for number in range(every, n_iter + 1, every)
    ]
    return Trace(errors=np.array(errors), sizes=np.array(sizes), every=every, changed=changed)


def _sizes(state: DescentState) -> FloatArray:
    """The objective of all functions, and the norms of their gradient as `SIZES` names them."""
    live = state.live
    gradient, values = live.gradient, live.gradient_values
    intercept = np.square(live.gradient_intercept).sum()
    squared = np.array(
        [np.square(values).sum(), np.square(gradient).sum(), (gradient * values).sum()]
    )
    return np.append(live.objective.sum(), np.sqrt(np.maximum(squared + intercept, 0.0)))


def check_interval(case: Case) -> int:
    """Iterations between two checks of a rule."""
    return max(1, round(np.sqrt(case.n_rows) / 2))


def _stopped(case: Case, joined: Joined, problem: Problem, rule: StopName) -> Minimum:
    """Conjugate gradients until a rule holds, which sees points that are not trained on."""
    descent = _descent(case, problem)
    n_rows, n_held = case.n_rows, case.n_validation
    early = EarlyStop(
        rule=rule,
        unlabeled=np.concatenate([_unlabeled(case), np.zeros(n_held, bool)]),
        validation=Validation(
            nodes=np.arange(n_rows, n_rows + n_held), classes=case.held_classes[:n_held]
        ),
        every=check_interval(case),
    )
    state, status = descent.init(), Status.MAX_ITER
    early.is_met(0, np.zeros((n_rows + n_held, problem.n_functions)))
    while state.n_iter < CAP:
        state = descent.step(state)
        if descent.terminate(state) is not None:
            status = Status.CONVERGED
            break
        if state.n_iter % early.every == 0:
            values = state.live.values + state.live.intercept
            held = _held_values(joined, state, n_held)
            if early.is_met(state.n_iter, np.vstack([values, held])):
                status = Status.CONVERGED
                break
    return Minimum(
        coef=state.coef,
        intercept=state.intercept,
        status=status,
        n_iter=state.n_iter,
        stopped_by=rule,
    )


def _descent(case: Case, problem: Problem) -> ConjugateGradients:
    """The iteration with all functions to the end: a rule that never holds."""
    start = np.zeros((problem.space.n_coef, problem.n_functions)), np.zeros(problem.n_functions)
    never = EarlyStop(rule="stability", unlabeled=_unlabeled(case), share=0.0)
    return ConjugateGradients(
        problem, *start, measure="gradient", rtol=RTOL["gradient"], early=never
    )


def _held_values(joined: Joined, state: DescentState, n_held: int | None = None) -> FloatArray:
    near = joined.held_gram[:n_held]
    return np.asarray(near @ state.coef.astype(near.dtype) + state.intercept, np.float64)


def _unlabeled(case: Case) -> BoolArray:
    return np.arange(case.n_rows) >= case.nodes.size


def _run(errors: FloatArray, seconds: float, minimum: Minimum) -> Run:
    is_converged = minimum.status is Status.CONVERGED
    return Run(
        errors=errors, seconds=seconds, n_iter=float(minimum.n_iter), is_converged=is_converged
    )
