"""Transductive problem: labeled and unlabeled rows of a linear machine, and their costs (F4)."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.linear.finite_newton import Hinges, LinearPoint, LinearProblem, minimize
from peewit.solvers.status import Status

LOOSE_RTOL: Final = 1e-2
"""Residual of a training that others follow."""


@dataclass(slots=True, kw_only=True, eq=False)
class Figures:
    """Counts of a search."""

    n_trainings: int = 0  # weights found for given labels or beliefs
    n_newton: int = 0  # Newton steps in all trainings
    n_switches: int = 0  # pairs of labels that changed places


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transduction:
    """One class against the rest, where most rows have no label.

    Minimizes over w and the labels y' of the unlabeled rows, of which a share r is 1, norm_penalty
    / 2 |w|^2 + 1 / (2 l) sum_i c_i (1 - y_i o_i)_+^2 + unlabeled_weight / (2 u) sum_j (1 - y'_j
    o_j)_+^2 + graph term (F4).
    """

    problem: LinearProblem
    nodes: Int64Array  # (l,) labeled rows
    targets: FloatArray  # (l,) 1 or -1
    costs: FloatArray  # (l,) c_i / l
    positive_share: float  # r in (0, 1)
    unlabeled_weight: float  # lambda' >= 0
    figures: Figures = field(default_factory=Figures)
    unlabeled: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        unlabeled = np.ones(self.problem.rows.n_rows, bool)
        unlabeled[self.nodes] = False
        object.__setattr__(self, "unlabeled", unlabeled)

    @property
    def n_unlabeled(self) -> int:
        """The number u of unlabeled rows."""
        return int(self.problem.rows.n_rows - self.nodes.size)

    @property
    def n_positive(self) -> int:
        """Number of unlabeled rows with the label 1: r u, rounded."""
        return round(self.positive_share * self.n_unlabeled)

    def hinges(self, positive: FloatArray | float, negative: FloatArray | float) -> Hinges:
        """Costs of all rows, given those of the unlabeled ones, (u,) or one for all."""
        n_rows = self.problem.rows.n_rows
        both = Hinges(positive=np.zeros(n_rows), negative=np.zeros(n_rows))
        is_positive = self.targets > 0
        both.positive[self.nodes] = np.where(is_positive, self.costs, 0.0)
        both.negative[self.nodes] = np.where(is_positive, 0.0, self.costs)
        both.positive[self.unlabeled] = positive
        both.negative[self.unlabeled] = negative
        return both

    def trained(self, hinges: Hinges, start: LinearPoint, rtol: float) -> LinearPoint:
        """The machine that minimizes the given costs."""
        point = minimize(self.problem, hinges, start, rtol=rtol)
        self.figures.n_trainings += 1
        self.figures.n_newton += point.n_newton
        return point

    def best_objective(self, point: LinearPoint) -> float:
        """J: (F4) under the labels that suit the outputs best, whatever their share."""
        outputs = point.outputs[self.unlabeled]
        slack = np.maximum(0.0, 1.0 - np.abs(outputs))
        cost = self.unlabeled_weight / max(1, self.n_unlabeled)
        own = self.problem.objective(self.hinges(0.0, 0.0), point.weights, point.outputs)
        return own + 0.5 * cost * float(slack @ slack)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transduced:
    """Result of a search; ``objective`` is (F4)."""

    point: LinearPoint
    objective: float
    status: Status
