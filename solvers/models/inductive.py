"""Models that predict new points: functions of features, or of the embedding of a graph."""

from dataclasses import dataclass
from typing import Any, ClassVar

from peewit.solvers.arrays import FloatArray
from peewit.solvers.features import FeatureRows, Rows
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iterate import Watch
from peewit.solvers.models.embedding import EMBEDDED, spectral_embedding
from peewit.solvers.models.point_model import PointModel, Points
from peewit.solvers.solution import Solution, Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedded:
    """The points of a model, and how making them ended."""

    rows: Rows
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedModel(PointModel):
    """A model of points that are the spectral embedding of the graph where it has no features."""

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
        """Whether a solve reads features, or makes the embedding in their place."""
        return True

    def _points(self, prepared: Points, watch: Watch) -> Embedded:
        if prepared.rows is not None:
            return Embedded(rows=prepared.rows, status=Status.CONVERGED)

        def embed() -> Embedded:
            coordinates, status = spectral_embedding(prepared.graph, self.n_dimensions, watch)
            return Embedded(rows=FeatureRows(values=coordinates), status=status)

        return prepared.latest("embedding", self._input_key(prepared), embed)

    def _input_key(self, prepared: Points) -> int | None:
        """What the points depend on."""
        return self.n_dimensions if prepared.rows is None else None


class InductiveModel(EmbeddedModel):
    """One that finds functions, which new points can be put into; an embedding has none."""

    def predict(self, prepared: Points, solution: Solution, features: Any) -> FloatArray:
        """Class scores of new points, (n_points, n_classes).

        Parameters
        ----------
        prepared : Points
            As the solution was found on.
        solution : Solution
        features : (n_points, n_columns) array-like or scipy sparse

        Raises
        ------
        ValueError
            The model had no features; another number of columns, or an entry that is not finite.
        """
        if prepared.rows is None:
            raise ValueError(
                "new points need a model of features, got one of the graph's spectral embedding; "
                "give the nodes features and solve again"
            )
        if solution.functions is None:
            raise ValueError(
                f"solution must hold functions, got one that was {solution.status.value}; "
                "solve again"
            )
        return solution.functions.class_scores(features)
