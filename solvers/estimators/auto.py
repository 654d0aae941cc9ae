"""Auto behind scikit-learn's interface."""

from typing import Any, Self

from peewit.solvers.decision import Objective
from peewit.solvers.estimators.classifier_base import ProbabilityClassifier
from peewit.solvers.models.auto import auto
from peewit.solvers.models.classes.class_balance import GivenShares


class Auto(ProbabilityClassifier):
    """Several models, weighed by left-out labels: `models.auto.Auto` as an estimator."""

    _model = auto.Auto

    rtol: float = 1e-4
    max_iter: int = 10_000
    objective: Objective = "accuracy"
    class_shares: GivenShares = "estimated"

    def fit(self, X: Any, y: Any, features: Any = None, **further: Any) -> Self:
        """Classes of all nodes from those of some.

        Parameters
        ----------
        X, y
            As every classifier of graphs takes them.
        features : (n_nodes, n_features) array, scipy sparse matrix or data frame, or None
            What else is known of the nodes; with affinity 'knn', ``X`` itself may be given again.
            Rows of a frame are those of the nodes that its index or its column ``node`` names,
            where ``X`` has names; other nodes have no features.
        **further
            Refused; ``sample_weight`` with the names of the estimators that heed it.

        Raises
        ------
        TypeError, ValueError
            ``X`` or ``y`` breaks a rule, fewer than two classes have a label, ``features`` has not
            one row for each node, or an entry that is not finite.

        Warns
        -----
        UserWarning
            The labels are no random sample of the nodes, or the edges say nothing about them.
        """
        self._refuse(further)
        return self._solve(*self._problem(X, y, features))
