"""Auto behind scikit-learn's interface."""

from peewit.solvers.decision import Objective
from peewit.solvers.estimators.classifier_base import FeaturedClassifier, ProbabilityClassifier
from peewit.solvers.models.auto import auto
from peewit.solvers.models.classes.class_balance import GivenShares


class Auto(FeaturedClassifier, ProbabilityClassifier):
    """Several models, weighed by left-out labels: `models.auto.Auto` as an estimator."""

    _model = auto.Auto

    rtol: float = 1e-4
    max_iter: int = 10_000
    objective: Objective = "accuracy"
    class_shares: GivenShares = "estimated"
