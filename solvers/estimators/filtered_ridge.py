"""Filtered ridge behind scikit-learn's interface."""

from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from peewit.solvers.arrays import AnyArray, FloatArray
from peewit.solvers.estimators.calibrated_scores import CalibratedScores
from peewit.solvers.estimators.inductive_base import PenalizedClassifier
from peewit.solvers.estimators.targets import decisions_of_columns
from peewit.solvers.models.linear import filtered_ridge
from peewit.solvers.solution import Solution


class FilteredRidge(CalibratedScores, PenalizedClassifier):
    """Ridge regression on features smoothed along the graph (section K.1).

    `models.filtered_ridge.FilteredRidge` as an estimator. New samples may have edges to those
    fitted.
    """

    _model = filtered_ridge.FilteredRidge

    teleport: float | Literal["auto"] = "auto"
    norm_penalty: float = 1.0

    def decision_function(
        self, X: Any = None, edges: Any = None, *, nodes: Any = None
    ) -> FloatArray | list[FloatArray]:
        """Class scores of new samples, or of samples of the fit; see `predict`.

        Returns
        -------
        (n_samples, n_classes) float64, or (n_samples,) of two classes
            Of two classes the second's score minus the first's, as scikit-learn has it. Of columns
            with two classes each (n_samples, n_columns), of others a list.
        """
        columns = self._by_column("decision_function", X, edges, nodes=nodes)
        if columns is not None:
            return decisions_of_columns(columns)
        places = self._places(X, nodes)
        scores = self._join(X, edges) if places is None else self.decision_[places]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any = None, edges: Any = None, *, nodes: Any = None) -> AnyArray:
        """(n_samples,) class of new samples, or (n_samples, n_columns) as ``y`` was.

        Parameters
        ----------
        X : (n_samples, n_features) array or scipy sparse matrix
        edges : (n_samples, n_fitted) array or scipy sparse matrix, or None
            Weights >= 0 of edges to the samples fitted, in the unit of the graph's.
        nodes : list or vector
            Instead of ``X``: samples of the fit, by the names of nodes where the graph has some,
            else by number.

        Raises
        ------
        ValueError
            ``X`` has another number of features, ``edges`` another shape, or an entry that is not
            finite.
        """
        columns = self._by_column("predict", X, edges, nodes=nodes)
        if columns is not None:
            return np.column_stack(columns)
        places = self._places(X, nodes)
        if places is not None:
            chosen: AnyArray = self.transduction_[places]
            return chosen
        codes = self._decide(self._join(X, edges), True).argmax(axis=1)
        predicted: AnyArray = self.classes_[codes]
        return predicted

    def _join(self, X: Any, edges: Any) -> FloatArray:
        check_is_fitted(self)
        own = self._new_scores(X)
        if edges is None:
            return own
        if self.stats_["arm"] == "points":
            raise ValueError(filtered_ridge.no_place("points"))
        teleport, constant = float(self.stats_["teleport"]), self._functions.weights[-1]
        node_scores = filtered_ridge.edge_scores(self.decision_, self._inverse_root, constant)
        return filtered_ridge.joined_scores(own, edges, node_scores, teleport, constant)

    def _keep(self, prepared: Any, solution: Solution) -> None:
        super()._keep(prepared, solution)
        self._inverse_root = prepared.columns.pagerank.inverse_root
