"""Laplacian regularized least squares: a kernel machine with a graph penalty, by one system."""

from dataclasses import dataclass
from typing import Literal

from peewit.solvers.gram.space_base import Space
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.models.machines.laplacian_machine import LaplacianMachine, MethodName
from peewit.solvers.svm.regularized_problem import LossName


@dataclass(frozen=True, slots=True, kw_only=True)
class LapRLSC(LaplacianMachine):
    """Laplacian regularized least squares as a classifier (E12).

    As `LapSVM` with the squared loss (y - f)^2 at every label: one linear system.

    References
    ----------
    Belkin, Niyogi and Sindhwani, JMLR 2006.
    """

    method: Literal["auto", "closed-form", "pcg"] = hyperparameter(
        "auto",
        Rule(
            doc="How it is solved; 'auto' is the closed form up to 5,000 nodes, on landmarks and "
            "on linear kernels, above conjugate gradients.",
            kind=str,
            words=("auto", "closed-form", "pcg"),
        ),
    )

    def _way(self, space: Space) -> tuple[MethodName, LossName]:
        return "newton" if self._is_factored_in(space) else "pcg", "squared"
