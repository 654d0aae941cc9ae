"""Base of estimators, and of those of graph models: the graph of what is passed.

An estimator is a model's hyperparameters with a graph in front. Whatever is learned is kept in
attributes that end in an underscore; nothing is kept from one `fit` to the next.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.estimators.documentation import with_parameters
from peewit.solvers.estimators.graph_of_features import Neighborhood
from peewit.solvers.estimators.targets import ClassTargets, Marker, Targets, target_columns
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter, rule_of
from peewit.solvers.models.base import Model, of_column
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

_AFFINITIES = ("precomputed", "knn")

_STACKED = ("reachable_", "transduction_")
_LISTED = ("classes_", "label_distributions_", "decision_", "status_", "stats_")
"""Attributes of several columns of ``y``: arrays side by side, or one entry for each."""

_OF_FIT = 5  # who called `fit`, which led here by `_solved` and `_learn`


@dataclass_transform(kw_only_default=True, eq_default=False)
class ModelEstimator(BaseEstimator):
    """Base of the estimators: the model behind one, and what is kept of a solve.

    Annotated names are parameters: every subclass is made a dataclass, whose constructor
    scikit-learn and type checkers read, and one that names its model gets documentation of them.

    Attributes
    ----------
    reachable_ : (n_nodes,) bool
        Whether a labeled node lies in the node's component; everywhere where features were used.
    status_ : peewit.solvers.status.Status
        How the solve ended.
    stats_ : dict
        Figures of the solve, such as ``graph_penalty``.
    n_iter_ : int
        Iterations of the solve; of several columns the most.
    estimators_ : list of the estimator's class
        Where ``y`` had several columns, one that is fitted on each. Attributes with a row per node
        then have a column for each of ``y``, and the others are lists of what they are for each.
    """

    _model: ClassVar[type[Model]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        if "_model" in vars(cls):
            cls.__doc__ = with_parameters(cls, cls._model)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def _hyperparameters(self) -> dict[str, Any]:
        """The parameters that are the model's, too; it has its defaults for those left out."""
        names = {each.name for each in fields(self)} & {each.name for each in fields(self._model)}
        return {name: plain(getattr(self, name)) for name in names}

    def _checked(self, name: str) -> Any:
        """A parameter that keeps its rule; raises TypeError or ValueError."""
        value = plain(getattr(self, name))
        rule_of(self.__dataclass_fields__[name]).check(name, value)
        return value

    def _validated(self, X: Any, *y: Any, **checks: Any) -> Any:
        """``X``, or ``X`` and ``y``, as arrays or scipy sparse matrices; of ``y`` an array."""
        formats, dtypes = ("csr", "csc", "coo"), (np.float64, np.float32)
        if y:
            checks["multi_output"] = True
        found = validate_data(self, X, *y, accept_sparse=formats, dtype=dtypes, **checks)
        return (found[0], target_columns(found[1])) if y else found

    def _solved(self, model: Model, prepared: Any, y: AnyArray) -> Self:
        """The estimator with what solves for ``y`` tell; of columns each has one of its own."""
        self.__dict__.pop("estimators_", None)  # of a fit before
        if y.ndim == 1:
            targets = self._targets_in(y)
            self._learn(prepared, targets, model.solve(prepared, targets.labels))
            return self
        columns: list[Targets] = []
        for place, column in enumerate(y.T):
            with of_column(place):
                columns.append(self._targets_in(column))
        solutions = model.solve_many(prepared, [targets.labels for targets in columns])
        learned = [copy(self) for _ in columns]
        for estimator, targets, solution in zip(learned, columns, solutions, strict=True):
            estimator._learn(prepared, targets, solution)
        for name in _STACKED + _LISTED:
            if hasattr(learned[0], name):
                values = [getattr(each, name) for each in learned]
                setattr(self, name, np.column_stack(values) if name in _STACKED else values)
        self.n_iter_ = max(int(solution.stats["n_iter"]) for solution in solutions)
        self.estimators_ = learned
        return self

    def _by_column(self, method: str, *samples: Any) -> list[Any] | None:
        """What the estimators of columns answer; None where ``y`` was a vector."""
        learned = getattr(self, "estimators_", None)
        return None if learned is None else [getattr(each, method)(*samples) for each in learned]

    @abstractmethod
    def _targets_in(self, y: AnyArray) -> Targets:
        """Labels and what else is to be known of a vector; raises TypeError or ValueError."""

    @abstractmethod
    def _learn(self, prepared: Any, targets: Any, solution: Solution) -> None:
        """Keep what a solve for one column tells."""

    def _finish(self, solution: Solution) -> None:
        """Keep the figures of a solve, and warn of what is short of perfect."""
        self.reachable_ = solution.reachable
        self.status_ = solution.status
        self.stats_ = dict(solution.stats)
        self.n_iter_ = int(solution.stats["n_iter"])
        if solution.status is not Status.CONVERGED:
            warnings.warn(
                f"{type(self).__name__} did not converge in {self.n_iter_} iterations: "
                f"{solution.status.message}; {solution.status.advice}",
                ConvergenceWarning,
                stacklevel=_OF_FIT,
            )
        for warning in solution.warnings:
            warnings.warn(f"{type(self).__name__}: {warning}", UserWarning, stacklevel=_OF_FIT)


class Classifier(ClassifierMixin, ModelEstimator):
    """Base of the estimators that predict classes."""

    unlabeled: Marker = field(
        default=-1, metadata={"doc": "What marks entries of ``y`` without label."}
    )

    def _targets_in(self, y: AnyArray) -> ClassTargets:
        return ClassTargets.of_vector(y, plain(self.unlabeled))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class GraphEstimator(ModelEstimator):
    """Base of the estimators of graph models.

    Attributes
    ----------
    n_features_in_ : int
        Columns of what was fitted: nodes of the graph, or features.
    """

    affinity: Literal["precomputed", "knn"] = field(
        default="precomputed",
        metadata={"doc": "Whether `fit` takes a graph, or features whose neighbors make one."},
    )
    n_neighbors: int = hyperparameter(
        10, Rule(doc="Neighbors of each sample, with affinity 'knn'.", kind=int, minimum=1)
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = self.affinity == "precomputed"
        return tags

    def _graph_and_target(self, X: Any, y: Any, **checks: Any) -> tuple[Graph, AnyArray]:
        """The graph that ``X`` is or leads to, and ``y`` with one entry or row per node.

        Raises
        ------
        ValueError
            ``affinity`` is unknown; ``X`` or ``y`` has a wrong shape or an entry that is not
            finite; as an adjacency matrix, ``X`` is not symmetric or has a negative entry.
        """
        if self.affinity not in _AFFINITIES:
            raise ValueError(f"affinity must be one of {_AFFINITIES}, got {self.affinity!r}")
        if (given := graph_of(X)) is not None:
            return self._given_graph(given, y, checks)
        X, y = self._validated(X, y, ensure_min_samples=2, **checks)
        self._neighborhood: Neighborhood | None = None
        if self.affinity == "precomputed":
            if X.shape[0] != X.shape[1]:
                raise ValueError(
                    f"X must be the square adjacency matrix of a graph, got shape {X.shape}; "
                    "of features affinity='knn' makes one"
                )
            return Graph.from_adjacency(X), y
        self._neighborhood = Neighborhood.of_points(X, self._checked("n_neighbors"))
        return self._neighborhood.graph(), y

    def _given_graph(self, graph: Graph, y: Any, checks: dict[str, Any]) -> tuple[Graph, AnyArray]:
        """``graph`` itself, checked against ``y``."""
        if self.affinity != "precomputed":
            raise ValueError(
                f"affinity must be 'precomputed' when a Graph is given, got {self.affinity!r}"
            )
        y = target_columns(validate_data(self, y=y, multi_output=True, **checks))
        if y.shape[0] != graph.n_nodes:
            raise ValueError(
                f"y must have one entry per node, got {y.shape[0]} for {graph.n_nodes} nodes"
            )
        self.n_features_in_ = graph.n_nodes
        self._neighborhood = None
        return graph, y

    def _new_scores(self, X: Any) -> tuple[FloatArray, BoolArray]:
        """Scores of new points, and whether a label reaches them.

        Raises
        ------
        ValueError
            The graph was given, so nothing ties new points to its nodes.
        """
        check_is_fitted(self)
        if self._neighborhood is None:
            raise ValueError(
                "new samples need a fit with affinity='knn': a graph that was given holds no ties "
                "to nodes outside it. Read transduction_, or fit a graph with the new nodes in it"
            )
        points = self._validated(X, reset=False)
        return self._neighborhood.extend(points, self._scores(), self.reachable_)

    @abstractmethod
    def _scores(self) -> FloatArray:
        """(n_nodes, k) scores of all nodes."""


def graph_of(given: Any) -> Graph | None:
    """The graph that was given, as itself or as `peewit.sparsify` returns it; else None."""
    graph = getattr(given, "graph", given)
    return graph if isinstance(graph, Graph) else None


def plain(value: Any) -> Any:
    """Numpy scalars, such as a parameter grid holds, as Python numbers; also those of mappings."""
    if isinstance(value, Mapping):
        return {plain(name): plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
