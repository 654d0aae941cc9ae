"""TV-RLS and TV-SVM: labels spread by total variation, which draws sharp borders."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.labels import Labels, class_scores, one_against_rest
from peewit.solvers.models.contract.point_model import PointProblem
from peewit.solvers.models.variational.started_model import (
    SINGLE_EPS,
    InitialName,
    StartedModel,
    contested,
)
from peewit.solvers.models.variational.variational_model import mean_degree, targets_of
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure
from peewit.solvers.variation.fidelity import Fidelity, HingeFidelity, SquaredFidelity
from peewit.solvers.variation.proximal_step import SINGLE_RTOL, TotalVariation
from peewit.solvers.variation.splitting import NORMALIZATIONS, Normalization, VariationSplitting

_AUTO_PENALTIES: Final = (2.0, 0.4)
"""Graph penalties of two classes, and of more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalVariationModel(StartedModel):
    """Labels, total variation and, with features, the norm of functions in a kernel's space.

    Minimizes loss(f) + norm_penalty / 2 |f|_K^2 + graph_penalty TV(f) by alternating directions
    (G5), two classes by one function, more by one each with values on the simplex (G7).
    """

    start_with_labels: ClassVar[InitialName] = "contrasts"

    graph_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Weight of the total variation, gamma, in units of the mean degree; 'auto' is 2 "
            "for two classes, 0.4 for more.",
            minimum=0.0,
            words=("auto",),
        ),
    )
    label_weight: float = hyperparameter(
        10.0, Rule(doc="Weight of the loss at each label, eta or mu.", above=0.0)
    )
    normalization: Normalization = hyperparameter(
        "sqrt",
        Rule(
            doc=(
                "Whether functions are rescaled in every step. To root mean square 1: a "
                "ratio of cut and balance. As printed: to norm n. Not: the convex problem, "
                "whose borders need many labels."
            ),
            kind=str,
            words=NORMALIZATIONS,
        ),
    )
    pull: float = hyperparameter(
        1.0, Rule(doc="Weight of the terms that tie the splitting together, r1 = r2.", above=0.0)
    )
    rtol: float = hyperparameter(
        1e-4,
        Rule(
            doc=(
                "Share of the nodes that may still change class in the last five steps. "
                "Without normalization: the largest difference between the copies, which "
                "are to be equal."
            ),
            above=0.0,
            below=1.0,
        ),
    )
    proximal_rtol: float = hyperparameter(
        1e-2, Rule(doc="Relative duality gap of the proximal steps of TV.", above=0.0, below=1.0)
    )
    max_iter: int = hyperparameter(200, Rule(doc="Most steps.", kind=int, minimum=1))

    def _solved_from(self, problem: PointProblem, shares: FloatArray, before: Status) -> Solution:
        prepared, labels = problem.prepared, problem.labels
        watch, stats = problem.watch, problem.stats
        first = shares[:, 1:] - shares[:, :1] if labels.n_classes == 2 else shares
        smoothing = None
        if self._has_norm(prepared):
            smoothing = self._inverse(problem, graph_penalty=0.0, pull=self.pull)
        splitting = VariationSplitting(
            variation=TotalVariation(
                prepared.graph, unit=mean_degree(prepared), parallel=prepared.parallel
            ),
            fidelity=self._fidelity(labels),
            smoothing=smoothing,
            first=np.ascontiguousarray(first),
            contested=contested(labels, prepared.graph) & problem.task.reachable,
            penalty=self._penalty(labels),
            pull=self.pull,
            normalization=self.normalization,
            rtol=self.rtol,
            proximal_rtol=self.proximal_rtol,
            watch=watch.silent(),
        )
        outcome = watch.run(splitting, max_iter=self.max_iter, phase="total variation")
        state = outcome.state
        stats["n_iter"], stats["n_proximal"] = outcome.n_iter, state.n_proximal
        stats["n_moved"], stats["residual"] = state.n_moved, state.residual
        scores = class_scores(state.values + state.intercepts)
        seen = self.rtol if self.normalization == "none" else SINGLE_EPS
        penalty = self._penalty(labels)
        drift = self._drifting(problem, seen * self.pull / penalty) if penalty else Status.CONVERGED
        status = first_failure(outcome.status, before, drift)
        solution = problem.task.solution(scores, status, stats)
        solution = replace(solution, functions=splitting.functions(state))
        return self._warn(solution, labels)

    @property
    def _is_convex(self) -> bool:
        return self.normalization == "none"

    def entry_bytes(self, n_classes: int) -> int:
        """As `StartedModel.entry_bytes`; in float64 if the accuracy needs it."""
        single = StartedModel.entry_bytes(self, n_classes)
        return single if self.proximal_rtol >= SINGLE_RTOL else 2 * single

    def _penalty(self, labels: Labels) -> float:
        if self.graph_penalty != "auto":
            return self.graph_penalty
        return _AUTO_PENALTIES[labels.n_classes > 2]

    @abstractmethod
    def _fidelity(self, labels: Labels) -> Fidelity:
        """The loss at the labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TVRLS(TotalVariationModel):
    """TV-RLS of Bresson and Zhang (2012): squared loss and total variation (sections G.2 and G.7).

    Borders between classes run where the graph is thinnest, and are as sharp as labels are few. It
    acts like a minimizer of cut over balance: where the classes are clusters of the graph, one
    label for each suffices; where they are not, it does not help.

    Notes
    -----
    As printed, normalization makes entries sqrt(n) times the size of labels, and drops out of the
    simplex of several classes; here it is to root mean square 1, after the joint proximal step of
    total variation and simplex. A step takes one proximal step for all classes together, from the
    duals of the step before. Not convex: it starts from clusters or from a partition by the labels,
    and so a given start is not used. From the values of a harmonic function, which are nearly flat
    where classes mix fast, it would end in one class.

    References
    ----------
    Bresson and Zhang, TV-SVM: Total variation based support vector machine for semi-supervised data
    classification, arXiv:1210.0699, 2012.
    """

    def _fidelity(self, labels: Labels) -> Fidelity:
        return SquaredFidelity(
            nodes=labels.nodes, targets=targets_of(labels), label_weight=self.label_weight
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TVSVM(TotalVariationModel):
    """TV-SVM of Bresson and Zhang (2012): hinge loss and total variation (sections G.5 and G.7).

    As `TVRLS` with max(0, 1 - y (f + b)) at every label, whose step is in closed form (G10).

    Notes
    -----
    The text descends the gradient of the step's dual, and forgets b in the prediction. Of more
    than two classes the hinge is that of 2 f - 1, since f on the simplex cannot meet a margin of 1
    around 0, and has no b.

    References
    ----------
    As `TVRLS`.
    """

    def _fidelity(self, labels: Labels) -> Fidelity:
        return HingeFidelity(
            nodes=labels.nodes,
            targets=one_against_rest(labels),
            label_weight=self.label_weight,
            of_distributions=labels.n_classes > 2,
        )
