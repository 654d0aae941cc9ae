"""Lap-RLS and Lap-SVM of the total variation paper: one fit for all classes, on the simplex."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np

from solvers.arrays import FloatArray
from solvers.iterate import Watch, iterate
from solvers.labels import Labels, class_scores, one_against_rest
from solvers.laplacian.solver import LaplacianSolver
from solvers.models.base import Rule, hyperparameter
from solvers.models.centring import CentredLabels
from solvers.models.point_model import Points, Stats
from solvers.models.variational import VariationalModel, mean_degree, targets_of
from solvers.solution import Solution, Status, first_failure
from solvers.variation.label_fit import GraphInverse, LabelFit, PenaltyInverse
from solvers.variation.simplex_splitting import SimplexSplitting

_RIDGE: Final = 1e-4
"""Weight of |f|^2 that takes the place of the norm where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplexMachine(VariationalModel):
    """Labels, the graph's Dirichlet energy and, with features, the norm of functions.

    Minimises loss(f) + norm_penalty / 2 |f|_K^2 + graph_penalty / 2 f' L f, L the combinatorial
    Laplacian in units of the mean degree: of two classes by one function, of more by one each with
    values on the simplex.
    """

    graph_penalty: float = hyperparameter(
        0.1,
        Rule(
            doc="Weight of f' L f of the functions f, gamma, in units of the mean degree.",
            above=0.0,
        ),
    )
    label_weight: float = hyperparameter(
        1.0, Rule(doc="Weight of the loss at each label, eta or mu.", above=0.0)
    )
    pull: float = hyperparameter(
        10.0,
        Rule(doc="Weight of the terms that tie functions to the simplex, r.", above=0.0),
    )
    rtol: float = hyperparameter(
        1e-3,
        Rule(doc="Largest difference of functions and simplex left.", above=0.0, below=1.0),
    )
    max_iter: int = hyperparameter(500, Rule(doc="Most steps to the simplex.", kind=int, minimum=1))

    def _solution(
        self,
        prepared: Points,
        task: CentredLabels,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - convex, and mostly solved at once
        watch: Watch,
        stats: Stats,
    ) -> Solution:
        n_nodes = prepared.graph.n_nodes
        zero = np.zeros((n_nodes, targets_of(labels).shape[1]))
        base = np.zeros(1) if labels.n_classes == 2 else labels.class_prior()
        inverse = free = self._penalized(prepared, 0.0, watch, stats)
        fit = self._label_fit(inverse, labels, base, n_nodes, watch)
        values, intercepts, status = fit.nearest(zero)
        stats["n_iter"] = 1
        if labels.n_classes > 2:
            inverse = self._penalized(prepared, self.pull, watch, stats)
            outcome = iterate(
                SimplexSplitting(
                    fit=self._label_fit(inverse, labels, base, n_nodes, watch),
                    base=base,
                    first=values + base,
                    rtol=self.rtol,
                ),
                max_iter=self.max_iter,
                phase="simplex",
                progress=watch.progress,
                cancelled=watch.cancelled,
            )
            state = outcome.state
            values = state.values
            status = first_failure(status, _solves(free), outcome.status, state.status)
            stats["n_iter"], stats["residual"] = max(1, outcome.n_iter), state.residual
        status = first_failure(status, _solves(inverse), self._points_status(prepared, watch))
        return task.solution(class_scores(values + intercepts), status, stats)

    def _penalized(
        self, prepared: Points, pull: float, watch: Watch, stats: Stats
    ) -> PenaltyInverse:
        """The penalty inverted, in the kernel's space or on the graph."""
        graph_penalty = self.graph_penalty / mean_degree(prepared)
        if self._has_norm(prepared):
            return self._inverse(
                prepared,
                watch,
                stats,
                graph_penalty=graph_penalty,
                pull=pull,
                name="tied inverse" if pull else "inverse",
            )
        pull = max(pull, _RIDGE)
        solver = LaplacianSolver(
            prepared.graph,
            scale=graph_penalty,
            shift=np.full(prepared.graph.n_nodes, pull),
            parallel=prepared.parallel,
        )
        return GraphInverse(solver, pull)

    @abstractmethod
    def _label_fit(
        self,
        inverse: PenaltyInverse,
        labels: Labels,
        base: FloatArray,
        n_nodes: int,
        watch: Watch,
    ) -> LabelFit:
        """The loss of base + f at the labels, under a penalty of f."""


def _solves(inverse: PenaltyInverse) -> Status:
    """How the linear solves ended; those of a space are direct."""
    return inverse.status if isinstance(inverse, GraphInverse) else Status.CONVERGED


@dataclass(frozen=True, slots=True, kw_only=True)
class LapRLS(SimplexMachine):
    """Lap-RLS as Bresson and Zhang (2012) compare with: squares, all classes on the simplex (G2).

    Of two classes the closed form of `solvers.models.lapsvm.LapRLSC` with weights named as in that
    paper; without a norm it is soft HFS, on any number of classes.

    References
    ----------
    As `solvers.models.total_variation.TVRLS`; Belkin, Niyogi and Sindhwani, JMLR 2006.
    """

    def _label_fit(
        self,
        inverse: PenaltyInverse,
        labels: Labels,
        base: FloatArray,
        n_nodes: int,
        watch: Watch,
    ) -> LabelFit:
        return LabelFit.of(
            inverse,
            labels.nodes,
            targets_of(labels) - base,
            n_nodes,
            loss="squared",
            label_weight=self.label_weight,
            teller=watch.teller("labels"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplexLapSVM(SimplexMachine):
    """Lap-SVM as Bresson and Zhang (2012) compare with: hinges, all classes on the simplex (G4).

    Of two classes a hinge with an intercept, the problem of `solvers.models.lapsvm.LapSVM` with
    the hinge; of more the hinge is that of 2 f - 1, as in `solvers.models.total_variation.TVSVM`.

    Notes
    -----
    The text prints (norm_penalty I + graph_penalty L K)^{-1} K in the dual, which is not
    symmetric; it is K (norm_penalty I + graph_penalty L K)^{-1}. Labels alone are variables of
    it, and the intercept is part of the prediction.

    References
    ----------
    As `LapRLS`.
    """

    def _label_fit(
        self,
        inverse: PenaltyInverse,
        labels: Labels,
        base: FloatArray,
        n_nodes: int,
        watch: Watch,
    ) -> LabelFit:
        is_single = labels.n_classes == 2
        return LabelFit.of(
            inverse,
            labels.nodes,
            one_against_rest(labels),
            n_nodes,
            loss="hinge",
            label_weight=self.label_weight,
            offset=None if is_single else base - 0.5,
            margin=1.0 if is_single else 0.5,
            teller=watch.teller("labels"),
        )
