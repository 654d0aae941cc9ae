"""Harmonic MBO behind scikit-learn's interface."""

from typing import Literal

from peewit.solvers.estimators.classifiers import ScoreClassifier
from peewit.solvers.estimators.targets import Marker
from peewit.solvers.models import harmonic_mbo


class HarmonicMBO(ScoreClassifier):
    """Harmonic MBO: `models.harmonic_mbo.HarmonicMBO` as an estimator.

    Parameters
    ----------
    n_rounds : int
        Rounds of walks, a third of them at each length.
    walk_length : int
        Most steps of the longest walks.
    min_kept : float
        A walk ends once a smaller part of the nodes would keep their class; 0 never ends one
        early.
    rtol : float
        Relative residual asked of the harmonic solve.
    max_iter : int
        Limit on the iterations of the harmonic solve.
    affinity : {'precomputed', 'knn'}
        Whether `fit` takes a graph, or features whose nearest neighbors make one.
    n_neighbors : int
        Neighbors of each sample, with affinity 'knn'.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = harmonic_mbo.HarmonicMBO

    def __init__(
        self,
        *,
        n_rounds: int = 9,
        walk_length: int = 10,
        min_kept: float = 0.8,
        rtol: float = 1e-5,
        max_iter: int = 10_000,
        affinity: Literal["precomputed", "knn"] = "precomputed",
        n_neighbors: int = 10,
        unlabeled: Marker = -1,
    ) -> None:
        self.n_rounds = n_rounds
        self.walk_length = walk_length
        self.min_kept = min_kept
        self.rtol = rtol
        self.max_iter = max_iter
        self.affinity = affinity
        self.n_neighbors = n_neighbors
        self.unlabeled = unlabeled
