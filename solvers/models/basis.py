"""Models that fit labels by a few smooth functions: what EigFun and Simple-HFS share."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from solvers.arrays import FloatArray
from solvers.graph import Graph
from solvers.iterate import Cancelled, Progress
from solvers.labels import Labels
from solvers.laplacian.parallel import Parallel
from solvers.models.base import Model, check_labels
from solvers.models.embedding import EMBEDDED, Embedding, spectral_embedding
from solvers.models.features import (
    GIVEN,
    Centring,
    Latest,
    Stopped,
    Watch,
    checked_features,
    components,
)
from solvers.solution import Solution, Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """Smooth functions on the nodes.

    Attributes
    ----------
    functions : (n_nodes, n_functions) float64
        Columns of unit length, smoothest first.
    eigenvalues : (n_functions,) float64
        How rough each is (EigFun), or how much of the kernel it carries (Simple-HFS).
    stats : dict
        What its making chose.
    """

    functions: FloatArray
    eigenvalues: FloatArray
    stats: dict[str, float | int | str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedPoints:
    """The graph, features of its nodes or None, and the embedding and the basis made last."""

    graph: Graph
    features: Any
    embedding: Latest[Embedding] = field(default_factory=Latest)
    basis: Latest[Basis] = field(default_factory=Latest)

    def points(self, n_dimensions: int, watch: Watch) -> tuple[Any, Status]:
        """The features, or the spectral embedding of the graph, and how that ended."""
        if self.features is not None:
            return self.features, Status.CONVERGED
        embedding = self.embedding.get(
            n_dimensions, lambda: spectral_embedding(self.graph, n_dimensions, watch)
        )
        return embedding.coordinates, embedding.status


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisModel(Model):
    """Labels, centred with their component's mean, fitted by the functions of a basis.

    With features there is one component, and without them those of the graph: eigenvectors of the
    embedding tell nothing of a component as a whole.
    """

    n_dimensions: int

    uses_features: ClassVar[bool] = True

    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,  # noqa: ARG002 - no large product is repeated here
    ) -> PreparedPoints:
        """The features, checked; the basis is made at the first solve and kept.

        Raises
        ------
        TypeError, ValueError
            As `solvers.models.features.checked_features`.
        """
        rows = None if features is None else checked_features(features, graph.n_nodes)
        return PreparedPoints(graph=graph, features=rows)

    def solve(
        self,
        prepared: PreparedPoints,
        labels: Labels,
        *,
        start: Solution | None = None,  # noqa: ARG002 - the fit is a direct solve
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """Scores of every node; see `solvers.models.base.Model.solve`."""
        check_labels(labels, prepared.graph)
        watch = Watch(progress=progress, cancelled=cancelled)
        task = Centring.of_labels(labels, components(prepared.graph, prepared.features))
        stats: dict[str, float | int | str] = {
            "input": EMBEDDED if prepared.features is None else GIVEN,
        }
        try:
            watch.step("basis", 0, 2)
            points, status = prepared.points(self.n_dimensions, watch)
            n_kept = self._n_kept(labels)
            basis = prepared.basis.get((self, n_kept), lambda: self._basis(points, n_kept, watch))
            stats |= basis.stats
            watch.step("fit", 1, 2)
            function = self._fitted(basis, labels, task.centred, stats)
            watch.step("fit", 2, 2)
        except Stopped:
            return task.solution(task.baseline, Status.CANCELLED, stats)
        return task.solution(function + task.baseline, status, stats)

    @abstractmethod
    def _n_kept(self, labels: Labels) -> int:
        """Functions worth making for these labels; few different numbers, as each is a basis."""

    @abstractmethod
    def _basis(self, points: Any, n_kept: int, watch: Watch) -> Basis:
        """At most ``n_kept`` functions on these points."""

    @abstractmethod
    def _fitted(
        self,
        basis: Basis,
        labels: Labels,
        centred: FloatArray,
        stats: dict[str, float | int | str],
    ) -> FloatArray:
        """(n_nodes, n_classes) values of the fit; notes in ``stats`` what it chose."""
