"""Poisson learning behind scikit-learn's interface."""

from peewit.solvers.estimators.classifier_base import ScoreClassifier
from peewit.solvers.models.classes.class_balance import ClassShares
from peewit.solvers.models.poisson import poisson, poisson_mbo


class PoissonClassifier(ScoreClassifier):
    """Base of the estimators of Poisson learning."""

    class_balance: ClassShares = "none"
    rtol: float = 1e-6
    max_iter: int = 10_000


class Poisson(PoissonClassifier):
    """Poisson learning: `models.poisson.Poisson` as an estimator."""

    _model = poisson.Poisson


class PoissonMBO(PoissonClassifier):
    """PoissonMBO: `models.poisson_mbo.PoissonMBO` as an estimator."""

    _model = poisson_mbo.PoissonMBO

    n_outer: int = 10
    n_inner: int = 40
    n_splits: int = 8
