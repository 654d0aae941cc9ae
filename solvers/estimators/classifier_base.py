"""Bases of the estimators that predict classes, with scores or with probabilities."""

from abc import abstractmethod
from typing import Any, Self

from peewit.solvers.arrays import AnyArray, FloatArray
from peewit.solvers.estimators.base import Classifier, GraphEstimator


class GraphClassifier(Classifier, GraphEstimator):
    """Base of the classifiers; further attributes are those of `GraphEstimator`.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Distinct classes, sorted, in the type of ``y``.
    transduction_ : (n_nodes,) array
        Class of every node; the marker ``unlabeled`` at nodes that no label reaches.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Classes of all nodes from those of some.

        Parameters
        ----------
        X : Graph, (n_nodes, n_nodes) or (n_nodes, n_features) array or scipy sparse matrix
            With affinity 'precomputed' the graph, or its adjacency matrix: symmetric, entries
            >= 0, diagonal ignored. With affinity 'knn' features.
        y : (n_nodes,) array-like
            Class of each node: strings or whole numbers; ``unlabeled`` where it is not known.

        Raises
        ------
        TypeError, ValueError
            ``X`` or ``y`` breaks a rule above, fewer than two classes have a label, or a
            hyperparameter breaks its rule.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            The solve ended before the residual asked for was reached.
        """
        return self._fitted(X, y, None)

    def _fitted(self, X: Any, y: Any, features: Any) -> Self:
        """`fit` with features of the nodes, for a model that takes them."""
        graph, vector = self._graph_and_target(X, y)
        targets = self._targets_in(vector)
        model = self._model(**self._hyperparameters())
        solution = model.solve(model.prepare(graph, features), targets.labels)
        self._finish(solution)
        self.classes_ = targets.classes
        self._targets = targets
        self._keep(solution.scores)
        self.transduction_ = targets.named(self._scores().argmax(axis=1), solution.reachable)
        return self

    def predict(self, X: Any) -> AnyArray:
        """Class of new samples; the marker where no neighbor is reached by a label.

        Parameters
        ----------
        X : (n_samples, n_features) array or scipy sparse matrix
            Features; what was fitted must have been features too.

        Returns
        -------
        (n_samples,) array

        Raises
        ------
        ValueError
            ``affinity`` is not 'knn', or ``X`` has another number of features.
        """
        scores, reached = self._new_scores(X)
        return self._targets.named(scores.argmax(axis=1), reached)

    @abstractmethod
    def _keep(self, scores: FloatArray) -> None:
        """Keep the scores of all nodes under the name they have for users."""


class ProbabilityClassifier(GraphClassifier):
    """A classifier whose scores are probabilities.

    Attributes
    ----------
    label_distributions_ : (n_nodes, n_classes) float64
        Rows sum to 1; the class prior at nodes that no label reaches.
    """

    def predict_proba(self, X: Any) -> FloatArray:
        """(n_samples, n_classes) probabilities of new samples; see `predict`."""
        return _distributions(self._new_scores(X)[0])

    def _keep(self, scores: FloatArray) -> None:
        self.label_distributions_ = _distributions(scores)

    def _scores(self) -> FloatArray:
        return self.label_distributions_


class ScoreClassifier(GraphClassifier):
    """A classifier whose scores are no probabilities.

    Attributes
    ----------
    decision_ : (n_nodes, n_classes) float64
        Class scores; the largest wins.
    """

    def decision_function(self, X: Any) -> FloatArray:
        """Class scores of new samples; see `predict`.

        Returns
        -------
        (n_samples, n_classes) float64, or (n_samples,) of two classes
            Of two classes the second's score minus the first's, as scikit-learn has it.
        """
        scores = self._new_scores(X)[0]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _keep(self, scores: FloatArray) -> None:
        self.decision_ = scores

    def _scores(self) -> FloatArray:
        return self.decision_


def _distributions(scores: FloatArray) -> FloatArray:
    """Rows in [0, 1] that sum to 1: the solves meet both up to their tolerance."""
    clipped = scores.clip(0.0, 1.0)
    distributions: FloatArray = clipped / clipped.sum(axis=1, keepdims=True)
    return distributions
