"""Models of points: rows of features if given, else something made of the graph."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, frozen
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.features import Rows, checked_rows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.multigrid.elimination import BLIND_RATIO
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.classes.certainty import TIE
from peewit.solvers.models.contract.feature_model import FEATURES, FeatureModel
from peewit.solvers.models.contract.model import KEPT_BYTES, check_labels
from peewit.solvers.models.contract.spectral_embedding import EMBEDDED
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

Value = TypeVar("Value")
Stats = dict[str, float | int | str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """The nodes with features and the graph between them, and the latest values made of both."""

    whole: Graph  # of all nodes
    graph: Graph  # of the nodes with features; the whole one if all have some or none are given
    rows: Rows | None  # features; row i is node i of ``graph``
    nodes: Int64Array | None  # (n_rows,) ids of the nodes with features, if some have none
    parallel: Parallel  # runs the parts of products
    kept_bytes: int  # limit on what is kept for later solves
    _made: dict[str, tuple[object, Any]] = field(default_factory=dict)

    @property
    def features(self) -> Any:
        """The features as an array or a sparse matrix; None if there are none."""
        rows = self.rows
        return None if rows is None else self.latest("features", None, rows.whole)

    def latest(self, name: str, key: object, make: Callable[[], Value]) -> Value:
        """The value ``name``, made now unless the last one was made for an equal key."""
        if name not in self._made or self._made[name][0] != key:
            self._made.pop(name, None)  # not both in memory
            self._made[name] = key, make()
        value: Value = self._made[name][1]
        return value

    def forget(self, *names: str) -> None:
        """Drop values that `latest` keeps."""
        for name in names:
            self._made.pop(name, None)

    def center_labels(self, labels: Labels) -> CenteredLabels:
        """Centered labels: a label reaches every node with features, only its component without."""
        component = self.graph.component
        if self.rows is not None:
            component = np.zeros_like(component)
        return CenteredLabels.of(labels, component)

    def have_features(self, labels: Labels) -> BoolArray:
        """(n_labeled,) whether each labeled node has features, or needs none."""
        if self.nodes is None:
            return np.ones(labels.n_labeled, bool)
        return np.isin(labels.nodes, self.nodes, assume_unique=True)

    def with_features(self, labels: Labels) -> Labels:
        """The labels of nodes with features, in the numbering of ``graph``.

        Raises ValueError if a class has none.
        """
        if self.nodes is None:
            return labels
        has_features = self.have_features(labels)
        places = np.searchsorted(self.nodes, labels.nodes)
        counts = np.bincount(labels.classes[has_features], minlength=labels.n_classes)
        if (counts == 0).any():
            name = labels.class_names[int(np.argmin(counts))]
            raise ValueError(
                f"class {name!r} has no labeled node with features ({self.nodes.size} of "
                f"{self.whole.n_nodes} nodes have some); label one, or add features"
            )
        nodes = frozen(places[has_features].astype(np.int64))
        return replace(
            labels,
            nodes=nodes,
            classes=frozen(labels.classes[has_features]),
            among=None if labels.among is None else labels.among[self.nodes],
        )

    def narrowed(self, solution: Solution | None) -> Solution | None:
        """A solution of all nodes, restricted to those with features."""
        if solution is None or self.nodes is None or len(solution.scores) != self.whole.n_nodes:
            return solution
        return replace(
            solution, scores=solution.scores[self.nodes], reachable=solution.reachable[self.nodes]
        )

    def widened(self, solution: Solution, labels: Labels) -> Solution:
        """A solution of the nodes with features, extended to all nodes by the class prior."""
        if self.nodes is None:
            return solution
        scores = np.tile(labels.mean_target(), (self.whole.n_nodes, 1))
        scores[self.nodes] = solution.scores
        reachable = np.zeros(self.whole.n_nodes, bool)
        reachable[self.nodes] = solution.reachable
        n_missing = self.whole.n_nodes - self.nodes.size
        stats = {**solution.stats, "n_without_features": n_missing}
        return replace(solution, scores=scores, reachable=reachable, stats=stats)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointProblem:
    """What one solve is given, all of it at the nodes of ``prepared.graph``."""

    prepared: Points
    task: CenteredLabels
    labels: Labels
    start: Solution | None  # ignored if its shape differs
    watch: Watch
    stats: Stats  # filled by the solve


@dataclass(frozen=True, slots=True, kw_only=True)
class PointModel(FeatureModel):
    """What models of points share: preparation, checks and cancellation.

    If only some nodes have features, the others take no part: they get the class prior and are not
    reachable.
    """

    @one_blas_thread
    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,
    ) -> Points:
        """The checked features; whatever else is needed is made at the first solve and kept.

        Raises TypeError or ValueError as `peewit.solvers.features.checked_rows`, and ValueError if
        no node has features.
        """
        rows = None if features is None else checked_rows(features, graph.n_nodes)
        nodes = None if rows is None else rows.nodes
        if nodes is not None and nodes.size == 0:
            raise ValueError(f"none of the {graph.n_nodes} nodes has features; add some")
        return Points(
            whole=graph,
            graph=graph if nodes is None else graph.subgraph(nodes),
            rows=rows,
            nodes=nodes,
            parallel=parallel,
            kept_bytes=kept_bytes,
        )

    def solve_watched(
        self, prepared: Points, labels: Labels, start: Solution | None, watch: Watch
    ) -> Solution:
        """Scores of every node; see `Model.solve`."""
        check_labels(labels, prepared.whole)
        own = prepared.with_features(labels)
        task = prepared.center_labels(own)
        problem = PointProblem(
            prepared=prepared,
            task=task,
            labels=own,
            start=prepared.narrowed(start),
            watch=watch,
            stats={"input": self.of_graph if prepared.rows is None else FEATURES},
        )
        try:
            solution = self._solution(problem)
        except RunStopped:
            solution = task.solution(task.baseline, Status.CANCELLED, problem.stats)
        is_embedded = prepared.rows is None and self.of_graph == EMBEDDED
        if is_embedded and prepared.graph.weight_spread >= BLIND_RATIO:
            solution = _check_ties(solution)
        return prepared.widened(solution, labels)

    @abstractmethod
    def _solution(self, problem: PointProblem) -> Solution:
        """The solution at the nodes of ``prepared.graph``; fills ``stats``."""


def _check_ties(solution: Solution) -> Solution:
    """The solution, ill-conditioned if two classes tie at a node.

    Points of an embedding that heavy edges join are one point beside the farthest of them.
    """
    highest = np.partition(solution.scores[solution.reachable], -2, axis=1)[:, -2:]
    is_tie = highest[:, 1] - highest[:, 0] <= TIE
    if solution.status is not Status.CONVERGED or not is_tie.any():
        return solution
    stats = {**solution.stats, "n_uncertain": int(np.count_nonzero(is_tie))}
    return replace(solution, status=Status.ILL_CONDITIONED, stats=stats)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringModel(PointModel):
    """A model of points that finds scores but no functions to predict new points with."""

    def _solution(self, problem: PointProblem) -> Solution:
        scores, status = self._answer(problem)
        return problem.task.solution(scores, status, problem.stats)

    @abstractmethod
    def _answer(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        """(n_nodes, n_classes) scores, of which those of reachable nodes count; fills ``stats``."""
