"""Harmonic functions behind scikit-learn's interface."""

from typing import Literal

from peewit.solvers.estimators.classifiers import ProbabilityClassifier, ScoreClassifier
from peewit.solvers.estimators.regressors import GraphRegressor
from peewit.solvers.estimators.targets import Marker
from peewit.solvers.models import harmonic
from peewit.solvers.models.class_balance import ClassShares


class HFS(ProbabilityClassifier):
    """Harmonic functions, hard or soft: `models.harmonic.HFS` as an estimator.

    Parameters
    ----------
    graph_penalty : float or 'auto'
        Weight of smoothness against the labels; 0 keeps the labels exactly, 'auto' chooses it by
        leave-one-out.
    class_mass : {'none', 'labels'} or mapping of classes to shares
        'labels' scales each class to the share of the nodes that its labels have (class-mass
        normalisation), 'none' leaves scores as they are. A mapping has a positive number for every
        class: known sizes, in any unit.
    rtol : float
        Relative residual asked of the linear solves.
    max_iter : int
        Limit on the iterations of one linear solve.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = harmonic.HFS

    def __init__(
        self,
        *,
        graph_penalty: float | Literal["auto"] = "auto",
        class_mass: ClassShares = "none",
        rtol: float = 1e-6,
        max_iter: int = 10_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.graph_penalty = graph_penalty
        self.class_mass = class_mass
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled


class StableHFS(ScoreClassifier):
    """Stable-HFS: `models.harmonic.StableHFS` as an estimator.

    Parameters
    ----------
    graph_penalty : float or 'auto'
        Weight of smoothness against the labels; 'auto' chooses it by leave-one-out.
    rtol : float
        Relative residual asked of the linear solves.
    max_iter : int
        Limit on the iterations of one linear solve.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = harmonic.StableHFS

    def __init__(
        self,
        *,
        graph_penalty: float | Literal["auto"] = "auto",
        rtol: float = 1e-6,
        max_iter: int = 10_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.graph_penalty = graph_penalty
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled


class HFSRegressor(GraphRegressor):
    """`models.harmonic.HFS` as an estimator of numbers.

    Parameters
    ----------
    graph_penalty : float or 'auto'
        Weight of smoothness against the labels; 0 keeps the labels exactly, 'auto' chooses it by
        leave-one-out.
    rtol : float
        Relative residual asked of the linear solves.
    max_iter : int
        Limit on the iterations of one linear solve.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    """

    _model = harmonic.HFS
    _left_out = frozenset({"class_mass"})

    def __init__(
        self,
        *,
        graph_penalty: float | Literal["auto"] = "auto",
        rtol: float = 1e-6,
        max_iter: int = 10_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
    ) -> None:
        self.graph_penalty = graph_penalty
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors


class StableHFSRegressor(GraphRegressor):
    """`models.harmonic.StableHFS` as an estimator of numbers.

    Parameters
    ----------
    graph_penalty : float or 'auto'
        Weight of smoothness against the labels; 'auto' chooses it by
        leave-one-out.
    rtol : float
        Relative residual asked of the linear solves.
    max_iter : int
        Limit on the iterations of one linear solve.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    """

    _model = harmonic.StableHFS

    def __init__(
        self,
        *,
        graph_penalty: float | Literal["auto"] = "auto",
        rtol: float = 1e-6,
        max_iter: int = 10_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
    ) -> None:
        self.graph_penalty = graph_penalty
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
