"""The total variation family behind scikit-learn's interface: of graphs, and features beside them.

Without features functions have no norm, and new samples have the scores of their neighbors.
"""

from typing import Any, Literal

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.estimators.classifier_base import FeaturedClassifier, ScoreClassifier
from peewit.solvers.estimators.edge_tables import column_names
from peewit.solvers.estimators.frames import node_features, rows_of_nodes
from peewit.solvers.gram.kernel_functions import KernelName
from peewit.solvers.models.contract.feature_model import FEATURES
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.variational import (
    cheeger_machines,
    simplex_machines,
    total_variation_machines,
)
from peewit.solvers.models.variational.started_model import InitialName
from peewit.solvers.solution import Solution
from peewit.solvers.variation.splitting import Normalization


class FunctionClassifier(FeaturedClassifier, ScoreClassifier):
    """Base of the family.

    Where `fit` is given ``features``, functions of them predict new samples (G2a): `predict` takes
    rows of such features. Else these get what their neighbors have, with affinity 'knn'.
    """

    norm_penalty: float | Literal["auto"] = "auto"
    kernel: KernelName = "gaussian"
    width: float | Literal["auto"] = "auto"
    degree: int = 3
    gram: Literal["auto", "dense", "landmarks"] = "auto"
    n_landmarks: int = 1_000
    n_dimensions: int = 32
    precision: Literal["auto", "float32", "float64"] = "auto"
    seed: int = 0

    def _problem(self, X: Any, y: Any, features: Any = None) -> tuple[Model, Any, AnyArray]:
        problem = super()._problem(X, y, features)
        self._columns = column_names(rows_of_nodes(features, self._names, "features")[0])
        return problem

    def _keep(self, solution: Solution) -> None:
        super()._keep(solution)
        functions = solution.functions if solution.stats.get("input") == FEATURES else None
        self._functions: Any = None if functions is None else functions.trimmed()

    @one_blas_thread
    def _new_scores(self, X: Any) -> tuple[FloatArray, BoolArray]:
        if getattr(self, "_functions", None) is None:
            return super()._new_scores(X)
        columns = column_names(X)
        if columns is not None and self._columns is not None and columns != self._columns:
            raise BadArgument(
                "X", f"must have the columns of the features, {self._columns}, got {columns}"
            )
        scores: FloatArray = self._functions.class_scores(node_features(X, None))
        return scores, np.ones(scores.shape[0], bool)


class SimplexClassifier(FunctionClassifier):
    """Base of the estimators of squares and hinges on the simplex."""

    graph_penalty: float = 0.1
    label_weight: float = 1.0
    pull: float = 3.0
    rtol: float = 1e-3
    max_iter: int = 1_000


class LapRLS(SimplexClassifier):
    """Lap-RLS on the simplex: `models.simplex_machines.LapRLS` as an estimator.

    On a graph alone one linear solve; nothing has to be brought to the simplex.
    """

    _model = simplex_machines.LapRLS


class SimplexLapSVM(SimplexClassifier):
    """Lap-SVM on the simplex: `models.simplex_machines.SimplexLapSVM` as an estimator."""

    _model = simplex_machines.SimplexLapSVM


class TotalVariationClassifier(FunctionClassifier):
    """Base of the estimators of total variation."""

    initial: InitialName = "auto"
    graph_penalty: float | Literal["auto"] = "auto"
    label_weight: float = 10.0
    normalization: Normalization = "sqrt"
    pull: float = 1.0
    rtol: float = 1e-4
    proximal_rtol: float = 1e-2
    max_iter: int = 200


class TVRLS(TotalVariationClassifier):
    """TV-RLS: `models.total_variation_machines.TVRLS` as an estimator."""

    _model = total_variation_machines.TVRLS


class TVSVM(TotalVariationClassifier):
    """TV-SVM: `models.total_variation_machines.TVSVM` as an estimator."""

    _model = total_variation_machines.TVSVM


class CheegerClassifier(FunctionClassifier):
    """Base of the estimators of Cheeger cuts."""

    initial: InitialName = "auto"
    balance: Literal["degrees", "nodes"] = "degrees"
    max_iter: int = 100


class CheegerRLS(CheegerClassifier):
    """Cheeger-RLS: `models.cheeger_machines.CheegerRLS` as an estimator."""

    _model = cheeger_machines.CheegerRLS


class CheegerSVM(CheegerClassifier):
    """Cheeger-SVM: `models.cheeger_machines.CheegerSVM` as an estimator.

    Without features it is Cheeger-RLS.
    """

    _model = cheeger_machines.CheegerSVM

    label_weight: float = 1.0
