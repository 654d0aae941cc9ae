"""Base of models of points: features, or without them the spectral embedding of the graph."""

from dataclasses import dataclass
from typing import ClassVar

from peewit.solvers.features import FeatureRows, Rows
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.models.contract.point_model import PointModel, Points
from peewit.solvers.models.contract.spectral_embedding import EMBEDDED, spectral_embedding
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedded:
    """The points of a model, and the status of their making."""

    rows: Rows
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedModel(PointModel):
    """A model of points, which are the spectral embedding of the graph if there are no features."""

    preparation: ClassVar[str] = "points"
    of_graph: ClassVar[str] = EMBEDDED

    n_dimensions: int = hyperparameter(
        32,
        Rule(
            doc="Dimensions of the graph's spectral embedding; used without features.",
            kind=int,
            minimum=1,
        ),
    )

    def needs_points(self, has_features: bool) -> bool:  # noqa: ARG002 - most do
        """Whether a solve reads the features, or the embedding that replaces them."""
        return True

    def _points(self, prepared: Points, watch: Watch) -> Embedded:
        if prepared.rows is not None:
            return Embedded(rows=prepared.rows, status=Status.CONVERGED)

        def embed() -> Embedded:
            coordinates, status = spectral_embedding(prepared.graph, self.n_dimensions, watch)
            return Embedded(rows=FeatureRows(values=coordinates), status=status)

        return prepared.latest("embedding", self._input_key(prepared), embed)

    def _input_key(self, prepared: Points) -> int | None:
        """Cache key of what the points depend on."""
        return self.n_dimensions if prepared.rows is None else None
