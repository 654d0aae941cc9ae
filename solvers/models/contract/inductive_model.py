"""Base of inductive models, which predict new points by functions of features."""

from typing import Any

from peewit.solvers.arrays import FloatArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.models.contract.feature_model import FeatureModel
from peewit.solvers.solution import Solution


class InductiveModel(FeatureModel):
    """One that finds functions, which new points can be put into; a graph alone has none."""

    __slots__ = ()

    @one_blas_thread
    def predict(self, prepared: Any, solution: Solution, features: Any) -> FloatArray:
        """Class scores of new points, (n_points, n_classes).

        Parameters
        ----------
        prepared
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
                f"new points need a model of features, got one of the {self.of_graph}; "
                "give the nodes features and solve again"
            )
        if solution.functions is None:
            raise ValueError(
                f"solution must hold functions, got one that was {solution.status.value}; "
                "solve again"
            )
        return solution.functions.class_scores(features)
