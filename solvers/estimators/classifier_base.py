"""Bases of the estimators that predict classes, with scores or with probabilities."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.decision import decided
from peewit.solvers.estimators.base import GraphEstimator
from peewit.solvers.estimators.calibrated_scores import CalibratedScores
from peewit.solvers.estimators.classifier import Classifier
from peewit.solvers.estimators.documentation import with_arguments_of
from peewit.solvers.estimators.frames import node_features
from peewit.solvers.estimators.targets import ClassTargets, decisions_of_columns
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution


class GraphClassifier(Classifier, GraphEstimator):
    """Base of the classifiers; further attributes are those of `GraphEstimator`.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Distinct classes, sorted, in the type of ``y``.
    transduction_ : (n_nodes,) array
        Class of every node; the marker ``unlabeled`` at nodes that no label reaches.
    """

    def fit(self, X: Any, y: Any, *, progress: Progress | None = None, **further: Any) -> Self:
        """Classes of all nodes from those of some.

        Parameters
        ----------
        X : Graph, (n_nodes, n_nodes) or (n_nodes, n_features) array or scipy sparse matrix
            With affinity 'precomputed' what `peewit.sparsify` returns, or the adjacency matrix:
            symmetric, entries >= 0, diagonal ignored; or a table of edges with columns ``src`` and
            ``dst``, and ``weight`` where edges have some; or a mapping of names to these, the
            relations of the nodes, which are joined by name where they have names. With affinity
            'knn' features.
        y : (n_nodes,) or (n_nodes, n_columns) array-like, or mapping
            Class of each node: strings or whole numbers; ``unlabeled`` where it is not known. Or
            classes by node, as a mapping or a Series whose index has nodes: by name where ``X`` has
            names, else by number; other nodes have none, nor those with a missing value. Columns
            are predicted one by one and share the preparation of the graph; of several labels at a
            time, columns of 0 and 1 say which a node has.
        progress : callable or None
            Is told how far each solve is, as a `ProgressReport`; `peewit.ProgressBar` shows it.
        **further
            Refused; ``sample_weight`` with the names of the estimators that heed it.

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
        self._refuse(further)
        return self._solve(*self._problem(X, y), progress)

    def _problem(self, X: Any, y: Any, features: Any = None) -> tuple[Model, Any, AnyArray]:
        """The model, what it prepared, and ``y``; features for a model that takes them."""
        graph, target = self._graph_and_target(X, y)
        model: Any = self._model_of(graph)  # takes what there is, a graph or relations
        return model, model.prepare(graph, node_features(features, self._names)), target

    def predict(self, X: Any = None, *, nodes: Any = None) -> AnyArray:
        """Class of new samples, or of nodes of the fit; the marker where no label reaches.

        Parameters
        ----------
        X : (n_samples, n_features) array or scipy sparse matrix
            Features; what was fitted must have been features too.
        nodes : list or vector
            Instead of ``X``: nodes by name, where what was fitted has names (`peewit.sparsify`, a
            data frame), else by number.

        Returns
        -------
        (n_samples,) array, or (n_samples, n_columns) as ``y`` was

        Raises
        ------
        ValueError
            ``affinity`` is not 'knn', ``X`` has another number of features, or there is no such
            node.
        """
        columns = self._by_column("predict", X, nodes=nodes)
        if columns is not None:
            return np.column_stack(columns)
        places = self._places(X, nodes)
        if places is not None:
            chosen: AnyArray = self.transduction_[places]
            return chosen
        scores, reached = self._new_scores(X)
        return self._targets.named(decided(self._decide(scores, reached), self._rule), reached)

    def _learn(self, prepared: Any, targets: ClassTargets, solution: Solution) -> None:
        del prepared
        self._finish(solution)
        self.classes_ = targets.classes
        self._targets = targets
        self._keep(solution)
        self._rule = solution.decision
        self.transduction_: AnyArray = targets.named(
            decided(self._scores(), self._rule), solution.reachable
        )

    def _scores_of_new(self, X: Any) -> tuple[FloatArray, BoolArray]:
        return self._new_scores(X)

    @abstractmethod
    def _keep(self, solution: Solution) -> None:
        """Keep the scores of all nodes under the name they have for users."""


class FeaturedClassifier(GraphClassifier):
    """A classifier of graphs that takes features of the nodes, too."""

    @with_arguments_of(GraphClassifier.fit, "X", "y", "progress")
    def fit(
        self,
        X: Any,
        y: Any,
        features: Any = None,
        *,
        progress: Progress | None = None,
        **further: Any,
    ) -> Self:
        """Classes of all nodes from those of some.

        Parameters
        ----------
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
        sklearn.exceptions.ConvergenceWarning
            The solve ended before the residual asked for was reached.
        UserWarning
            What was computed as asked is hardly what was wanted; says what to do about it.
        """
        self._refuse(further)
        return self._solve(*self._problem(X, y, features), progress)


class ProbabilityClassifier(GraphClassifier):
    """A classifier whose scores are probabilities.

    Those of `Auto` are calibrated by labels left out. Those of `HFS` are what its model makes
    them, chances of random walks or what is made of these by class masses: normalized, and not
    calibrated.

    Attributes
    ----------
    label_distributions_ : (n_nodes, n_classes) float64
        Rows sum to 1; the class prior at nodes that no label reaches.
    """

    def predict_proba(self, X: Any = None, *, nodes: Any = None) -> FloatArray | list[FloatArray]:
        """(n_samples, n_classes) probabilities of samples or nodes, or a list; see `predict`."""
        columns = self._by_column("predict_proba", X, nodes=nodes)
        if columns is not None:
            return columns
        places = self._places(X, nodes)
        if places is not None:
            chosen: FloatArray = self.label_distributions_[places]
            return chosen
        return _distributions(self._new_scores(X)[0])

    def _keep(self, solution: Solution) -> None:
        self.label_distributions_ = _distributions(solution.scores)

    def _scores(self) -> FloatArray:
        return self.label_distributions_


class ScoreClassifier(CalibratedScores, GraphClassifier):
    """A classifier whose scores are no probabilities, unless ``probabilities`` makes them some.

    Attributes
    ----------
    decision_ : (n_nodes, n_classes) float64
        Class scores; the largest wins.
    """

    def decision_function(
        self, X: Any = None, *, nodes: Any = None
    ) -> FloatArray | list[FloatArray]:
        """Class scores of new samples or of nodes; see `predict`.

        Returns
        -------
        (n_samples, n_classes) float64, or (n_samples,) of two classes
            Of two classes the second's score minus the first's, as scikit-learn has it. Of columns
            with two classes each (n_samples, n_columns), of others a list.
        """
        columns = self._by_column("decision_function", X, nodes=nodes)
        if columns is not None:
            return decisions_of_columns(columns)
        places = self._places(X, nodes)
        scores = self._new_scores(X)[0] if places is None else self.decision_[places]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def _keep(self, solution: Solution) -> None:
        self.decision_ = solution.scores

    def _scores(self) -> FloatArray:
        return self.decision_


def _distributions(scores: FloatArray) -> FloatArray:
    """Rows in [0, 1] that sum to 1: the solves meet both up to their tolerance."""
    clipped = scores.clip(0.0, 1.0)
    distributions: FloatArray = clipped / clipped.sum(axis=1, keepdims=True)
    return distributions
