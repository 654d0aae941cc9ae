"""Lap-RLS and Lap-SVM of the total variation paper: one fit for all classes, on the simplex."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.labels import class_scores, one_against_rest
from peewit.solvers.models.contract.point_model import PointProblem
from peewit.solvers.models.variational.variational_model import VariationalModel, mean_degree
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure
from peewit.solvers.variation.fidelity import HingeFidelity
from peewit.solvers.variation.hinge_fit import HingeFit
from peewit.solvers.variation.penalty_inverses import GraphInverse, PenaltyInverse
from peewit.solvers.variation.simplex_splitting import SimplexSplitting, on_simplex

_RIDGE: Final = 1e-4
"""Weight of |f|^2 that replaces the norm where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplexMachine(VariationalModel):
    """Labels, the graph's Dirichlet energy and, with features, the norm of functions.

    Minimizes loss(f) + norm_penalty / 2 |f|_K^2 + graph_penalty / 2 f' L f, L the combinatorial
    Laplacian in units of the mean degree: two classes by one function, more by one each with values
    on the simplex.
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
        3.0,
        Rule(doc="Weight of the terms that tie functions to the simplex, r.", above=0.0),
    )
    rtol: float = hyperparameter(
        1e-3,
        Rule(
            doc="Largest difference left of functions and simplex, and of a step from the last, "
            "times pull.",
            above=0.0,
            below=1.0,
        ),
    )
    max_iter: int = hyperparameter(
        1_000, Rule(doc="Most steps to the simplex.", kind=int, minimum=1)
    )

    def _solution(self, problem: PointProblem) -> Solution:
        problem.stats["n_iter"] = 1  # convex, and mostly solved at once: a start is not used
        if problem.labels.n_classes == 2:
            values, status = self._function(problem)
        else:
            values, status = self._distributions(problem)
        status = first_failure(status, self._points_status(problem.prepared, problem.watch))
        return problem.task.solution(class_scores(values), status, problem.stats)

    @abstractmethod
    def _function(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        """(n_nodes, 1) of two classes, > 0 at the second."""

    @abstractmethod
    def _distributions(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        """(n_nodes, n_classes) on the simplex, of more than two."""

    def _invert_penalty(
        self, problem: PointProblem, pull: float, *, tells_solves: bool = False
    ) -> PenaltyInverse:
        """The inverse of the penalty, in the kernel's space or on the graph."""
        prepared, watch = problem.prepared, problem.watch
        graph_penalty = self.graph_penalty / mean_degree(prepared)
        if self._has_norm(prepared):
            return self._inverse(
                problem,
                graph_penalty=graph_penalty,
                pull=pull,
                name="tied inverse" if pull else "inverse",
            )
        return GraphInverse(
            prepared.graph,
            graph_penalty=graph_penalty,
            pull=max(pull, _RIDGE),
            parallel=prepared.parallel,
            watch=watch if tells_solves else watch.silent(),
        )

    def _free(self, problem: PointProblem, targets: FloatArray) -> tuple[FloatArray, Status]:
        """The fit of squares, without the simplex (G2)."""
        inverse = self._invert_penalty(problem, 0.0, tells_solves=True)
        fit = inverse.with_squares(problem.labels.nodes, self.label_weight)
        return fit.apply(self._pull(problem, targets)), fit.status

    def _pull(self, problem: PointProblem, targets: FloatArray) -> FloatArray:
        """The linear term of the squares at the labels: eta J y."""
        return problem.task.on_nodes(self.label_weight * targets)

    def _to_simplex(
        self, splitting: SimplexSplitting, problem: PointProblem
    ) -> tuple[FloatArray, Status]:
        """The values where the splitting ends, and its status."""
        outcome = problem.watch.run(splitting, max_iter=self.max_iter, phase="simplex")
        problem.stats.update(n_iter=outcome.n_iter, residual=outcome.state.residual)
        return outcome.state.values, first_failure(outcome.status, splitting.inverse.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class LapRLS(SimplexMachine):
    """Lap-RLS as Bresson and Zhang (2012) compare with: squares, all classes on the simplex (G2).

    Of two classes the closed form of `peewit.solvers.models.machines.laprlsc.LapRLSC` with weights
    named as in that paper; without a norm it is soft HFS, whose scores are on the simplex by
    themselves.

    References
    ----------
    As `TVRLS` of total_variation_machines; Belkin, Niyogi and Sindhwani, JMLR 2006.
    """

    def _function(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        return self._free(problem, one_against_rest(problem.labels))

    def _distributions(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        labels = problem.labels
        base, targets = labels.class_prior(), labels.targets()
        free, status = self._free(problem, targets - base)
        first = on_simplex(base + free)
        if float(np.abs(base + free - first).max(initial=0.0)) <= self.rtol:
            return first, status
        tied = self._invert_penalty(problem, self.pull)
        splitting = SimplexSplitting(
            inverse=tied.with_squares(labels.nodes, self.label_weight),
            linear=self._pull(problem, targets - base),
            hinges=None,
            base=base,
            first=first,
            rtol=self.rtol,
        )
        values, ended = self._to_simplex(splitting, problem)
        return values, first_failure(status, ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimplexLapSVM(SimplexMachine):
    """Lap-SVM as Bresson and Zhang (2012) compare with: hinges, all classes on the simplex (G4).

    Of two classes a hinge with an intercept, the problem of
    `peewit.solvers.models.machines.lapsvm.LapSVM` with the hinge; of more the hinge is that of
    2 f - 1, as in `peewit.solvers.models.variational.total_variation_machines.TVSVM`.

    Notes
    -----
    The text prints (norm_penalty I + graph_penalty L K)^{-1} K in the dual, which is not
    symmetric; it is K (norm_penalty I + graph_penalty L K)^{-1}. Labels alone are variables of
    it, and the intercept is part of the prediction.

    References
    ----------
    As `LapRLS`.
    """

    def _function(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        labels, n_nodes = problem.labels, problem.prepared.graph.n_nodes
        inverse = self._invert_penalty(problem, 0.0)
        fit = HingeFit.of(
            inverse,
            labels.nodes,
            one_against_rest(labels),
            n_nodes,
            label_weight=self.label_weight,
            on_step=problem.watch.step_of("labels"),
        )
        values, intercepts, status = fit.nearest(np.zeros((n_nodes, 1)))
        return values + intercepts, first_failure(status, inverse.status)

    def _distributions(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        labels = problem.labels
        base, targets = labels.class_prior(), labels.targets()
        near, status = self._free(problem, targets - base)
        first = on_simplex(base + near)
        signs = one_against_rest(labels)
        forces = self.label_weight * (targets - first[labels.nodes])
        forces = signs * np.clip(signs * forces, 0.0, 2.0 * self.label_weight)
        splitting = SimplexSplitting(
            inverse=self._invert_penalty(problem, self.pull),
            linear=np.zeros_like(first),
            hinges=HingeFidelity(
                nodes=labels.nodes,
                targets=signs,
                label_weight=self.label_weight,
                of_distributions=True,
            ),
            base=base,
            first=first,
            rtol=self.rtol,
            forces=forces,
        )
        values, ended = self._to_simplex(splitting, problem)
        return values, first_failure(status, ended)
