"""Cheeger-RLS and Cheeger-SVM: partitions of least cut over balance that keep the labels."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.space_base import Expansion
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.point_model import PointProblem, Points
from peewit.solvers.models.variational.started_model import SINGLE_EPS, StartedModel, held_classes
from peewit.solvers.models.variational.variational_model import mean_degree
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure
from peewit.solvers.variation.cheeger_partition import PartitionDescent
from peewit.solvers.variation.hinge_fit import HingeFit
from peewit.solvers.variation.penalty_inverses import Smoothing, SpaceInverse
from peewit.solvers.variation.proximal_step import TotalVariation

_HISTORY: Final = 40
"""Energies that the stats show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheegerModel(StartedModel):
    """Partitions of small Cheeger energy, smoothed by functions of the features on the way.

    The energy is sum_k TV(1_k) / min(a w(A_k), w(not A_k)), a = n_classes - 1 (G9'), (G12).
    """

    auto_norm_penalty: ClassVar[float] = 0.01

    balance: Literal["degrees", "nodes"] = hyperparameter(
        "degrees",
        Rule(
            doc="What the balance of a cut counts: degrees, to which a node on the fringe is "
            "little, or nodes, as published.",
            kind=str,
            words=("degrees", "nodes"),
        ),
    )
    max_iter: int = hyperparameter(100, Rule(doc="Most steps.", kind=int, minimum=1))

    def _solved_from(self, problem: PointProblem, shares: FloatArray, before: Status) -> Solution:
        prepared, labels = problem.prepared, problem.labels
        watch, stats = problem.watch, problem.stats
        graph, reachable = prepared.graph, problem.task.reachable
        first = shares.argmax(axis=1)
        first[labels.nodes] = labels.classes
        weight = np.ones(graph.n_nodes)
        if self.balance == "degrees":
            weight = graph.degree / mean_degree(prepared)
            weight[weight == 0] = weight.min(initial=1.0, where=weight > 0)  # labels without edges
        weight[~reachable] = 0.0
        weight /= weight[reachable].mean()
        smoothing = self._smoothing(problem)
        descent = PartitionDescent(
            variation=TotalVariation(graph, unit=mean_degree(prepared), parallel=prepared.parallel),
            first=first,
            n_classes=labels.n_classes,
            fixed=held_classes(labels, graph.n_nodes),
            weight=weight,
            smoothing=smoothing,
            watch=watch.silent(),
        )
        outcome = watch.run(descent, max_iter=self.max_iter, phase="cheeger")
        state = outcome.state
        stats["n_iter"], stats["n_proximal"] = outcome.n_iter, state.n_proximal
        stats["energy"] = state.energy
        stats["energies"] = " ".join(f"{energy:.6g}" for energy in state.history[-_HISTORY:])
        functions = None
        if smoothing is not None:  # as the next step would make them; shares of a class sum to 1
            base = np.full(labels.n_classes, 1.0 / labels.n_classes)
            functions = smoothing.nearest_functions(state.values - base, base)
        fitted = Status.CONVERGED if smoothing is None else smoothing.status
        drift = self._drifting(problem, SINGLE_EPS)
        status = first_failure(outcome.status, before, fitted, drift)
        solution = problem.task.solution(state.values, status, stats)
        solution = replace(solution, functions=functions, warnings=self._warnings(prepared))
        return self._warn(solution, labels)

    def _warnings(self, prepared: Points) -> tuple[str, ...]:  # noqa: ARG002
        """Warnings about settings that had no effect."""
        return ()

    def _smoothing(self, problem: PointProblem) -> Smoothing | None:
        """The fit that a step's target goes through; None if functions have no norm."""
        if not self._has_norm(problem.prepared):
            return None
        return self._make_fit(self._inverse(problem, graph_penalty=0.0, pull=1.0), problem.labels)

    @abstractmethod
    def _make_fit(self, inverse: SpaceInverse, labels: Labels) -> Smoothing:
        """The fit to a target, by functions of the space."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheegerRLS(CheegerModel):
    """Cheeger-RLS of Bresson and Zhang (2012): Cheeger cuts that keep labels (sections G.4, G.7).

    The partition that cuts little weight between sides of much, through all labels. Each step
    pushes every class along the subgradient of its balance, fits the functions of the features, if
    any, to that, takes the proximal step of total variation on the simplex with the labels held,
    and ends in the partition of the largest values; it counts if the energy falls.

    Scores are the values before the last partition: in [0, 1] with sum 1, most of them 0 or 1.

    Notes
    -----
    Three things differ from the text. Classes count by the asymmetric balance of (G12): the printed
    symmetric median asks of each of many classes to hold half of the nodes. At the median the
    subgradient is balanced, where sign(f) says 0. And every step ends in a partition, since the
    relaxed energy of more than two classes is far below that of any partition
    (`peewit.solvers.variation.cheeger_partition`). A given start is not used, as in
    `peewit.solvers.models.variational.total_variation_machines.TVRLS`.

    References
    ----------
    As `peewit.solvers.models.variational.total_variation_machines.TVRLS`; Bresson, Laurent, Uminsky
    and von Brecht, Convergence and energy landscape for Cheeger cut clustering, 2012.
    """

    def _make_fit(self, inverse: SpaceInverse, labels: Labels) -> Smoothing:  # noqa: ARG002
        return inverse


@dataclass(frozen=True, slots=True, kw_only=True)
class CheegerSVM(CheegerModel):
    """Cheeger-SVM of Bresson and Zhang (2012): `CheegerRLS` with hinges in its fits (section G.6).

    Only functions of features know the hinge: without them, or with a norm_penalty of 0, the
    labels are held and nothing differs from `CheegerRLS`.

    References
    ----------
    As `CheegerRLS`.
    """

    label_weight: float = hyperparameter(
        1.0, Rule(doc="Weight of the hinge at each label, mu.", above=0.0)
    )

    def _make_fit(self, inverse: SpaceInverse, labels: Labels) -> Smoothing:
        fit = HingeFit.of(
            inverse,
            labels.nodes,
            2.0 * labels.targets() - 1.0,
            inverse.space.n_rows,
            label_weight=self.label_weight,
            margin=0.5,
        )
        return _HingeSmoothing(fit, inverse)

    def _warnings(self, prepared: Points) -> tuple[str, ...]:
        is_set = self.label_weight != CheegerSVM().label_weight
        if not is_set or self._has_norm(prepared):
            return ()
        text = (
            f"label_weight={self.label_weight} is not used: it weighs hinges of functions of the "
            "features, and there are none here; labels are held instead"
        )
        return (text,)


class _HingeSmoothing:
    """e = K alpha of (G11), and how the programs ended."""

    def __init__(self, fit: HingeFit, inverse: SpaceInverse) -> None:
        self._fit, self._inverse = fit, inverse
        self.status = Status.CONVERGED

    def nearest(self, values: FloatArray) -> FloatArray:
        """Functions of the space, near to the values and to the labels' margins."""
        return self._inverse.apply(self._residual(values))

    def nearest_functions(self, values: FloatArray, intercept: FloatArray) -> Expansion:
        """`nearest` plus the intercepts, for any x."""
        return self._inverse.functions(self._residual(values), intercept)

    def _residual(self, values: FloatArray) -> FloatArray:
        residual, _, status = self._fit.residual(values)
        self.status = first_failure(self.status, status)
        return residual
