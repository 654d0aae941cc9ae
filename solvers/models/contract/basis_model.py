"""Models that fit labels by a few smooth functions: what EigFun and Simple-HFS share."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.point_model import PointProblem, Points, ScoringModel, Stats
from peewit.solvers.models.contract.spectral_embedding import EMBEDDED, spectral_embedding
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Basis:
    """Smooth functions on the nodes, the smoothest first."""

    functions: FloatArray  # (n_nodes, n_functions), unit length
    eigenvalues: FloatArray  # (n_functions,): roughness (EigFun) or kernel's part (Simple-HFS)
    stats: Stats  # choices made in building the basis


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisModel(ScoringModel):
    """Labels, centered with their component's mean, fitted by the functions of a basis.

    With features all nodes form one component. Without them the graph's components count, since the
    embedding's eigenvectors say nothing of a component as a whole.
    """

    n_dimensions: int

    of_graph: ClassVar[str] = EMBEDDED

    def _answer(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        prepared, labels, watch = problem.prepared, problem.labels, problem.watch
        watch.step("basis", 0, 2)
        points, status = self._points(prepared, watch)
        size = self._basis_size(labels)
        basis = prepared.latest("basis", (self, size), lambda: self._basis(points, size, watch))
        problem.stats.update(basis.stats)
        watch.step("fit", 1, 2)
        function = self._fit(basis, labels, problem.task.values, problem.stats)
        watch.step("fit", 2, 2)
        return function + problem.task.baseline, status

    def _points(self, prepared: Points, watch: Watch) -> tuple[Any, Status]:
        """The features, or the spectral embedding of the graph, and the status of its making."""
        if prepared.features is not None:
            return prepared.features, Status.CONVERGED
        return prepared.latest(
            "embedding",
            self.n_dimensions,
            lambda: spectral_embedding(prepared.graph, self.n_dimensions, watch),
        )

    @abstractmethod
    def _basis_size(self, labels: Labels) -> int:
        """Functions to make for these labels; few distinct values, as each makes a basis."""

    @abstractmethod
    def _basis(self, points: Any, n_functions: int, watch: Watch) -> Basis:
        """At most ``n_functions`` functions on these points."""

    @abstractmethod
    def _fit(self, basis: Basis, labels: Labels, centered: FloatArray, stats: Stats) -> FloatArray:
        """(n_nodes, n_classes) values of the fit; writes its choices into ``stats``."""
