"""Models of total variation whose start matters: where they start, and what of it is kept."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, deal_folds
from peewit.solvers.models.classes.class_mass import contrasts, normalized_masses
from peewit.solvers.models.contract.feature_model import FEATURES
from peewit.solvers.models.contract.graph_model import GraphModel, PreparedGraph
from peewit.solvers.models.contract.point_model import PointProblem, Points
from peewit.solvers.models.harmonic.harmonic import HFS, even_penalty
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.models.variational.cut_then_name import N_STARTS, Cuts, NamedCut, cut_then_name
from peewit.solvers.models.variational.variational_model import VariationalModel, mean_degree
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure
from peewit.solvers.variation.cheeger_ratio import partition_balances, ratio
from peewit.solvers.variation.penalty_inverses import SpaceInverse
from peewit.solvers.variation.proximal_step import TotalVariation
from peewit.solvers.variation.simplex_splitting import on_simplex

InitialName = Literal["auto", "cut", "contrasts", "harmonic", "poisson"]

FEW_LABELS: Final = 5
"""Labels per class, on average, below which clusters come first and labels name them."""

_STARTS: Final[tuple[InitialName, ...]] = ("cut", "poisson", "harmonic", "contrasts")
"""In the order in which they are tried."""

_RISEN: Final = 1.5
"""Times the energy of a partition at hand beyond which a solve has lost that cut, or missed it."""

_STANDARD_ERRORS: Final = 2.0
_MAX_FOLDS: Final = 5
_LEAST_JUDGED: Final = 10
"""Fewest unlabeled nodes per class for a warning that a class gets none."""
_MISSED_SHARE: Final = 0.2
_FIRST_LABEL_WEIGHT: Final = 100.0

SINGLE_EPS: Final = float(np.finfo(np.float32).eps)
"""What proximal steps of a coarse gap tell apart: they run in float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Attempt:
    """A solution, and the energies of the partitions that it began and ended with."""

    name: InitialName
    solution: Solution
    first_energy: float
    energy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedModel(VariationalModel):
    """A model whose problem is not convex, so that its start matters."""

    start_with_labels: ClassVar[InitialName] = "harmonic"
    """What 'auto' is from five labels per class on."""

    initial: InitialName = hyperparameter(
        "auto",
        Rule(
            doc=(
                "Where it starts: from clusters that the labels name, from a harmonic "
                "function of the labels, by its contrasts or its values, or from Poisson "
                "learning. 'auto' is 'contrasts' with total variation, 'harmonic' with "
                "Cheeger cuts. Below five labels per class it is 'cut', unless left-out "
                "labels clearly speak against that. Others are tried where a solve ends in "
                "a worse cut than it began with."
            ),
            kind=str,
            words=("auto", "cut", "contrasts", "harmonic", "poisson"),
        ),
    )

    @classmethod
    def barred(cls, stats: Mapping[str, Any], *, is_calibrated: bool) -> str | None:
        """Nodes have the values of a partition, to which functions are fitted."""
        if is_calibrated and stats.get("input") == FEATURES:
            return (
                "its probabilities are of nodes, and new points have class scores alone; "
                "solve without probabilities to predict new points"
            )
        return None

    def entry_bytes(self, n_classes: int) -> int:
        """A weight, and two numbers in float32 for each function that varies.

        Those are the classes, and while clusters are cut the starts.
        """
        n_starts = N_STARTS if self.initial in ("auto", "cut") else 1
        return 4 + 2 * 4 * max(n_classes, n_starts)

    def _solution(self, problem: PointProblem) -> Solution:
        """From the given start, or from the one that energy and left-out labels choose (G15)."""
        if self.initial != "auto":
            return self._attempt(problem, self.initial).solution
        hits: dict[InitialName, BoolArray] = {}
        first = self._first_start(problem, hits)
        best = self._attempt(problem, first)
        if self._is_convex or best.solution.status is Status.CANCELLED:
            return best.solution
        n_starts, limit = 1, _RISEN * self._first_energy(problem, best)
        for name in _STARTS:
            if best.energy <= limit:
                break
            if name == first or self._is_clearly_better(problem, hits, first, name):
                continue
            other = self._attempt(problem, name)
            n_starts += 1
            best = other if other.energy < best.energy else best
        if n_starts == 1:
            return best.solution
        return replace(best.solution, stats={**best.solution.stats, "n_starts": n_starts})

    def _first_energy(self, problem: PointProblem, attempt: "_Attempt") -> float:
        """That of the partition that an attempt began with, or of the contrasts if it is less."""
        if attempt.name == "contrasts":
            return attempt.first_energy
        shares, _ = self._first_shares(replace(problem, stats={}), "contrasts")
        return min(attempt.first_energy, self._energy(problem, _with_labels(shares, problem)))

    @property
    def _is_convex(self) -> bool:
        """Whether every start leads to the same answer."""
        return False

    def _first_start(
        self, problem: PointProblem, hits: dict[InitialName, BoolArray]
    ) -> InitialName:
        labels = problem.labels
        if labels.n_labeled >= FEW_LABELS * labels.n_classes:
            return self.start_with_labels
        is_against = self._is_clearly_better(problem, hits, self.start_with_labels, "cut")
        return self.start_with_labels if is_against else "cut"

    def _is_clearly_better(
        self,
        problem: PointProblem,
        hits: dict[InitialName, BoolArray],
        name: InitialName,
        other: InitialName,
    ) -> bool:
        """Whether a start is right at more left-out labels than another; ``hits`` keeps which.

        By two standard errors, of labels on which they differ; False where none can be left out.
        """
        if problem.labels.n_usable < 2:
            return False
        for each in (name, other):
            if each not in hits:
                hits[each] = self._left_out_hits(problem, each)
        n_differing = np.count_nonzero(hits[name] != hits[other])
        more = np.count_nonzero(hits[name]) - np.count_nonzero(hits[other])
        return bool(more > _STANDARD_ERRORS * np.sqrt(n_differing))

    def _left_out_hits(self, problem: PointProblem, name: InitialName) -> BoolArray:
        """(n_labeled,) whether a start gives a label its class without knowing it, fold by fold."""
        labels, prepared = problem.labels, problem.prepared
        fold, _ = deal_folds(labels, min(_MAX_FOLDS, labels.n_usable), self.seed)
        hits = np.zeros(labels.n_labeled, bool)
        for number in range(int(fold.max()) + 1):
            others, left_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            known = labels.subset(others)
            without = replace(problem, labels=known, task=prepared.center_labels(known), stats={})
            shares, _ = self._first_shares(without, name)
            found = shares[labels.nodes[left_out]].argmax(axis=1)
            hits[left_out] = found == labels.classes[left_out]
        return hits

    def _attempt(self, problem: PointProblem, name: InitialName) -> "_Attempt":
        """What comes of one start."""
        own = replace(problem, stats={**problem.stats, "initial": name})
        shares, status = self._first_shares(own, name)
        solution = self._solved_from(own, shares, status)
        return _Attempt(
            name=name,
            solution=solution,
            first_energy=self._energy(problem, _with_labels(shares, problem)),
            energy=self._energy(problem, solution.scores.argmax(axis=1)),
        )

    def _energy(self, problem: PointProblem, classes: Int64Array) -> float:
        """The Cheeger energy of a partition (G12), its sizes in degrees."""
        graph, n_classes = problem.prepared.graph, problem.labels.n_classes
        unit = mean_degree(problem.prepared)
        weight = np.where(problem.task.reachable, graph.degree / unit, 0.0)
        variation = TotalVariation(graph, unit=unit, parallel=problem.prepared.parallel)
        balances, _ = partition_balances(classes, n_classes, weight, n_classes - 1.0)
        return float(ratio(variation.of(np.eye(n_classes)[classes]), balances).sum())

    @abstractmethod
    def _solved_from(self, problem: PointProblem, shares: FloatArray, before: Status) -> Solution:
        """The solution from (n_nodes, n_classes) shares, of which ``before`` is the status."""

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
                f"{n_missed} of {labels.n_labeled} labels lie in clusters that were named "
                "after another class, so classes are no clusters of this graph; set "
                "initial=harmonic to start from the labels instead"
            )
        counts = np.bincount(labels.classes, minlength=labels.n_classes)
        sizes = np.bincount(predicted, minlength=labels.n_classes)
        bare = [labels.class_names[k] for k in np.flatnonzero(sizes <= counts)]
        if bare:
            texts.append(
                f"no node but labeled ones came to class {', '.join(map(repr, bare))}. The "
                "border around its labels is cheaper to cut than one between the classes; "
                "label more nodes, or use a model without cuts"
            )
        return replace(solution, warnings=tuple(texts))

    def _named_cut(self, prepared: Points, labels: Labels, watch: Watch) -> NamedCut:
        harmonic, status = self._graph_scores(prepared, HFS(graph_penalty=0.0), labels, watch)
        known: Cuts = prepared.latest("cuts", None, dict)
        named = cut_then_name(
            prepared.graph, labels, harmonic, known, parallel=prepared.parallel, watch=watch
        )
        return replace(named, status=first_failure(status, named.status))

    def _first_shares(
        self, problem: PointProblem, initial: InitialName
    ) -> tuple[FloatArray, Status]:
        """(n_nodes, n_classes) share of each class in a node, before anything is minimized.

        Class-mass normalized to equal classes, whatever the labels are of; 1 / n_classes where no
        label reaches.
        """
        prepared, labels, watch = problem.prepared, problem.labels, problem.watch
        graph, n_classes = prepared.graph, labels.n_classes
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


def _with_labels(shares: FloatArray, problem: PointProblem) -> Int64Array:
    """The partition by the largest share, in which labels keep their class."""
    classes = np.asarray(shares.argmax(axis=1))
    classes[problem.labels.nodes] = problem.labels.classes
    return classes


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


def held_classes(labels: Labels, n_nodes: int) -> Int64Array:
    """(n_nodes,) the class of labeled nodes, -1 of the others."""
    classes = np.full(n_nodes, -1, np.int64)
    classes[labels.nodes] = labels.classes
    return classes
