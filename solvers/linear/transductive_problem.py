"""Transductive problem: labeled and unlabeled rows of linear machines, and their costs (F4).

One class against the rest is a task of one function. One of K is K tasks of the same rows, one for
each class, whose unlabeled rows each have the label 1 in one of them (F9).
"""

from collections.abc import Sequence
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

    def labeled_hinges(self, is_positive: BoolArray, weight: float) -> Hinges:
        """Costs where the unlabeled rows have labels, of this weight in all."""
        cost = weight / max(1, self.n_unlabeled)
        return self.hinges(np.where(is_positive, cost, 0.0), np.where(is_positive, 0.0, cost))

    def objective(self, point: LinearPoint, is_positive: BoolArray, weight: float) -> float:
        """(F4) under given labels of the unlabeled rows."""
        hinges = self.labeled_hinges(is_positive, weight)
        return self.problem.objective(hinges, point.weights, point.outputs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transduced:
    """Result of a search; ``objective`` is (F4)."""

    point: LinearPoint
    objective: float
    status: Status


def loss_gain(outputs: FloatArray, weight: float) -> FloatArray:
    """Loss of the label 1 less that of -1, g = weight ((1 - o)_+^2 - (1 + o)_+^2), (F6)."""
    return weight * (
        np.square(np.maximum(0.0, 1.0 - outputs)) - np.square(np.maximum(0.0, 1.0 + outputs))
    )


def class_gains(
    tasks: Sequence[Transduction], points: Sequence[LinearPoint], weight: float
) -> FloatArray:
    """(u, n_classes) loss of each unlabeled row in each class, but for a constant of the row.

    The function of the second of two classes gives 0 and g, K functions give g of each (F9).
    """
    own = [loss_gain(point.outputs[tasks[0].unlabeled], weight) for point in points]
    return np.column_stack(own if len(own) > 1 else [np.zeros_like(own[0]), *own])


def class_sizes(tasks: Sequence[Transduction]) -> Int64Array:
    """(n_classes,) number of unlabeled rows of each class."""
    own = [task.n_positive for task in tasks]
    return np.array(own if len(own) > 1 else [tasks[0].n_unlabeled - own[0], *own], np.int64)


def own_labels(tasks: Sequence[Transduction], classes: Int64Array) -> list[BoolArray]:
    """For each function whether its label is 1, for unlabeled rows of given classes."""
    first = 1 if len(tasks) == 1 else 0
    return [classes == first + place for place in range(len(tasks))]


def best_objectives(tasks: Sequence[Transduction], points: Sequence[LinearPoint]) -> list[float]:
    """J of each function: (F4) under the classes that suit the outputs best, of any sizes."""
    weight = tasks[0].unlabeled_weight
    labels = own_labels(tasks, class_gains(tasks, points, weight).argmin(axis=1))
    return [
        task.objective(point, own, weight)
        for task, point, own in zip(tasks, points, labels, strict=True)
    ]


def whole_sizes(shares: FloatArray, n_rows: int) -> Int64Array:
    """Shares of so many rows as whole numbers with the right sum, by largest remainders."""
    exact = shares * (n_rows / float(shares.sum()))
    sizes = np.floor(exact).astype(np.int64)
    rest = n_rows - int(sizes.sum())
    sizes[np.argsort(sizes - exact, kind="stable")[:rest]] += 1
    return sizes
