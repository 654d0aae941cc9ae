"""Base of inductive models, which predict new points by functions of features."""

from collections.abc import Mapping
from typing import Any

from peewit.solvers.arrays import FloatArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.models.contract.feature_model import FeatureModel
from peewit.solvers.solution import Solution


class InductiveModel(FeatureModel):
    """A model whose functions of features also predict new points."""

    __slots__ = ()

    @classmethod
    def barred(cls, stats: Mapping[str, Any], *, is_calibrated: bool) -> str | None:  # noqa: ARG003
        """Why new points cannot be scored as nodes were, and the way out; None where they can.

        ``stats`` are the solution's; ``is_calibrated`` says that its scores are made probabilities.
        """
        return None

    @one_blas_thread
    def predict(self, prepared: Any, solution: Solution, features: Any) -> FloatArray:
        """(n_points, n_classes) class scores of new points.

        ``prepared`` is what the solution was found on. Raises ValueError if the model had no
        features, or if ``features`` have another number of columns or an entry that is not finite.
        """
        if prepared.rows is None:
            raise ValueError(
                f"new points need a model of features, got one of the {self.of_graph}; "
                "give the nodes features and solve again"
            )
        if solution.functions is None:
            raise ValueError(
                f"solution must hold functions, got one that was {solution.status.value}; "
                "solve again"
            )
        return solution.functions.class_scores(features)
