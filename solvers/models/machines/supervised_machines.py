"""SVM and regularized least squares without a graph: the baselines of the Laplacian ones."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from peewit.solvers.gram.memory_plan import GramPlan
from peewit.solvers.gram.space_base import Space
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.labels import Labels, one_against_rest
from peewit.solvers.models.contract.point_model import PointProblem
from peewit.solvers.models.machines.kernel_machine import KernelMachine
from peewit.solvers.svm.dual import maximize
from peewit.solvers.svm.labeled_system import LabeledSystem, NoGraphPenalty
from peewit.solvers.svm.newton import minimize
from peewit.solvers.svm.regularized_problem import BiasName, LossName, Minimum


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedMachine(KernelMachine):
    """A kernel machine of the labeled nodes alone; the others are only predicted.

    By default only the columns of the Gram matrix at the labels are made.
    """

    def plan(
        self, n_rows: int, n_columns: int, budget_bytes: int, *, row_bytes: int | None = None
    ) -> GramPlan:
        """As `KernelMachine.plan`; 'auto' makes columns of the Gram matrix when they are needed."""
        if self.gram == "auto" and self.kernel != "linear":
            precision = "float64" if self.precision == "auto" else self.precision
            columns = replace(self, gram="blocked", precision=precision)
            return columns.plan(n_rows, n_columns, budget_bytes, row_bytes=row_bytes)
        return KernelMachine.plan(self, n_rows, n_columns, budget_bytes, row_bytes=row_bytes)

    def _system(self, space: Space, labels: Labels) -> LabeledSystem:
        inverse = NoGraphPenalty(space=space, norm_penalty=self._norm)
        # without a graph penalty to be inside of, a penalized intercept is a free one
        bias: BiasName = "none" if self.bias == "none" else "free"
        return LabeledSystem.of(inverse, labels.nodes, np.zeros((space.n_rows, 1)), bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class SVM(SupervisedMachine):
    """Support vector machine of the labeled nodes (section E.3).

    `LapSVM` with a graph penalty of 0: Newton's method on the squared hinge, or the dual.
    """

    method: Literal["auto", "newton", "dual"] = hyperparameter(
        "auto",
        Rule(
            doc="How it is solved: in the primal, or by a quadratic program; 'auto' is the primal "
            "unless the loss is the hinge.",
            kind=str,
            words=("auto", "newton", "dual"),
        ),
    )
    loss: Literal["auto", "squared-hinge", "hinge"] = hyperparameter(
        "auto",
        Rule(
            doc="Loss at the labels; 'auto' is the hinge for the dual, else its square.",
            kind=str,
            words=("auto", "squared-hinge", "hinge"),
        ),
    )

    def __post_init__(self) -> None:
        SupervisedMachine.__post_init__(self)
        if self.loss == "hinge" and self.method == "newton":
            raise ValueError(f"loss 'hinge' must stand beside method='dual', got {self.method!r}")

    def _minimum(self, problem: PointProblem, space: Space) -> Minimum:
        labels, watch = problem.labels, problem.watch
        system, targets = self._system(space, labels), one_against_rest(labels)
        if self.method == "dual" or self.loss == "hinge":
            loss: LossName = "hinge" if self.loss == "auto" else self.loss
            minimum = maximize(system, targets, loss=loss, on_step=watch.step_of("dual"))
        else:
            minimum = minimize(system, targets, is_hinge=True, on_step=watch.step_of("newton"))
        return minimum.lifted(system)


@dataclass(frozen=True, slots=True, kw_only=True)
class RLSC(SupervisedMachine):
    """Regularized least squares classifier of the labeled nodes, one linear system (E12)."""

    def _minimum(self, problem: PointProblem, space: Space) -> Minimum:
        system, targets = self._system(space, problem.labels), one_against_rest(problem.labels)
        on_step = problem.watch.step_of("newton")
        return minimize(system, targets, is_hinge=False, on_step=on_step).lifted(system)
