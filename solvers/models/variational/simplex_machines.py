"""Lap-RLS and Lap-SVM of the total variation paper: one fit for all classes, on the simplex."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.space_base import Expansion
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
        3.0, Rule(doc="Weight of the terms that tie functions to the simplex, r.", above=0.0)
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
        is_binary = problem.labels.n_classes == 2
        fit = self._function(problem) if is_binary else self._distributions(problem)
        status = first_failure(fit.status, self._points_status(problem.prepared, problem.watch))
        solution = problem.task.solution(class_scores(fit.values), status, problem.stats)
        return replace(solution, functions=fit.functions)

    @abstractmethod
    def _function(self, problem: PointProblem) -> "_Fit":
        """The function of two classes, > 0 at the second."""

    @abstractmethod
    def _distributions(self, problem: PointProblem) -> "_Fit":
        """One function for each of more than two classes, on the simplex."""

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

    def _free(
        self, problem: PointProblem, targets: FloatArray, base: FloatArray | float = 0.0
    ) -> "_Fit":
        """``base`` plus the fit of squares to ``targets`` - ``base``, without the simplex (G2)."""
        inverse = self._invert_penalty(problem, 0.0, tells_solves=True)
        fit = inverse.with_squares(problem.labels.nodes, self.label_weight)
        residual = self._pull(problem, targets - base)
        return _Fit(
            values=base + fit.apply(residual),
            status=fit.status,
            functions=fit.functions(residual, np.zeros(targets.shape[1]) + base),
        )

    def _pull(self, problem: PointProblem, targets: FloatArray) -> FloatArray:
        """The linear term of the squares at the labels: eta J y."""
        return problem.task.on_nodes(self.label_weight * targets)

    def _to_simplex(
        self, splitting: SimplexSplitting, problem: PointProblem, before: Status
    ) -> "_Fit":
        """Where the splitting ends; ``before`` is the status of what it started from."""
        outcome = problem.watch.run(splitting, max_iter=self.max_iter, phase="simplex")
        problem.stats.update(n_iter=outcome.n_iter, residual=outcome.state.residual)
        return _Fit(
            values=outcome.state.values,
            status=first_failure(before, outcome.status, splitting.inverse.status),
            functions=splitting.functions(outcome.state),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fit:
    """Values of the functions at the nodes, and the functions themselves unless of a graph alone.

    Both are equal up to rounding or, where values are brought to the simplex, up to ``rtol``.
    """

    values: FloatArray  # (n_nodes, n_columns)
    status: Status
    functions: Expansion | None


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

    def _function(self, problem: PointProblem) -> _Fit:
        return self._free(problem, one_against_rest(problem.labels))

    def _distributions(self, problem: PointProblem) -> _Fit:
        labels = problem.labels
        base, targets = labels.class_prior(), labels.targets()
        free = self._free(problem, targets, base)
        first = on_simplex(free.values)
        if float(np.abs(free.values - first).max(initial=0.0)) <= self.rtol:
            return replace(free, values=first)
        tied = self._invert_penalty(problem, self.pull)
        splitting = SimplexSplitting(
            inverse=tied.with_squares(labels.nodes, self.label_weight),
            linear=self._pull(problem, targets - base),
            hinges=None,
            base=base,
            first=first,
            rtol=self.rtol,
        )
        return self._to_simplex(splitting, problem, free.status)


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

    def _function(self, problem: PointProblem) -> _Fit:
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
        residual, intercepts, status = fit.residual(np.zeros((n_nodes, 1)))
        return _Fit(
            values=inverse.apply(residual) + intercepts,
            status=first_failure(status, inverse.status),
            functions=inverse.functions(residual, intercepts),
        )

    def _distributions(self, problem: PointProblem) -> _Fit:
        labels = problem.labels
        base, targets = labels.class_prior(), labels.targets()
        near = self._free(problem, targets, base)
        first = on_simplex(near.values)
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
        return self._to_simplex(splitting, problem, near.status)
