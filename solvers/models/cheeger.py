"""Cheeger-RLS and Cheeger-SVM: partitions of least cut over balance that keep the labels."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from solvers.arrays import FloatArray
from solvers.iterate import Watch, iterate
from solvers.labels import Labels
from solvers.models.base import Rule, hyperparameter
from solvers.models.centring import CentredLabels
from solvers.models.point_model import Points, Stats
from solvers.models.variational import StartedModel, held_classes, mean_degree
from solvers.solution import Solution, Status, first_failure
from solvers.variation.label_fit import LabelFit, SpaceInverse
from solvers.variation.partition import PartitionDescent
from solvers.variation.proximal import TotalVariation

_HISTORY = 40
"""Energies that the stats show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheegerModel(StartedModel):
    """Partitions of small Cheeger energy, smoothed by functions of the features on the way.

    The energy is sum_k TV(1_k) / min(a w(A_k), w(not A_k)), a = n_classes - 1 (G9', G12).
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

    def _solution(
        self,
        prepared: Points,
        task: CentredLabels,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - a start must not choose between minima
        watch: Watch,
        stats: Stats,
    ) -> Solution:
        graph, reachable = prepared.graph, task.reachable
        shares, before = self._first_shares(prepared, labels, watch, stats)
        first = shares.argmax(axis=1)
        first[labels.nodes] = labels.classes
        weight = np.ones(graph.n_nodes)
        if self.balance == "degrees":
            weight = graph.degree / mean_degree(prepared)
            weight[weight == 0] = weight.min(initial=1.0, where=weight > 0)  # labels without edges
        weight[~reachable] = 0.0
        weight /= weight[reachable].mean()
        smoother = None
        if self._has_norm(prepared):
            inverse = self._inverse(prepared, watch, stats, graph_penalty=0.0, pull=1.0)
            smoother = _Smoother(self._label_fit(inverse, labels, graph.n_nodes))
        descent = PartitionDescent(
            variation=TotalVariation(graph, unit=mean_degree(prepared), parallel=prepared.parallel),
            first=first,
            n_classes=labels.n_classes,
            fixed=held_classes(labels, graph.n_nodes),
            weight=weight,
            smoother=smoother,
            watch=Watch(progress=None, cancelled=watch.cancelled),
        )
        outcome = iterate(
            descent,
            max_iter=self.max_iter,
            phase="cheeger",
            progress=watch.progress,
            cancelled=watch.cancelled,
        )
        state = outcome.state
        stats["n_iter"], stats["n_proximal"] = outcome.n_iter, state.n_proximal
        stats["energy"] = state.energy
        stats["energies"] = " ".join(f"{energy:.6g}" for energy in state.history[-_HISTORY:])
        fitted = Status.CONVERGED if smoother is None else smoother.status
        status = first_failure(outcome.status, before, fitted)
        return task.solution(state.values, status, stats)

    @abstractmethod
    def _label_fit(self, inverse: SpaceInverse, labels: Labels, n_nodes: int) -> LabelFit:
        """What a step's target goes through."""


class _Smoother:
    """e = K alpha of (G.4) or (G11), and how the hinges' programs ended."""

    def __init__(self, fit: LabelFit) -> None:
        self._fit = fit
        self.status = Status.CONVERGED

    def __call__(self, target: FloatArray) -> FloatArray:
        values, _, status = self._fit.nearest(target)
        self.status = first_failure(self.status, status)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class CheegerRLS(CheegerModel):
    """Cheeger-RLS of Bresson and Zhang (2012): a Cheeger cut that keeps the labels (G.4, G.7).

    The partition that cuts little weight between sides of much, through all labels. Each step
    pushes every class along the subgradient of its balance, fits the functions of the features to
    that where there are some, takes the proximal step of total variation on the simplex with the
    labels held, and ends in the partition of the largest values; it counts if the energy falls.

    Scores are the values before the last partition: in [0, 1] with sum 1, most of them 0 or 1.

    Notes
    -----
    Three things differ from the text. Classes count by the asymmetric balance of (G12): the printed
    symmetric median asks of each of many classes to hold half of the nodes. At the median the
    subgradient is balanced, where sign(f) says 0. And every step ends in a partition, since the
    relaxed energy of more than two classes is far below that of any partition
    (`solvers.variation.partition`). A given start is not used, as in
    `solvers.models.total_variation.TVRLS`.

    References
    ----------
    As `solvers.models.total_variation.TVRLS`; Bresson, Laurent, Uminsky and von Brecht,
    Convergence and energy landscape for Cheeger cut clustering, 2012.
    """

    def _label_fit(self, inverse: SpaceInverse, labels: Labels, n_nodes: int) -> LabelFit:
        return LabelFit.of(
            inverse, labels.nodes, labels.targets(), n_nodes, loss="none", label_weight=0.0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheegerSVM(CheegerModel):
    """Cheeger-SVM of Bresson and Zhang (2012): `CheegerRLS` with hinges in its fits (G.6).

    Only functions of features know the hinge: without them, or with a norm_penalty of 0, the
    labels are held and nothing differs from `CheegerRLS`.

    References
    ----------
    As `CheegerRLS`.
    """

    label_weight: float = hyperparameter(
        1.0, Rule(doc="Weight of the hinge at each label, mu.", above=0.0)
    )

    def _label_fit(self, inverse: SpaceInverse, labels: Labels, n_nodes: int) -> LabelFit:
        return LabelFit.of(
            inverse,
            labels.nodes,
            2.0 * labels.targets() - 1.0,
            n_nodes,
            loss="hinge",
            label_weight=self.label_weight,
            margin=0.5,
        )
