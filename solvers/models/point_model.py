"""Models of points: rows of features where they are given, something of the graph where not."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from solvers.arrays import FloatArray
from solvers.graph import Graph
from solvers.iterate import Cancelled, Progress, Stopped, Watch
from solvers.labels import Labels
from solvers.laplacian.parallel import Parallel
from solvers.models.base import KEPT_BYTES, Model, check_labels
from solvers.models.centring import CentredLabels
from solvers.models.features import checked_features
from solvers.solution import Solution, Status

GIVEN = "features"
"""What the stats say of a solve that had features."""

Value = TypeVar("Value")
Stats = dict[str, float | int | str]


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """The graph, features of its nodes or None, and what was made of them last."""

    graph: Graph
    features: Any
    _made: dict[str, tuple[object, Any]] = field(default_factory=dict)

    def latest(self, name: str, key: object, make: Callable[[], Value]) -> Value:
        """The value ``name``, made now unless the last one was made for an equal key."""
        if name not in self._made or self._made[name][0] != key:
            self._made.pop(name, None)  # not both in memory
            self._made[name] = key, make()
        value: Value = self._made[name][1]
        return value

    def centred(self, labels: Labels) -> CentredLabels:
        """Centred labels: with features, one reaches every node; without, its component."""
        component = self.graph.component
        if self.features is not None:
            component = np.zeros_like(component)
        return CentredLabels.of(labels, component)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointModel(Model):
    """What these models share: preparation, checks and cancellation."""

    uses_features: ClassVar[bool] = True

    of_graph: ClassVar[str]
    """What the stats say of a solve that had no features."""

    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,  # noqa: ARG002 - no large product is repeated here
        kept_bytes: int = KEPT_BYTES,  # noqa: ARG002 - what is kept is what every solve needs
    ) -> Points:
        """The features, checked; whatever else is needed is made at the first solve and kept.

        Raises
        ------
        TypeError, ValueError
            As `solvers.models.features.checked_features`.
        """
        rows = None if features is None else checked_features(features, graph.n_nodes)
        return Points(graph, rows)

    def solve(
        self,
        prepared: Points,
        labels: Labels,
        *,
        start: Solution | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """Scores of every node; see `solvers.models.base.Model.solve`."""
        check_labels(labels, prepared.graph)
        task = prepared.centred(labels)
        stats: Stats = {"input": self.of_graph if prepared.features is None else GIVEN}
        watch = Watch(progress=progress, cancelled=cancelled)
        try:
            scores, status = self._answer(prepared, task, labels, start, watch, stats)
        except Stopped:
            return task.solution(task.baseline, Status.CANCELLED, stats)
        return task.solution(scores, status, stats)

    @abstractmethod
    def _answer(
        self,
        prepared: Points,
        task: CentredLabels,
        labels: Labels,
        start: Solution | None,
        watch: Watch,
        stats: Stats,
    ) -> tuple[FloatArray, Status]:
        """(n_nodes, n_classes) scores, of which those of reachable nodes count; fills ``stats``."""
