"""What estimators share, and those of graph models: the graph of what is passed.

An estimator is a model's hyperparameters with a graph in front. Whatever is learned is kept in
attributes that end in an underscore; nothing is kept from one `fit` to the next.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.estimators.neighbors import Neighborhood
from peewit.solvers.graph import Graph
from peewit.solvers.models.base import Model, Rule
from peewit.solvers.solution import Solution, Status

_AFFINITIES = ("precomputed", "knn")
N_NEIGHBORS = Rule(doc="Neighbors of each sample.", kind=int, minimum=1)
FORMATS = ("csr", "csc", "coo")


class ModelEstimator(BaseEstimator):
    """Base of the estimators: the model behind one, and what is kept of a solve.

    Attributes
    ----------
    reachable_ : (n_nodes,) bool
        Whether a labeled node lies in the node's component; everywhere where features were used.
    status_ : peewit.solvers.solution.Status
        How the solve ended.
    stats_ : dict
        Figures of the solve, such as ``graph_penalty``.
    n_iter_ : int
        Iterations of the solve.
    """

    _model: ClassVar[type[Model]]
    _left_out: ClassVar[frozenset[str]] = frozenset()
    """Hyperparameters of the model that mean nothing to this estimator."""

    def _hyperparameters(self) -> dict[str, Any]:
        """What the model takes of the parameters set here."""
        names = {parameter.name for parameter in fields(self._model)} - self._left_out
        return {name: plain(getattr(self, name)) for name in names}

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
                stacklevel=3,
            )
        for warning in solution.warnings:
            warnings.warn(f"{type(self).__name__}: {warning}", UserWarning, stacklevel=3)


class GraphEstimator(ModelEstimator):
    """Base of the estimators of graph models.

    Subclasses name their model and take its hyperparameters, `affinity` and `n_neighbors` in
    their constructors.

    Attributes
    ----------
    n_features_in_ : int
        Columns of what was fitted: nodes of the graph, or features.
    """

    _neighborhood: Neighborhood | None

    affinity: str
    n_neighbors: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = tags.input_tags.positive_only = self.affinity == "precomputed"
        tags.target_tags.required = True
        return tags

    def _graph_and_target(self, X: Any, y: Any, **checks: Any) -> tuple[Graph, AnyArray]:
        """The graph that ``X`` is or leads to, and ``y`` as an array with one entry per node.

        Raises
        ------
        ValueError
            ``affinity`` is unknown; ``X`` or ``y`` has a wrong shape or an entry that is not
            finite; as an adjacency matrix, ``X`` is not symmetric or has a negative entry.
        """
        if self.affinity not in _AFFINITIES:
            raise ValueError(f"affinity must be one of {_AFFINITIES}, got {self.affinity!r}")
        if isinstance(X, Graph):
            return self._given_graph(X, y, checks)
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse=FORMATS,
            dtype=(np.float64, np.float32),
            ensure_min_samples=2,
            **checks,
        )
        if self.affinity == "precomputed":
            self._neighborhood = None
            if X.shape[0] != X.shape[1]:
                raise ValueError(
                    f"X must be the square adjacency matrix of a graph, got shape {X.shape}; "
                    "of features affinity='knn' makes one"
                )
            return Graph.from_adjacency(X), y
        n_neighbors = plain(self.n_neighbors)
        N_NEIGHBORS.check("n_neighbors", n_neighbors)
        neighborhood = Neighborhood.of_points(X, n_neighbors)
        self._neighborhood = neighborhood
        return neighborhood.graph(), y

    def _given_graph(self, graph: Graph, y: Any, checks: dict[str, Any]) -> tuple[Graph, AnyArray]:
        """``graph`` itself, checked against ``y``."""
        if self.affinity != "precomputed":
            raise ValueError(
                f"affinity must be 'precomputed' when a Graph is given, got {self.affinity!r}"
            )
        y = validate_data(self, y=y, **checks)
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
        points = validate_data(
            self, X, accept_sparse=FORMATS, dtype=(np.float64, np.float32), reset=False
        )
        return self._neighborhood.extend(points, self._scores(), self.reachable_)

    @abstractmethod
    def _scores(self) -> FloatArray:
        """(n_nodes, k) scores of all nodes."""


def plain(value: Any) -> Any:
    """Numpy scalars, such as a parameter grid holds, as Python numbers; also those of mappings."""
    if isinstance(value, Mapping):
        return {plain(name): plain(each) for name, each in value.items()}
    return value.item() if isinstance(value, np.generic) else value
