"""Base of the estimators of inductive models: of features, and a graph made or given."""

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.estimators.base import graph_of, is_by_node
from peewit.solvers.estimators.classifier import Classifier
from peewit.solvers.estimators.edge_tables import graphs_of_tables, is_edge_table
from peewit.solvers.estimators.frames import in_order, rows_of_nodes
from peewit.solvers.estimators.named_relations import names_of
from peewit.solvers.estimators.targets import ClassTargets, decisions_of_columns, target_columns
from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.solvers.solution import Solution


class InductiveClassifier(Classifier):
    """Base of the classifiers; further attributes are those of `ModelEstimator`.

    Attributes
    ----------
    classes_ : (n_classes,) array
        Distinct classes, sorted, in the type of ``y``.
    decision_ : (n_samples, n_classes) float64
        Class scores; the largest wins. Of two classes the second column is the decision value,
        the first its negative.
    transduction_ : (n_samples,) array
        Class of every sample.
    n_features_in_ : int
        Columns of the features.
    """

    _model: ClassVar[type[InductiveModel]]

    max_bytes: int = hyperparameter(
        4 << 30,
        Rule(
            doc="Memory that a Gram matrix and the method may take, or rows of a linear machine.",
            kind=int,
            minimum=1,
        ),
    )

    def fit(
        self, X: Any, y: Any, graph: Any = None, *, progress: Progress | None = None, **further: Any
    ) -> Self:
        """Functions that predict any sample, from features of all and labels of some.

        Parameters
        ----------
        X : (n_samples, n_features) array, scipy sparse matrix or data frame
            Features. Where the graph has names, rows of a frame are those of the nodes that its
            index or its column ``node`` names; the samples are then all nodes of the graph, and
            those without a row have no features.
        y : (n_samples,) or (n_samples, n_columns) array-like, or mapping
            Class of each sample: strings or whole numbers; ``unlabeled`` where it is not known.
            Columns are predicted one by one and share the preparation; of several
            labels at a time, columns of 0 and 1 say which a sample has. Of rows with names either
            one entry for each row, or classes by node, as a mapping or a Series.
        graph : Graph, (n_samples, n_samples) array or scipy sparse matrix, or None
            The graph, what `peewit.sparsify` returns, a table of edges (``src``, ``dst``,
            ``weight``), or an adjacency matrix: symmetric, entries >= 0, diagonal ignored. None
            for that of the nearest neighbors. Models without a graph penalty ignore its edges.
        progress : callable or None
            Is told how far each solve is, as a `ProgressReport`; `peewit.ProgressBar` shows it.
        **further
            Refused; ``sample_weight`` with the names of the estimators that heed it.

        Raises
        ------
        TypeError, ValueError
            An argument breaks a rule above, fewer than two classes have a label, a hyperparameter
            breaks its rule, or what it asks for does not fit ``max_bytes``.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            The solve ended before what was asked for was reached.
        UserWarning
            What was computed as asked is hardly what was wanted; says what to do about it.
        """
        self._refuse(further)
        return self._fit(X, y, graph, progress)

    def _fit(self, X: Any, y: Any, graph: Any, progress: Progress | None) -> Self:
        is_table = is_edge_table(graph)
        if is_table:
            graph = graphs_of_tables({"edges": graph})["edges"]
        names = self._node_names = names_of(graph)
        X, places = rows_of_nodes(X, names, "X")
        if is_table and places is None:
            raise BadArgument(
                "X",
                "must name the node of each row, by its index or column 'node', where the graph is "
                "a table of edges",
            )
        if places is None and names is not None and is_by_node(y):
            places = np.arange(len(names))
        if places is None:
            X, y = self._validate(X, y, ensure_min_samples=2)
            self._tell_doubtful_columns(X)
            features, n_nodes = X, X.shape[0]
        else:
            features, y = self._of_nodes(X, y, places)
            n_nodes = len(names)
        max_bytes = self._check("max_bytes")
        model = self._model(**self._hyperparameters())
        samples = self._graph(features, graph, n_nodes)
        prepared = model.prepare(samples, features, kept_bytes=max_bytes)
        return self._solve(model, prepared, y, progress)

    def _of_nodes(self, X: Any, y: Any, places: AnyArray) -> tuple[FeatureRows, AnyArray]:
        """Features of the nodes at ``places``, and ``y`` with an entry for each node."""
        names = self._names
        y = self._at_nodes(y, names, len(names), None if is_by_node(y) else places)
        y = target_columns(validate_data(self, y=self._with_nulls(y), multi_output=True))
        X, _ = self._validate(X, y[places], ensure_min_samples=2)
        self._tell_doubtful_columns(X)
        return in_order(X, places), y

    def _learn(self, prepared: Any, targets: ClassTargets, solution: Solution) -> None:
        self._finish(solution)
        self.classes_ = targets.classes
        self._keep(prepared, solution)
        self.decision_ = solution.scores
        self.transduction_: AnyArray = targets.named(
            solution.scores.argmax(axis=1), solution.reachable
        )

    def decision_function(
        self, X: Any = None, *, nodes: Any = None
    ) -> FloatArray | list[FloatArray]:
        """Class scores of new samples, or of samples of the fit by number; see `predict`.

        Returns
        -------
        (n_samples, n_classes) float64, or (n_samples,) of two classes
            Of two classes the decision value of the second. Of columns with two classes each
            (n_samples, n_columns), of others a list.
        """
        columns = self._by_column("decision_function", X, nodes=nodes)
        if columns is not None:
            return decisions_of_columns(columns)
        places = self._places(X, nodes)
        scores = self._new_scores(X) if places is None else self.decision_[places]
        return scores[:, 1] if scores.shape[1] == 2 else scores

    def predict(self, X: Any = None, *, nodes: Any = None) -> AnyArray:
        """(n_samples,) class of new samples, or (n_samples, n_columns) as ``y`` was.

        Parameters
        ----------
        X : (n_samples, n_features) array or scipy sparse matrix
        nodes : list or vector
            Instead of ``X``: samples of the fit, by the names of nodes where the graph has some,
            else by number.

        Raises
        ------
        ValueError
            ``X`` has another number of features, or an entry that is not finite.
        """
        columns = self._by_column("predict", X, nodes=nodes)
        if columns is not None:
            return np.column_stack(columns)
        places = self._places(X, nodes)
        if places is not None:
            chosen: AnyArray = self.transduction_[places]
            return chosen
        codes = self._decide(self._new_scores(X), True).argmax(axis=1)
        predicted: AnyArray = self.classes_[codes]
        return predicted

    def _keep(self, prepared: Any, solution: Solution) -> None:  # noqa: ARG002 - some keep more
        """Keep what new samples are predicted by."""
        self._functions: Any = None if solution.functions is None else solution.functions.trimmed()

    @one_blas_thread
    def _new_scores(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        scores: FloatArray = self._functions.class_scores(self._validate(X, reset=False))
        return scores

    def _scores_of_new(self, X: Any) -> tuple[FloatArray, BoolArray]:
        scores = self._new_scores(X)
        return scores, np.ones(scores.shape[0], bool)

    def _graph(self, X: Any, graph: Any, n_nodes: int) -> Graph:  # noqa: ARG002 - made where used
        """The graph of the samples; without edges where the model uses none."""
        return Graph.from_edges([], [], [], n_nodes=n_nodes)


class PenalizedClassifier(InductiveClassifier):
    """Base of the classifiers with a graph penalty."""

    n_neighbors: int = hyperparameter(
        10,
        Rule(
            doc="Neighbors of each sample in the graph that is made where one counts and `fit` is "
            "given none.",
            kind=int,
            minimum=1,
        ),
    )

    def _graph(self, X: Any, graph: Any, n_nodes: int) -> Graph:
        """The graph given, or that of nearest neighbors with heat weights (section E.4)."""
        if graph is None:
            n_neighbors = self._check("n_neighbors")
            return neighbor_graph(X, n_neighbors, weights="heat", symmetrize="max")
        sample_graph = graph_of(graph)
        if sample_graph is None:
            sample_graph = Graph.from_adjacency(graph)
        if sample_graph.n_nodes != n_nodes:
            raise ValueError(
                f"graph must have one node per sample, got {sample_graph.n_nodes} nodes for "
                f"{n_nodes} samples"
            )
        return sample_graph
