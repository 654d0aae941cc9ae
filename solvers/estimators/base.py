"""Base of estimators, and of those of graph models: the graph of what is passed.

An estimator is a model's hyperparameters with a graph in front. Whatever is learned is kept in
attributes that end in an underscore; nothing is kept from one `fit` to the next.
"""

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.doubtful_columns import DoubtfulColumns
from peewit.solvers.estimators.documentation import with_parameters
from peewit.solvers.estimators.edge_tables import column_names, graphs_of_tables, is_edge_table
from peewit.solvers.estimators.frames import (
    ENCODE,
    entries_of_index,
    index_names,
    refuse_two_readings,
    require_numbers,
)
from peewit.solvers.estimators.graph_of_features import Neighborhood
from peewit.solvers.estimators.kinds import Kinds
from peewit.solvers.estimators.named_relations import NamedRelations, names_of
from peewit.solvers.estimators.node_predictions import NodePredictions, places_of
from peewit.solvers.estimators.targets import Targets, target_columns, without_nulls
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter, rule_of
from peewit.solvers.interchange import is_anndata
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.late_modules import LateModule
from peewit.solvers.models.contract.model import Model, of_column
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.relations.solving import RelationModel, RelationSolution
from peewit.solvers.relations.weight_texts import BY_LABELS, parsed_weights
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

pa = LateModule("pyarrow")
sp = LateModule("scipy.sparse")

_EDGES = "a table of edges has columns src and dst, and peewit.sparsify takes other names"
"""Way out of a frame without numbers where a graph should be."""

_AFFINITIES = ("precomputed", "knn")

_STACKED = ("reachable_", "transduction_")
_LISTED = ("classes_", "label_distributions_", "decision_", "status_", "stats_", "relations_")
"""Attributes of several columns of ``y``: arrays side by side, or one entry for each."""

_OF_FIT = 5  # who called `fit`, which led here by `_solve` and `_learn`


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

    def _check(self, name: str) -> Any:
        """A parameter that keeps its rule; raises TypeError or ValueError."""
        value = plain(getattr(self, name))
        rule_of(self.__dataclass_fields__[name]).check(name, value)
        return value

    def _validate(self, X: Any, *y: Any, **checks: Any) -> Any:
        """``X``, or ``X`` and ``y``, as arrays or scipy sparse matrices; of ``y`` an array."""
        formats, dtypes = ("csr", "csc", "coo"), (np.float64, np.float32)
        if y:
            checks["multi_output"] = True
            y = (self._with_nulls(y[0]),)
        arrays = validate_data(self, X, *y, accept_sparse=formats, dtype=dtypes, **checks)
        return (arrays[0], target_columns(arrays[1])) if y else arrays

    def _at_nodes(self, y: Any, names: Any, n_nodes: int, places: Any = None) -> Any:
        """``y`` with an entry per node: those it names, or those at ``places`` of its rows.

        What it names without a value has no label.
        """
        if places is None:
            y = y if isinstance(y, Mapping) else entries_of_index(y, "y")
            places = places_of(list(y), names, n_nodes, "y")
            values = without_nulls(np.array([plain(value) for value in y.values()], object))
            is_none = np.array([value is None for value in values], bool)
            values = np.where(is_none, self._no_label(), values)
        else:
            values = np.asarray(y, object)
        if values.shape[:1] != places.shape:
            raise BadArgument(
                "y", f"must have one entry per row of features, got {len(values)} for {len(places)}"
            )
        entries = np.full((n_nodes, *values.shape[1:]), self._no_label(), object)
        entries[places] = values
        has_text = any(isinstance(each, str) for each in entries.flat)
        return entries if has_text else entries.tolist()

    def _no_label(self) -> Any:
        """What stands in ``y`` where there is no label."""
        return float("nan")

    def _tell_doubtful_columns(self, X: Any) -> None:
        """Warn of features that count the samples, or are called as labels are."""
        columns = DoubtfulColumns(getattr(self, "feature_names_in_", None))
        if not sp.issparse(X):
            columns.look(X)
        if (note := columns.note()) is not None:
            warnings.warn(f"{type(self).__name__}: {note}", UserWarning, stacklevel=_OF_FIT)

    def _with_nulls(self, y: Any) -> Any:
        """``y`` with None where a label may be missing."""
        return y

    def _solve(
        self, model: Model, prepared: Any, y: AnyArray, progress: Progress | None = None
    ) -> Self:
        """The estimator with what solves for ``y`` tell; of columns each has one of its own."""
        self.__dict__.pop("estimators_", None)  # of a fit before
        if y.ndim == 1:
            targets = self._targets_in(y)
            solution = model.solve(prepared, targets.labels, progress=progress)
            self._keep_answers(model, prepared, targets, solution, progress)
            return self
        columns: list[Targets] = []
        for place, column in enumerate(y.T):
            with of_column(place):
                columns.append(self._targets_in(column))
        labels = [targets.labels for targets in columns]
        solutions = model.solve_many(prepared, labels, progress=progress)
        learned = [copy(self) for _ in columns]
        for estimator, targets, solution in zip(learned, columns, solutions, strict=True):
            estimator._keep_answers(model, prepared, targets, solution, progress)
        for name in _STACKED + _LISTED:
            if hasattr(learned[0], name):
                values = [getattr(estimator, name) for estimator in learned]
                setattr(self, name, np.column_stack(values) if name in _STACKED else values)
        self.n_iter_ = max(int(solution.stats["n_iter"]) for solution in solutions)
        self.estimators_ = learned
        return self

    def _keep_answers(
        self,
        model: Model,
        prepared: Any,
        targets: Targets,
        solution: Solution,
        progress: Progress | None,
    ) -> None:
        """Keep what a solve for one column tells, and what calibration makes of it."""
        self._learn(prepared, targets, solution)
        self._calibrate(model, prepared, targets, solution, progress)
        self._labeled_nodes = targets.labels.nodes

    def _by_column(self, method: str, *samples: Any, **chosen: Any) -> list[Any] | None:
        """What the estimators of columns answer; None where ``y`` was a vector."""
        learned = getattr(self, "estimators_", None)
        if learned is None:
            return None
        return [getattr(estimator, method)(*samples, **chosen) for estimator in learned]

    def _places(self, X: Any, nodes: Any) -> AnyArray | None:
        """Places of fitted nodes; None where new samples are given, which excludes nodes."""
        check_is_fitted(self)
        if (X is None) == (nodes is None):
            received = "neither" if X is None else "both"
            raise ValueError(f"give either X, new samples, or nodes of the fit, got {received}")
        if nodes is None:
            return None
        return places_of(nodes, self._names, self.transduction_.shape[0])

    @property
    def _names(self) -> Any:
        """Names of the nodes as a pyarrow.Array; None where they have none."""
        return getattr(self, "_node_names", None)

    def predictions(
        self, kinds: str | Sequence[str] | None = None, *, coverage: float | None = None
    ) -> NodePredictions:
        """What is predicted of each node, as a table with their names.

        Parameters
        ----------
        kinds : str, sequence of str or None
            Of a graph whose nodes are named KIND:ID: the kinds to tell of, in tables that have the
            columns ``kind`` and ``id``, too. None for those that have labels; the others carry
            these on.
        coverage : float or None
            Adds the columns ``labels``, a set that holds the true class with this chance, and
            ``certain``, whether it holds one class. Of classifiers with ``sets=True``.

        Raises
        ------
        ValueError
            ``y`` had several columns: ``estimators_`` has an estimator for each. Or ``kinds`` names
            one that is none, or there are no sets, or none of this ``coverage``.
        """
        check_is_fitted(self)
        if hasattr(self, "estimators_"):
            raise ValueError(
                f"y had {len(self.estimators_)} columns, each with predictions of its own: "
                "ask estimators_[0] and so on"
            )
        names = self._names
        n_nodes = self.transduction_.shape[0]
        found = self._predictions_of(pa.array(np.arange(n_nodes)) if names is None else names)
        if coverage is not None:
            found = self._with_sets(found, coverage)
        known = Kinds.of(names)
        if known is not None:
            wanted = [kinds] if isinstance(kinds, str) else kinds
            return found.of_kinds(known, wanted or known.among(self._labeled_nodes))
        if kinds is not None:
            raise BadArgument(
                "kinds",
                f"must be left out where not all nodes are named KIND:ID, got {kinds!r}; "
                "`peewit.sparsify(src='account:COLUMN')` names them so",
            )
        return found

    @abstractmethod
    def _predictions_of(self, nodes: Any) -> NodePredictions:
        """The table of all nodes, which have these names."""

    def _with_sets(self, found: NodePredictions, coverage: float) -> NodePredictions:
        """The table of all nodes with sets of classes."""
        del found
        raise BadArgument("coverage", f"must be left out where numbers are predicted: {coverage}")

    def _refuse(self, further: Mapping[str, Any]) -> None:
        """Refuse arguments of `fit` that it does not know; of weights tell who heeds them."""
        if "sample_weight" in further:
            raise TypeError(
                f"{type(self).__name__} cannot weigh samples, got sample_weight; LinearSVM, TSVM "
                "and DASVM can"
            )
        if further:
            raise TypeError(f"fit() got an unexpected keyword argument {next(iter(further))!r}")

    def _calibrate(
        self,
        model: Model,
        prepared: Any,
        targets: Any,
        solution: Solution,
        progress: Progress | None,
    ) -> None:
        """Learn from labels left out, for estimators that can."""
        del model, prepared, targets, solution, progress

    def _decide(self, scores: FloatArray, reached: Any) -> FloatArray:
        """By what classes are chosen: the largest of a row."""
        del reached
        return scores

    def _scores_of_new(self, X: Any) -> tuple[FloatArray, BoolArray]:
        """Scores of new samples, and whether a label reaches them."""
        raise NotImplementedError

    @abstractmethod
    def _targets_in(self, y: AnyArray) -> Targets:
        """Labels and what else is to be known of a vector; raises TypeError or ValueError."""

    @abstractmethod
    def _learn(self, prepared: Any, targets: Any, solution: Solution) -> None:
        """Keep what a solve for one column tells."""

    def _finish(self, solution: Solution) -> None:
        """Keep the figures of a solve, and warn of what is short of perfect."""
        if isinstance(solution, RelationSolution):
            self.relations_ = solution.choice
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


class GraphEstimator(ModelEstimator):
    """Base of the estimators of graph models.

    Attributes
    ----------
    n_features_in_ : int
        Columns of what was fitted: nodes of the graph, or features.
    relations_ : peewit.solvers.relations.choice.RelationChoice
        Of several relations: their weights, and what left-out labels say of each.
    """

    affinity: Literal["precomputed", "knn"] = field(
        default="precomputed",
        metadata={"doc": "Whether `fit` takes a graph, or features whose neighbors make one."},
    )
    n_neighbors: int = hyperparameter(
        10, Rule(doc="Neighbors of each sample, with affinity 'knn'.", kind=int, minimum=1)
    )
    relations: str = field(
        default=BY_LABELS,
        metadata={
            "doc": "Weights of the relations of a mapping, such as 'card=3,message=0'; those that "
            "are not mentioned are 1. 'auto' lets labels choose."
        },
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = self.affinity == "precomputed"
        return tags

    def _model_of(self, graph: Graph | RelationGraphs) -> Model:
        """The model, on relations where there are some.

        `BadArgument` for weights of relations that are unknown, or of a single graph.
        """
        self.__dict__.pop("relations_", None)  # of a fit before
        model = self._model(**self._hyperparameters())
        if isinstance(graph, RelationGraphs):
            chosen = self.relations == BY_LABELS
            weights = None if chosen else parsed_weights(self.relations, graph.names)
            return RelationModel(model=model, weights=weights)
        if self.relations != BY_LABELS:
            raise BadArgument(
                "relations",
                f"must be {BY_LABELS!r} unless X is a mapping of graphs, got {self.relations!r}",
            )
        return model

    def _graph_and_target(
        self, X: Any, y: Any, **checks: Any
    ) -> tuple[Graph | RelationGraphs, AnyArray]:
        """The graph or relations that ``X`` is or leads to, and ``y`` with a row per node.

        Raises
        ------
        TypeError
            ``X`` is a graph of networkx, or an AnnData.
        ValueError
            ``affinity`` is unknown; ``X`` or ``y`` has a wrong shape or an entry that is not
            finite; as an adjacency matrix, ``X`` is not symmetric or has a negative entry.
        """
        if self.affinity not in _AFFINITIES:
            raise ValueError(f"affinity must be one of {_AFFINITIES}, got {self.affinity!r}")
        X, y = self._by_node(X, y)
        if (graph := graph_of(X)) is not None:
            self._node_names = getattr(X, "external_ids", None)
            graph, y = self._check_graph(graph, y, checks)
            return getattr(X, "relations", graph), y
        self._node_names = None
        X, y = self._validate(X, y, ensure_min_samples=2, **checks)
        self._neighborhood: Neighborhood | None = None
        if self.affinity == "precomputed":
            if X.shape[0] != X.shape[1]:
                raise ValueError(
                    "X must be the square adjacency matrix of a graph, got shape "
                    f"{X.shape}; say affinity='knn' to make one from features"
                )
            columns = getattr(self, "feature_names_in_", None)  # of a data frame, named by nodes
            self._node_names = None if columns is None else pa.array(columns)
            return Graph.from_adjacency(X), y
        self._tell_doubtful_columns(X)
        self._neighborhood = Neighborhood.of_points(X, self._check("n_neighbors"))
        return self._neighborhood.graph(), y

    def _by_node(self, X: Any, y: Any) -> tuple[Any, Any]:
        """A graph of a table of edges or joined relations of a mapping, and one entry per node.

        Of a ``y`` by node, that is: a mapping or a Series of named nodes; another stays as it is.

        Raises
        ------
        ValueError
            ``y`` names a node that is none, or names none where relations differ in their nodes or
            tables of edges name them; such a table breaks the edge contract.
        """
        _refuse_graphs_of_others(X)
        is_one_order = True
        if isinstance(X, Mapping) and not sp.issparse(X):  # scipy has matrices that are both
            X = NamedRelations.of(X)
            is_one_order = X.is_one_order
        elif self.affinity == "precomputed" and is_edge_table(X):
            X, is_one_order = graphs_of_tables({"edges": X})["edges"], False
        else:
            require_numbers(X, "X", _EDGES if self.affinity == "precomputed" else ENCODE)
            self._require_square(X)
        if not (is_one_order or is_by_node(y)):
            raise BadArgument(
                "y",
                "must name its nodes, as a mapping or a Series, where tables or relations have "
                f"them in orders of their own, got {type(y).__name__}",
            )
        graph, names = graph_of(X), getattr(X, "external_ids", None)
        if not is_by_node(y):
            refuse_two_readings(y, names, "y")
            return X, y
        n_nodes = X.shape[0] if graph is None else graph.n_nodes
        if not isinstance(y, Mapping):
            if names is None:  # rows of an array or a frame go by place, as everywhere
                return X, y
        elif self.affinity == "precomputed":
            names = names_of(X)
        return X, self._at_nodes(y, names, n_nodes)

    def _require_square(self, X: Any) -> None:
        """Raise `BadArgument` where a frame is no adjacency matrix, as one of edges is none."""
        columns = column_names(X)
        if self.affinity == "precomputed" and columns is not None and len(columns) != len(X):
            raise BadArgument(
                "X",
                "must be a square adjacency matrix, or features with affinity='knn', got "
                f"{len(X):,} rows and {len(columns):,} columns; {_EDGES}",
            )

    def _check_graph(self, graph: Graph, y: Any, checks: dict[str, Any]) -> tuple[Graph, AnyArray]:
        """``graph`` itself, checked against ``y``."""
        if self.affinity != "precomputed":
            raise ValueError(
                f"affinity must be 'precomputed' when a Graph is given, got {self.affinity!r}"
            )
        y = self._with_nulls(y)
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

        A graph that was given ties no new point to its nodes, and is refused.
        """
        check_is_fitted(self)
        if self._neighborhood is None:
            raise ValueError(
                "new samples need a fit with affinity='knn': a graph that was given holds no ties "
                "to nodes outside it. Ask for nodes=..., or fit a graph with the new nodes in it"
            )
        points = self._validate(X, reset=False)
        return self._neighborhood.extend(points, self._scores(), self.reachable_)

    @abstractmethod
    def _scores(self) -> FloatArray:
        """(n_nodes, k) scores of all nodes."""


def _refuse_graphs_of_others(X: Any) -> None:
    """Raise TypeError for a graph of networkx and an AnnData, which ``sparsify`` takes."""
    if hasattr(X, "adj") and hasattr(X, "is_directed"):
        raise TypeError(
            "X must be an adjacency matrix or a graph of Peewit, got one of networkx; give "
            "peewit.sparsify(X), which keeps the names, or networkx.to_scipy_sparse_array(X)"
        )
    if is_anndata(X):
        raise TypeError(
            "X must be an adjacency matrix or a graph of Peewit, got an AnnData; give "
            "peewit.sparsify(X), which keeps the names"
        )


def is_by_node(y: Any) -> bool:
    """Whether ``y`` names its nodes: a mapping, or a Series that is not numbered from 0 on."""
    if isinstance(y, Mapping):
        return True
    return getattr(y, "ndim", 1) == 1 and index_names(y) is not None


def graph_of(source: Any) -> Graph | None:
    """The graph that was given, as itself or as `peewit.sparsify` returns it; else None."""
    graph = getattr(source, "graph", source)
    return graph if isinstance(graph, Graph) else None


def plain(value: Any) -> Any:
    """Numpy scalars, such as a parameter grid holds, as Python numbers; also those of mappings."""
    if isinstance(value, Mapping):
        return {plain(name): plain(entry) for name, entry in value.items()}
    return value.item() if isinstance(value, np.generic) else value
