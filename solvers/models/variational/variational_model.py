"""Base of the total variation family: starts, labels as targets, and the kernel's space."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.gram.feature_spaces import FeatureMap, GramFactor
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.memory_plan import GramPlan
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, one_against_rest
from peewit.solvers.models.classes.class_mass import contrasts, normalized_masses
from peewit.solvers.models.contract.feature_model import FEATURES
from peewit.solvers.models.contract.graph_model import GraphModel, PreparedGraph
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.kernel_space_model import KernelSpaceModel
from peewit.solvers.models.contract.point_model import PointProblem, Points
from peewit.solvers.models.harmonic.harmonic import HFS, even_penalty
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.models.variational.cut_then_name import N_STARTS, Cuts, NamedCut, cut_then_name
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure
from peewit.solvers.variation.penalty_inverses import SpaceInverse
from peewit.solvers.variation.simplex_splitting import on_simplex

FEW_LABELS: Final = 5
"""Labels per class, on average, below which clusters come first and labels name them."""

_DENSE_ROWS: Final = 1_000
_LEAST_JUDGED: Final = 10
"""Fewest unlabeled nodes per class for a warning that a class gets none."""
_MISSED_SHARE: Final = 0.2
_FIRST_LABEL_WEIGHT: Final = 100.0

SINGLE_EPS: Final = float(np.finfo(np.float32).eps)
"""What proximal steps of a coarse gap tell apart: they run in float32."""

InitialName = Literal["auto", "cut", "contrasts", "harmonic", "poisson"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariationalModel(KernelSpaceModel, InductiveModel):
    """A model with weights for the labels, the norm of functions and the graph.

    Edge weights are in units of the mean degree, so that their scale changes nothing. With a norm
    of functions of features, those functions predict new points (G2a).
    """

    of_graph: ClassVar[str] = "graph"

    auto_norm_penalty: ClassVar[float] = 0.1
    """What 'auto' is if there are features."""

    gram: Literal["auto", "dense", "landmarks"] = hyperparameter(
        "auto",
        Rule(
            doc="How the Gram matrix is held: in memory, or approximated on landmarks. 'auto' is "
            "landmarks above 1,000 nodes; a linear kernel then needs none.",
            kind=str,
            words=("auto", "dense", "landmarks"),
        ),
    )
    n_landmarks: int = hyperparameter(
        1_000, Rule(doc="Nodes that the kernel is approximated on.", kind=int, minimum=1)
    )
    norm_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Weight of the squared norm of functions of the features, lambda; 0 leaves the "
            "kernel out, and no embedding or Gram matrix is made. 'auto' is 0 without features.",
            minimum=0.0,
            words=("auto",),
        ),
    )

    def plan(
        self, n_rows: int, n_columns: int, budget_bytes: int, *, row_bytes: int | None = None
    ) -> GramPlan:
        """As `KernelSpaceModel.plan`; 'auto' is on landmarks above 1,000 nodes.

        The penalty is factored, so that a Gram matrix made block by block does not serve.
        """
        if self.gram != "auto" or self.kernel == "linear":
            return KernelSpaceModel.plan(self, n_rows, n_columns, budget_bytes, row_bytes=row_bytes)
        resolved = replace(self, gram="dense" if n_rows <= _DENSE_ROWS else "landmarks")
        return resolved.plan(n_rows, n_columns, budget_bytes, row_bytes=row_bytes)

    def needs_points(self, has_features: bool) -> bool:
        """Whether functions have a norm."""
        return self.norm_penalty != 0.0 and (has_features or self.norm_penalty != "auto")

    def _has_norm(self, prepared: Points) -> bool:
        return self.needs_points(prepared.rows is not None)

    def solve_watched(
        self, prepared: Points, labels: Labels, start: Solution | None, watch: Watch
    ) -> Solution:
        """Scores of every node; see `Model.solve`.

        Without a norm features are not used, and nodes without any take part like the others.
        """
        if prepared.rows is not None and not self._has_norm(prepared):
            points = prepared
            prepared = points.latest(
                "without features",
                None,
                lambda: replace(points, graph=points.whole, rows=None, nodes=None, _made={}),
            )
        return KernelSpaceModel.solve_watched(self, prepared, labels, start, watch)

    def predict(self, prepared: Points, solution: Solution, features: Any) -> FloatArray:
        """Class scores of new points; see `InductiveModel.predict`.

        Raises ValueError if the functions have no norm, too: values at nodes are all there is.
        """
        if prepared.rows is not None and not self._has_norm(prepared):
            raise BadArgument(
                "norm_penalty", "must be above 0 where new points are predicted, got 0"
            )
        return InductiveModel.predict(self, prepared, solution, features)

    def _points_status(self, prepared: Points, watch: Watch) -> Status:
        """Status of making the points of the kernel."""
        if not self._has_norm(prepared):
            return Status.CONVERGED
        return self._points(prepared, watch).status

    def _feature_map(self, problem: PointProblem) -> FeatureMap:
        """The space as explicit features: a Gram matrix is factored once."""
        prepared, watch = problem.prepared, problem.watch
        space = self._space(prepared, self._points(prepared, watch).rows, watch, problem.stats)
        if isinstance(space, DenseGram):
            return prepared.latest("gram factor", id(space), lambda: GramFactor(space))
        if isinstance(space, FeatureMap):
            return space
        raise TypeError(f"nothing is factored of a {type(space).__name__}")

    def _inverse(
        self,
        problem: PointProblem,
        *,
        graph_penalty: float,
        pull: float,
        name: Literal["inverse", "tied inverse"] = "inverse",
    ) -> SpaceInverse:
        """The inverse of the norm and the other quadratic terms, kept for the next solve."""
        norm_penalty = self.norm_penalty
        if norm_penalty == "auto":
            norm_penalty = self.auto_norm_penalty
        features = self._feature_map(problem)
        return problem.prepared.latest(
            name,
            ("variational", id(features), norm_penalty, graph_penalty, pull),
            lambda: SpaceInverse.of(
                features,
                problem.prepared.graph,
                norm_penalty=norm_penalty,
                graph_penalty=graph_penalty,
                pull=pull,
                on_step=problem.watch.step_of("factoring"),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedModel(VariationalModel):
    """A model whose problem is not convex, so that its start matters."""

    start_with_labels: ClassVar[InitialName] = "harmonic"
    """What 'auto' is from five labels per class on."""

    initial: InitialName = hyperparameter(
        "auto",
        Rule(
            doc="Where it starts: from clusters that the labels name, from the partition by the "
            "contrasts of a harmonic function of the labels, from its values, or from Poisson "
            "learning. 'auto' is 'cut' below five labels per class, above 'contrasts' with total "
            "variation and 'harmonic' with Cheeger cuts.",
            kind=str,
            words=("auto", "cut", "contrasts", "harmonic", "poisson"),
        ),
    )

    @classmethod
    def barred(cls, stats: Mapping[str, Any], *, is_calibrated: bool) -> str | None:
        """Nodes have the values of a partition, to which functions are fitted."""
        if is_calibrated and stats.get("input") == FEATURES:
            return (
                "its probabilities are made of a partition of the nodes, new points have functions "
                "fitted to it; solve without probabilities to predict these by class scores"
            )
        return None

    def entry_bytes(self, n_classes: int) -> int:
        """A weight, and two numbers in float32 for each function that varies.

        Those are the classes, and while clusters are cut the starts.
        """
        n_starts = N_STARTS if self.initial in ("auto", "cut") else 1
        return 4 + 2 * 4 * max(n_classes, n_starts)

    def _start_name(self, labels: Labels) -> InitialName:
        if self.initial != "auto":
            return self.initial
        few = labels.n_labeled < FEW_LABELS * labels.n_classes
        return "cut" if few else self.start_with_labels

    def _graph_scores(
        self, prepared: Points, model: GraphModel, labels: Labels, watch: Watch
    ) -> tuple[FloatArray, Status]:
        """Scores of a model of the graph alone, which starts from its last ones."""
        alone = prepared.latest(
            "graph alone",
            None,
            lambda: PreparedGraph.of_graph(prepared.graph, prepared.parallel, prepared.kept_bytes),
        )
        kind = type(model)
        solution = model.solve_watched(alone, labels, alone.last.get(kind), watch)
        watch.check()
        alone.last[kind] = solution
        return solution.scores, solution.status

    def _drifting(self, problem: PointProblem, least: float) -> Status:
        """Ill-conditioned if edges of ``least`` mean degrees leave nodes unheld; counts them.

        With a norm, functions of the features hold them, too.
        """
        if self._has_norm(problem.prepared):
            return Status.CONVERGED
        graph = problem.prepared.graph
        is_lost = drifting(problem.labels, graph, least * mean_degree(problem.prepared))
        if not is_lost.any():
            return Status.CONVERGED
        problem.stats["n_uncertain"] = int(np.count_nonzero(is_lost))
        return Status.ILL_CONDITIONED

    def _warn(self, solution: Solution, labels: Labels) -> Solution:
        """The solution with warnings about clusters that do not fit the classes."""
        predicted = solution.scores.argmax(axis=1)[solution.reachable]
        n_unlabeled = predicted.size - labels.n_labeled
        if n_unlabeled < _LEAST_JUDGED * labels.n_classes:
            return solution
        texts = list(solution.warnings)
        n_missed = int(solution.stats.get("n_missed_labels", 0))
        if n_missed > _MISSED_SHARE * labels.n_labeled:
            texts.append(
                f"{n_missed} of {labels.n_labeled} labels lie in clusters that were named after "
                "another class: the classes are no clusters of this graph; "
                "initial=harmonic starts from the labels instead"
            )
        counts = np.bincount(labels.classes, minlength=labels.n_classes)
        sizes = np.bincount(predicted, minlength=labels.n_classes)
        bare = [labels.class_names[k] for k in np.flatnonzero(sizes <= counts)]
        if bare:
            texts.append(
                f"no node but labeled ones came to class {', '.join(map(repr, bare))}: the border "
                "around its labels cuts less weight than one between the classes; label more "
                "nodes, or use a model without cuts"
            )
        return replace(solution, warnings=tuple(texts))

    def _named_cut(self, prepared: Points, labels: Labels, watch: Watch) -> NamedCut:
        harmonic, status = self._graph_scores(prepared, HFS(graph_penalty=0.0), labels, watch)
        known: Cuts = prepared.latest("cuts", None, dict)
        named = cut_then_name(
            prepared.graph, labels, harmonic, known, parallel=prepared.parallel, watch=watch
        )
        return replace(named, status=first_failure(status, named.status))

    def _first_shares(self, problem: PointProblem) -> tuple[FloatArray, Status]:
        """(n_nodes, n_classes) share of each class in a node, before anything is minimized.

        Class-mass normalized to equal classes, whatever the labels are of; 1 / n_classes where no
        label reaches.
        """
        prepared, labels, watch = problem.prepared, problem.labels, problem.watch
        graph, n_classes = prepared.graph, labels.n_classes
        initial = self._start_name(labels)
        problem.stats["initial"] = initial
        touched = np.isin(graph.component, graph.component[labels.nodes])
        if initial == "cut":
            named = self._named_cut(prepared, labels, watch)
            problem.stats["n_missed_labels"], status = named.n_missed, named.status
            shares = np.eye(n_classes)[named.classes]
        else:
            shares, status = self._soft_shares(prepared, initial, labels, watch)
        shares[~touched] = 1.0 / n_classes
        if self._has_norm(prepared) and not touched.all():
            shares[~touched] = self._fitted_shares(problem)[~touched]
        return shares, first_failure(status, self._points_status(prepared, watch))

    def _soft_shares(
        self, prepared: Points, initial: InitialName, labels: Labels, watch: Watch
    ) -> tuple[FloatArray, Status]:
        """`_first_shares` from scores of the graph alone, where labels reach."""
        graph, n_classes = prepared.graph, labels.n_classes
        if initial == "contrasts":
            model = HFS(graph_penalty=even_penalty(labels, graph))
            scores, status = self._graph_scores(prepared, model, labels, watch)
            classes = contrasts(scores, labels, graph).argmax(axis=1)
            classes[labels.nodes] = labels.classes
            return np.eye(n_classes)[classes], status
        if initial == "poisson":
            scores, status = self._graph_scores(prepared, Poisson(), labels, watch)
            lowest = np.full((graph.n_components, n_classes), np.inf)
            np.minimum.at(lowest, graph.component, scores)
            scores = scores - lowest[graph.component]
            sums = scores.sum(axis=1, keepdims=True)
            scores = np.where(sums > 0, scores / np.where(sums > 0, sums, 1.0), 1.0 / n_classes)
        else:
            scores, status = self._graph_scores(prepared, HFS(graph_penalty=0.0), labels, watch)
        equal = np.full(n_classes, 1.0 / n_classes)
        return normalized_masses(scores, labels, graph, equal), status

    def _fitted_shares(self, problem: PointProblem) -> FloatArray:
        """Least squares of the features alone, for nodes that no edges lead to."""
        graph, labels = problem.prepared.graph, problem.labels
        space = self._feature_map(problem)
        norm = SpaceInverse.of(space, graph, norm_penalty=1.0, graph_penalty=0.0, pull=0.0)
        prior = labels.class_prior()
        pulled = problem.task.on_nodes(_FIRST_LABEL_WEIGHT * (labels.targets() - prior))
        fit = norm.with_squares(labels.nodes, _FIRST_LABEL_WEIGHT)
        return on_simplex(prior + fit.apply(pulled))


def mean_degree(prepared: Points) -> float:
    """Mean degree of the nodes that have edges; 1 if there are none."""
    degree = prepared.graph.degree
    n_joined = int(np.count_nonzero(degree))
    return float(degree.sum()) / n_joined if n_joined else 1.0


def contested(labels: Labels, graph: Graph) -> BoolArray:
    """(n_nodes,) whether the labels of the node's component are not all of one class."""
    present = np.zeros((graph.n_components, labels.n_classes), bool)
    present[graph.component[labels.nodes], labels.classes] = True
    return np.asarray(present.sum(axis=1) != 1)[graph.component]


def drifting(labels: Labels, graph: Graph, least: float) -> BoolArray:
    """(n_nodes,) whether labels of several classes reach a node, and none by edges >= ``least``.

    Lighter edges move such a node by less than the solve notices: it stays where it started.
    """
    if float(graph.adjacency.data.min(initial=least)) >= least:
        return np.zeros(graph.n_nodes, bool)
    part, _ = graph.components_above(least)
    is_reached = np.isin(graph.component, graph.component[labels.nodes])
    return contested(labels, graph) & is_reached & ~np.isin(part, part[labels.nodes])


def targets_of(labels: Labels) -> FloatArray:
    """One column of 1 and -1 for two classes, else one-hot rows."""
    return one_against_rest(labels) if labels.n_classes == 2 else labels.targets()


def held_classes(labels: Labels, n_nodes: int) -> Int64Array:
    """(n_nodes,) the class of labeled nodes, -1 of the others."""
    classes = np.full(n_nodes, -1, np.int64)
    classes[labels.nodes] = labels.classes
    return classes
