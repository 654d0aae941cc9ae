"""Base of the estimators that predict numbers."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.estimators.base import GraphEstimator
from peewit.solvers.estimators.node_predictions import NodePredictions
from peewit.solvers.estimators.targets import NumberTargets, are_known, without_nulls
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.models.contract.model import RegressionModel
from peewit.solvers.solution import Solution


class GraphRegressor(RegressorMixin, GraphEstimator):
    """Base of the regressors; further attributes are those of `GraphEstimator`.

    Attributes
    ----------
    transduction_ : (n_nodes,) float64
        Number of every node; nan at nodes that no label reaches.
    """

    _model: ClassVar[type[RegressionModel]]

    def fit(self, X: Any, y: Any, *, progress: Progress | None = None, **further: Any) -> Self:
        """Numbers of all nodes from those of some.

        Parameters
        ----------
        X : Graph, (n_nodes, n_nodes) or (n_nodes, n_features) array or scipy sparse matrix
            With affinity 'precomputed' what `peewit.sparsify` returns, or the adjacency matrix:
            symmetric, entries >= 0, diagonal ignored; or a table of edges with columns ``src`` and
            ``dst``, and ``weight`` where edges have some; or a mapping of names to these, the
            relations of the nodes, which are joined by name where they have names. With affinity
            'knn' features.
        y : (n_nodes,) or (n_nodes, n_columns) array-like, or mapping
            Number of each node; nan where it is not known. Here -1 is a number like others. Or
            numbers by node, as a mapping or a Series whose index has nodes. Columns share the
            preparation of the graph.
        progress : callable or None
            Is told how far each solve is, as a `ProgressReport`; `peewit.ProgressBar` shows it.
        **further
            Refused; ``sample_weight`` with the names of the estimators that heed it.

        Raises
        ------
        TypeError, ValueError
            ``X`` or ``y`` breaks a rule above, no number is known, or a hyperparameter breaks
            its rule.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            The solve ended before the residual asked for was reached.
        """
        self._refuse(further)
        X, y = self._by_node(X, y)
        numbers, known = _numbers(y)
        graph, values = self._graph_and_target(X, numbers, y_numeric=True)
        model: Any = self._model_of(graph)  # takes what there is, a graph or relations
        if not known.all():
            values = np.where(known.reshape(values.shape), values, np.nan)
        return self._solve(model, model.prepare(graph), values, progress)

    def predict(self, X: Any = None, *, nodes: Any = None) -> FloatArray:
        """Numbers of new samples, or of nodes of the fit; nan where no label reaches.

        Parameters
        ----------
        X : (n_samples, n_features) array or scipy sparse matrix
            Features; what was fitted must have been features too.
        nodes : list or vector
            Instead of ``X``: nodes by name, where what was fitted has names (`peewit.sparsify`, a
            data frame), else by number.

        Returns
        -------
        (n_samples,) float64, or (n_samples, n_columns) as ``y`` was

        Raises
        ------
        ValueError
            What was fitted was a graph, or ``X`` has another number of features.
        """
        columns = self._by_column("predict", X, nodes=nodes)
        if columns is not None:
            return np.column_stack(columns)
        places = self._places(X, nodes)
        if places is not None:
            chosen: FloatArray = self.transduction_[places]
            return chosen
        values, reached = self._new_scores(X)
        return np.where(reached, values[:, 0], np.nan)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination over the entries of ``y`` that are not nan."""
        numbers, known = _numbers(y)
        if numbers is None or not known.any():
            raise ValueError("y must hold a number to score by, got nan alone")
        rows = known if known.ndim == 1 else known.all(axis=1)
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(r2_score(numbers[rows], self.predict(X)[rows], sample_weight=weights))

    def _targets_in(self, y: AnyArray) -> NumberTargets:
        return NumberTargets.of_vector(y)

    def _learn(self, prepared: Any, targets: NumberTargets, solution: Solution) -> None:
        del prepared, targets
        self._finish(solution)
        self.transduction_ = np.where(solution.reachable, solution.scores[:, 0], np.nan)

    def _predictions_of(self, nodes: Any) -> NodePredictions:
        return NodePredictions.of_numbers(
            nodes, self.transduction_, self.reachable_, model=type(self).__name__
        )

    def _scores(self) -> FloatArray:
        return np.where(self.reachable_, self.transduction_, 0.0)[:, None]


def _numbers(y: Any) -> tuple[AnyArray | None, BoolArray]:
    """``y`` with 0 in place of nan, and where it was not nan; further checks are the caller's."""
    if y is None:
        return None, np.zeros(0, bool)
    numbers: AnyArray = np.asarray(without_nulls(y))
    if numbers.dtype.kind == "O":
        numbers = numbers.astype(np.float64)
    known = are_known(numbers)
    return np.where(known, numbers, np.zeros((), numbers.dtype)), known
