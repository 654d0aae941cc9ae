"""Base of the kernel machines: one function against the rest for each class.

Points are the features, or the spectral embedding of the graph where there are none.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.feature_spaces import FeatureMap
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.space_base import Expansion, Space
from peewit.solvers.gram.sparse_spaces import LocalExpansion, LocalMap
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.labels import class_scores
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.kernel_space_model import (
    FACTORED_COLUMNS,
    FACTORED_ROWS,
    KernelSpaceModel,
)
from peewit.solvers.models.contract.point_model import PointProblem
from peewit.solvers.solution import Solution
from peewit.solvers.status import first_failure
from peewit.solvers.svm.regularized_problem import BIASES, BiasName, Minimum

DEFAULT_NORM: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMachine(KernelSpaceModel, InductiveModel):
    """A model whose class scores are functions in the space of a kernel, one for each class.

    Two classes have one function; the scores are it and its negative.
    """

    norm_penalty: float | Literal["auto"] = hyperparameter(
        DEFAULT_NORM, Rule(doc="Weight of the squared norm of the functions, gamma_A.", above=0.0)
    )
    bias: Literal["none", "free", "penalized"] = hyperparameter(
        "none",
        Rule(
            doc="Intercept: none, one that costs nothing, or one inside the graph penalty; "
            "without that penalty the last two are the same.",
            kind=str,
            words=BIASES,
        ),
    )

    @property
    def _norm(self) -> float:
        """The norm's penalty; for 'auto' the first one to try."""
        return DEFAULT_NORM if self.norm_penalty == "auto" else self.norm_penalty

    def _solution(self, problem: PointProblem) -> Solution:
        prepared, watch, stats = problem.prepared, problem.watch, problem.stats
        points = self._points(prepared, watch)
        space = self._space(prepared, points.rows, watch, stats)
        minimum = self._minimum(problem, space)
        values = space.values(minimum.coef) + minimum.intercept
        stats["n_iter"], stats["stopped_by"] = minimum.n_iter, minimum.stopped_by
        status = first_failure(minimum.status, points.status)
        solution = problem.task.solution(class_scores(values), status, stats)
        return replace(solution, functions=space.expansion(minimum.coef, minimum.intercept))

    @abstractmethod
    def _minimum(self, problem: PointProblem, space: Space) -> Minimum:
        """The functions."""


def is_factored(space: Space) -> bool:
    """Whether a space is small enough for Newton's method by default."""
    if isinstance(space, FeatureMap):
        return space.n_coef <= FACTORED_COLUMNS
    return isinstance(space, DenseGram) and space.n_rows <= FACTORED_ROWS


def started(
    space: Space, start: Solution | None, n_functions: int, bias: BiasName
) -> tuple[FloatArray, FloatArray] | None:
    """Coefficients and intercepts of an earlier solution in ``space``; None if it does not fit.

    It fits if the space begins with the rows that its functions are written in, or if explicit
    features represent them.
    """
    functions = None if start is None else start.functions
    if not isinstance(functions, Expansion) or functions.coef.shape[1] != n_functions:
        return None
    if isinstance(functions, LocalExpansion) and not isinstance(space, LocalMap):
        return None
    if isinstance(space, FeatureMap):
        known = space.coefficients(functions)
        if known is None:
            return None
        coef = known
    else:
        coef = np.zeros((space.n_coef, n_functions))
        if not space.expansion(coef, functions.intercept).begins_with(functions):
            return None
        coef[: functions.basis.n_rows] = functions.coef
    intercept = functions.intercept.copy()
    return coef, np.zeros_like(intercept) if bias == "none" else intercept
