"""Laplacian SVM: a support vector machine with a graph penalty, in the primal or the dual."""

from dataclasses import dataclass
from typing import Literal

from peewit.solvers.gram.space_base import Space
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.models.machines.laplacian_machine import LaplacianMachine, MethodName
from peewit.solvers.svm.regularized_problem import LossName


@dataclass(frozen=True, slots=True, kw_only=True)
class LapSVM(LaplacianMachine):
    """Laplacian support vector machine, in the primal or in the dual (sections E.1 and E.2).

    Scores are decision values of one class against the rest: f minimizes the losses at the labeled
    nodes plus norm_penalty |f|^2 plus graph_penalty f' L^power f.

    Notes
    -----
    Newton's method factors one n_nodes x n_nodes matrix, or on landmarks and linear kernels one of
    their number, and then solves for every class on the labeled nodes alone. Conjugate gradients
    need one product with the Gram matrix per iteration for all classes together.

    References
    ----------
    Belkin, Niyogi and Sindhwani, JMLR 2006; Melacci and Belkin, JMLR 2011.
    """

    method: Literal["auto", "newton", "dual", "pcg"] = hyperparameter(
        "auto",
        Rule(
            doc="How it is solved; 'auto' is newton up to 5,000 nodes, on landmarks and on linear "
            "kernels, above conjugate gradients. dual is a quadratic program.",
            kind=str,
            words=("auto", "newton", "dual", "pcg"),
        ),
    )
    loss: Literal["auto", "squared-hinge", "hinge"] = hyperparameter(
        "auto",
        Rule(
            doc="Loss at the labels; 'auto' is the hinge for the dual, else its square. The "
            "hinge takes the dual only, and weighs penalties otherwise: they do not carry over.",
            kind=str,
            words=("auto", "squared-hinge", "hinge"),
        ),
    )

    def __post_init__(self) -> None:
        if self.loss == "hinge" and self.method not in {"auto", "dual"}:
            raise ValueError(f"loss 'hinge' must stand beside method='dual', got {self.method!r}")
        LaplacianMachine.__post_init__(self)

    def _method_or_auto(self) -> str:
        return "dual" if self.loss == "hinge" else LaplacianMachine._method_or_auto(self)

    def _way(self, space: Space) -> tuple[MethodName, LossName]:
        if self._method_or_auto() == "dual":
            return "dual", "hinge" if self.loss == "auto" else self.loss
        return "newton" if self._is_factored_in(space) else "pcg", "squared-hinge"
