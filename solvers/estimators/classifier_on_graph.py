"""Any classifier of scikit-learn's on what graph, features and labels say of each node."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import AnyArray, Float32Array
from peewit.solvers.estimators.classifier_base import ProbabilityClassifier
from peewit.solvers.estimators.documentation import with_arguments_of
from peewit.solvers.estimators.feature_filter import filter_features
from peewit.solvers.estimators.frames import node_features
from peewit.solvers.estimators.targets import ClassTargets
from peewit.solvers.features import Rows, checked_rows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Progress, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.contract.model import KEPT_BYTES, Model, ScoreKind, check_labels
from peewit.solvers.relations.left_out_densities import TELEPORT, LeftOutLabels
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.relations.weight_texts import BY_LABELS, parsed_weights
from peewit.solvers.row_ranges import Parallel, row_blocks
from peewit.solvers.solution import Solution, give_shares
from peewit.solvers.status import Status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """What is known of each node before labels are, and the walks that labels take."""

    graph: Graph  # of all relations together
    fixed: Float32Array  # (n_nodes, n_fixed)
    pageranks: tuple[PersonalizedPageRank, ...]  # of each relation
    has_features: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fitted(Solution):
    """What the classifier says of all nodes, and itself."""

    classifier: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnGraph(Model):
    """A classifier in the shape of a model."""

    unfitted: Any

    def __post_init__(self) -> None:
        """No hyperparameter has a rule: the classifier has its own."""

    @property
    def score_kind(self) -> ScoreKind:
        return "probability"

    def prepare(
        self,
        graph: Graph | RelationGraphs,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,  # noqa: ARG002 - columns are needed whole
    ) -> _Prepared:
        graphs = graph.graphs if isinstance(graph, RelationGraphs) else (graph,)
        whole = _of_equal_volume(graph) if isinstance(graph, RelationGraphs) else graph
        columns = [_sizes(each) for each in graphs]
        if features is not None:
            rows = checked_rows(features, graph.n_nodes)
            if rows.is_sparse:
                raise BadArgument(
                    "features",
                    "must be dense, got a sparse matrix, which few classifiers take; make "
                    "fewer columns of it first, as sklearn's TruncatedSVD does",
                )
            own = _of_all_nodes(rows, graph.n_nodes)
            columns += [own, filter_features(whole, own, teleport=TELEPORT)]
        return _Prepared(
            graph=whole,
            fixed=np.hstack(columns),
            pageranks=tuple(PersonalizedPageRank.of_graph(each, parallel) for each in graphs),
            has_features=features is not None,
        )

    def solve_watched(
        self,
        prepared: _Prepared,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - classifiers begin anew
        watch: Watch,
    ) -> Solution:
        check_labels(labels, prepared.graph)
        n_nodes = prepared.graph.n_nodes
        left_out = LeftOutLabels.of(labels, n_nodes)
        of_nodes = [left_out.log_odds_of_nodes(each, watch) for each in prepared.pageranks]
        of_labels = [left_out.log_odds(each, watch) for each in prepared.pageranks]
        for values, own in zip(of_nodes, of_labels, strict=True):
            # nothing else tells of the only label of a class
            own[left_out.fold < 0] = values.mean(axis=0)
        classifier = clone(self.unfitted)
        classifier.fit(np.hstack([prepared.fixed[labels.nodes], *of_labels]), labels.classes)
        scores = np.empty((n_nodes, labels.n_classes))
        for rows in row_blocks(n_nodes):
            known = np.hstack([prepared.fixed[rows], *(values[rows] for values in of_nodes)])
            scores[rows] = classifier.predict_proba(known)
        component = prepared.graph.component
        reachable = np.isin(component, component[labels.nodes]) | prepared.has_features
        give_shares(scores, reachable)
        return _Fitted(
            scores=scores,
            reachable=reachable,
            status=Status.CONVERGED,
            stats={"n_iter": 1, "n_columns": classifier.n_features_in_},
            classifier=classifier,
        )


class ClassifierOnGraph(ProbabilityClassifier):
    """A classifier of scikit-learn's shape on what graph, features and labels say of each node.

    Its columns are, of each relation, the logarithms of strength and degree and the log odds of
    each class by walks from its labels (K6), then the features as they are and smoothed along the
    edges (K1). Labels that the classifier is fitted to see what labels of other folds say, not
    themselves. Probabilities are those of the classifier, calibrated or not.

    Attributes
    ----------
    classifier_ : object
        The classifier, fitted to the labels.
    """

    _model = _OnGraph

    classifier: Any = field(
        default=None,
        metadata={
            "doc": "Anything with `fit` and `predict_proba`; it is cloned. None for logistic "
            "regression on standardized columns."
        },
    )

    @with_arguments_of(ProbabilityClassifier.fit, "X", "y", "progress")
    def fit(
        self,
        X: Any,
        y: Any,
        features: Any = None,
        *,
        progress: Progress | None = None,
        **further: Any,
    ) -> Self:
        """Classes of all nodes from those of some; each of several relations makes columns.

        Parameters
        ----------
        features : (n_nodes, n_features) array, data frame, or None
            What else is known of the nodes; with affinity 'knn', ``X`` itself may be given again.
            Rows of a frame are those of the nodes that its index or its column ``node`` names; for
            nodes without a row there are zeros, and a column that says which nodes have one.
        **further
            Refused; ``sample_weight`` with the names of the estimators that heed it.

        Raises
        ------
        TypeError, ValueError
            ``X`` or ``y`` breaks a rule, fewer than two classes have a label, the classifier gives
            no probabilities, or ``features`` are sparse, have not one row for each node, or an
            entry that is not finite.
        """
        self._refuse(further)
        return self._solve(*self._problem(X, y, features), progress)

    def _learn(self, prepared: Any, targets: ClassTargets, solution: Solution) -> None:
        super()._learn(prepared, targets, solution)
        if isinstance(solution, _Fitted):
            self.classifier_ = solution.classifier

    def _problem(self, X: Any, y: Any, features: Any = None) -> tuple[Model, Any, AnyArray]:
        graph, target = self._graph_and_target(X, y)
        if self.relations != BY_LABELS:
            if not isinstance(graph, RelationGraphs):
                rule = f"must be {BY_LABELS!r} unless X is a mapping of graphs"
                raise BadArgument("relations", f"{rule}, got {self.relations!r}")
            graph = graph.combined(parsed_weights(self.relations, graph.names))
        classifier = self.classifier
        if classifier is None:
            classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
        if not hasattr(classifier, "predict_proba"):
            raise BadArgument(
                "classifier",
                f"must have predict_proba, got {type(classifier).__name__}; wrap it in "
                "sklearn.calibration.CalibratedClassifierCV, which gives it one",
            )
        model = _OnGraph(unfitted=classifier)
        return model, model.prepare(graph, node_features(features, self._names)), target


def _of_all_nodes(rows: Rows, n_nodes: int) -> Float32Array:
    """Features of all nodes; of some, 0 at the others and a column that says whose they are."""
    own = np.asarray(rows.whole(), np.float32)
    if rows.nodes is None:
        return own
    columns = np.zeros((n_nodes, own.shape[1] + 1), np.float32)
    columns[rows.nodes, :-1], columns[rows.nodes, -1] = own, 1.0
    return columns


def _sizes(graph: Graph) -> Float32Array:
    """(n_nodes, 2) logarithms of strength and degree of each node."""
    n_neighbors = np.diff(graph.adjacency.indptr)
    sizes = np.column_stack([graph.degree, n_neighbors]).astype(np.float32)
    return np.asarray(np.log1p(sizes))


def _of_equal_volume(relations: RelationGraphs) -> Graph:
    """The sum of the relations, each with the volume of the largest; without edges of none."""
    volumes = relations.volumes
    weights = np.divide(volumes.max(), volumes, out=np.zeros(len(volumes)), where=volumes > 0)
    return relations.combined(weights.tolist()) if weights.any() else relations.graphs[0]
