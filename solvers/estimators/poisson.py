"""Poisson learning behind scikit-learn's interface."""

from typing import Literal

from peewit.solvers.estimators.classifiers import ScoreClassifier
from peewit.solvers.estimators.targets import Marker
from peewit.solvers.models import poisson
from peewit.solvers.models.class_balance import ClassShares


class Poisson(ScoreClassifier):
    """Poisson learning: `models.poisson.Poisson` as an estimator.

    Parameters
    ----------
    class_balance : {'none', 'labels'} or mapping of classes to shares
        'labels' weighs classes until each wins the share of the nodes that it has among the
        labels, 'none' leaves class sizes free. A mapping has a positive number for every class:
        known sizes, in any unit.
    rtol : float
        Relative residual asked of the linear solve.
    max_iter : int
        Limit on the iterations of the linear solve.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = poisson.Poisson

    def __init__(
        self,
        *,
        class_balance: ClassShares = "none",
        rtol: float = 1e-6,
        max_iter: int = 10_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.class_balance = class_balance
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled


class PoissonMBO(ScoreClassifier):
    """PoissonMBO: `models.poisson.PoissonMBO` as an estimator.

    Parameters
    ----------
    class_balance : {'none', 'labels'} or mapping of classes to shares
        'labels' weighs classes until each wins the share of the nodes that it has among the
        labels, 'none' leaves class sizes free. A mapping has a positive number for every class:
        known sizes, in any unit.
    n_outer : int
        Most rounds.
    n_inner : int
        Heat steps of a round.
    fidelity : float
        Weight of the labels in the heat steps.
    rtol : float
        Relative residual asked of the linear solve.
    max_iter : int
        Limit on the iterations of the linear solve.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = poisson.PoissonMBO

    def __init__(
        self,
        *,
        class_balance: ClassShares = "none",
        n_outer: int = 20,
        n_inner: int = 40,
        fidelity: float = 1.0,
        rtol: float = 1e-6,
        max_iter: int = 10_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.class_balance = class_balance
        self.n_outer = n_outer
        self.n_inner = n_inner
        self.fidelity = fidelity
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled
