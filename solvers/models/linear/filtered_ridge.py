"""Filtered ridge: ridge regression on features that personalized PageRank has smoothed (K.1).

Decision: the dual form, so that leave-one-out is exact and free (K5), and guards against a graph or
features that say nothing; its rows come from one column for each label or one for each feature,
whichever are fewer. Consequence: one more label is one more column at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.features import checked_rows
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.adjacency_spectrum import rank_of, working_bytes
from peewit.solvers.laplacian.walks.personalized_pagerank import RTOL, n_steps
from peewit.solvers.linear.linear_functions import LinearFunctions
from peewit.solvers.models.classes.score_calibration import Calibration
from peewit.solvers.models.contract.feature_model import FEATURES
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.model import KEPT_BYTES, check_labels
from peewit.solvers.models.left_out.bootstrapped_beliefs import bootstrapped_beliefs
from peewit.solvers.models.left_out.label_groups import node_hash
from peewit.solvers.models.left_out.label_sample import LabelSample, unlike_degrees
from peewit.solvers.models.linear.filtered_features import Arm, FilteredFeatures
from peewit.solvers.models.linear.kernel_ridge import (
    RidgeFit,
    class_folds,
    class_targets,
    fitted_ridge,
    usable,
)
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

TELEPORT: Final = 0.1
"""Teleport probability a unless the labels say otherwise: they seldom tell it better (K.1)."""

_NARROW: Final = 0.3

_CONSTANT: Final = 0.03
"""tau of (K3), the square of the constant feature beside rows whose mean square is 1: without it
classes that are rarer among the nodes than among the labels lose; much more of it is an intercept
that few labels do not tell."""

_POINTS: Final = 0.3
"""Points beside features whose kernel has mean 1: where neighbors are opposites they bring thirty
points of accuracy, and as much of them as of features brings no more (K.1)."""

_NO_NEW_POINTS: Final = {"points": "points of the graph's spectrum", "graph": "the graph alone"}
"""Arms in which new points have no place: features alone predict these, by another fit."""

_STANDARD_ERRORS: Final = 2.0

MOST_JUDGED: Final = 200
"""Most labels by which the graph alone is judged: it takes two columns for each, where features
take at most one each of their own."""

MOST_LABELS: Final = 3_000
"""Most labels that a ridge is fitted to: kernels take eight bytes for each pair of labels, a dozen
times, and seconds that grow with the third power (28 CPU seconds for 4,000 labels)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """The fit of an arm, and which labels it could tell from the others."""

    arm: Arm
    scale: float  # mean of the kernel's diagonal
    fit: RidgeFit
    is_informed: BoolArray  # (n_labeled,) whether any other label says something of it

    def left_out(self, others: "Sequence[Judged]", prior: FloatArray) -> FloatArray:
        """(n_labeled, n_classes) left-out values; of ``others`` in turn where it has none."""
        values = np.tile(prior, (len(self.is_informed), 1))
        for arm in (*reversed(others), self):
            values[arm.is_informed] = arm.fit.left_out[arm.is_informed]
        return values

    def losses(self, labels: Labels) -> FloatArray:
        """(n_usable,) negative log probabilities of left-out labels, which calibrate them."""
        used = usable(labels)
        left_out, true = self.left_out((), labels.class_prior())[used], labels.classes[used]
        chances = Calibration.fitted(left_out, true).probabilities(left_out)
        return -np.log(chances[np.arange(true.size), true])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutRows:
    """What the fit without each label says of it."""

    values: FloatArray  # (n_labeled, n_classes); shares of the classes where nothing is said
    is_informed: BoolArray  # (n_labeled,) whether any other label says something of it


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredRidge(InductiveModel):
    """Ridge regression on features smoothed along the graph (section K.1).

    Rows of features are brought to unit length after their mean is subtracted, and smoothed by
    personalized PageRank, as graph networks of the APPNP kind do it; on them one ridge regression
    for each class is fitted to the labels. With ``teleport`` 'auto' the features and the graph must
    earn their keep: less smoothing, none at all, the graph alone, or points of its spectrum beside
    the features take over where they predict clearly more of the labels left out. Without features
    it is the graph alone. On several relations features are smoothed along each of them as well as
    along all edges; left-out labels say how much each of both counts.

    Nodes without features are reached through their neighbors or, if no node in their component has
    features, by the labels there. Scores are class scores, not probabilities.

    Notes
    -----
    One column for each label and one for each class are propagated, ``n_iter`` products with the
    graph each, and features are read twice; columns are kept for the next solve while there is
    room.

    References
    ----------
    Klicpera, Bojchevski and Guennemann, Predict then propagate: graph neural networks meet
    personalized PageRank, ICLR 2019. Wu et al., Simplifying graph convolutional networks, ICML
    2019.
    """

    preparation: ClassVar[str] = "filtered features"
    takes_counts: ClassVar[bool] = True
    smooths_by_relation: ClassVar[bool] = True
    of_graph: ClassVar[str] = "graph"

    teleport: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Part of the smoothed features that is a node's own: less reaches farther. 'auto' "
            "is 0.1 unless left-out labels speak clearly for 0.3, the features or the graph alone, "
            "or points of its spectrum beside them.",
            above=0.0,
            below=1.0,
            words=("auto",),
        ),
    )
    norm_penalty: float = hyperparameter(
        1.0,
        Rule(
            doc="Ridge penalty, against the mean squared length of the smoothed rows of the "
            "labels.",
            minimum=1e-4,
        ),
    )

    def node_bytes(self, n_nodes: int, n_classes: int) -> int:  # noqa: ARG002
        """Points of the spectrum, and what makes them."""
        return working_bytes(n_nodes) + 4 * rank_of(n_nodes)

    @one_blas_thread
    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,
    ) -> FilteredFeatures:
        """The normalized graph and the checked features.

        Raises TypeError or ValueError as `peewit.solvers.features.checked_rows`, and ValueError if
        no node has features.
        """
        rows = None if features is None else checked_rows(features, graph.n_nodes)
        if rows is not None and rows.n_rows == 0:
            raise ValueError(f"none of the {graph.n_nodes} nodes has features; add some")
        return FilteredFeatures.of_graph(graph, rows, parallel, kept_bytes)

    def solve_watched(
        self,
        prepared: FilteredFeatures,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - what can be used again is kept by ``prepared``
        watch: Watch,
    ) -> Solution:
        """Scores of every node; see `Model.solve`."""
        solution, rows = self.solved_and_left_out(prepared, labels, watch)
        if solution.status is Status.CANCELLED:
            return solution
        return _with_shares_of_nodes(solution, rows.values, prepared.graph, labels)

    def solved_and_left_out(
        self,
        prepared: FilteredFeatures,
        labels: Labels,
        watch: Watch = UNWATCHED,
        *,
        may_drop_features: bool = True,
    ) -> tuple[Solution, LeftOutRows]:
        """The solution, and left-out values of the arm taken (K5).

        Unless it ``may_drop_features`` the graph alone takes over nowhere but where they say
        nothing.
        """
        check_labels(labels, prepared.graph)
        if labels.n_labeled <= MOST_LABELS:
            return self._solve(prepared, labels, watch, may_drop_features=may_drop_features)
        chosen = _choose_evenly(labels, MOST_LABELS)
        solution, rows = self._solve(
            prepared, labels.subset(chosen), watch, may_drop_features=may_drop_features
        )
        warning = (
            f"the ridge was fitted to {MOST_LABELS:,} of the {labels.n_labeled:,} labels, the same "
            "part of each class: its cost grows with their third power"
        )
        values = solution.scores[labels.nodes]  # the others are left out as it is
        is_informed = solution.reachable[labels.nodes]
        values[chosen], is_informed[chosen] = rows.values, rows.is_informed
        whole = LeftOutRows(values=values, is_informed=is_informed)
        return replace(solution, warnings=(*solution.warnings, warning)), whole

    def _solve(
        self, prepared: FilteredFeatures, labels: Labels, watch: Watch, *, may_drop_features: bool
    ) -> tuple[Solution, LeftOutRows]:
        stats: dict[str, float | int | str] = {
            "input": self.of_graph if prepared.rows is None else FEATURES
        }
        if prepared.rows is not None and prepared.rows.nodes is not None:
            stats["n_without_features"] = prepared.graph.n_nodes - prepared.rows.n_rows
        prior, n_before = labels.class_prior(), prepared.n_filtered
        arms, of_graph = self._arms(prepared)
        tries_points = may_drop_features and len(arms) > 1
        if not may_drop_features and len(arms) > 1:
            arms.remove(of_graph)
        try:
            taken, judgements = self._judgements(
                prepared, arms, labels, stats, watch, tries_points=tries_points
            )
            scores, functions = self._scores(prepared, labels, judgements, taken, watch)
        except RunStopped:
            n_nodes = prepared.graph.n_nodes
            cancelled = Solution(
                scores=np.tile(prior, (n_nodes, 1)),
                reachable=np.zeros(n_nodes, bool),
                status=Status.CANCELLED,
                stats={**stats, "n_iter": 0},
            )
            nothing = np.tile(prior, (labels.n_labeled, 1))
            return cancelled, LeftOutRows(
                values=nothing, is_informed=np.zeros(labels.n_labeled, bool)
            )
        reachable = np.asarray(scores.any(axis=1))
        scores[~reachable] = prior
        stats |= {
            "arm": taken.name,
            "teleport": taken.teleport,
            "n_iter": n_steps(taken.teleport, RTOL),
            "n_columns": prepared.n_filtered - n_before,
        }
        solution = Solution(
            scores=scores,
            reachable=reachable,
            status=Status.CONVERGED,
            stats=stats,
            functions=functions,
            of_features=functions if taken.has_features and not taken.points else None,
        )
        judgements.sort(key=lambda ridge: ridge.arm != taken)
        left_out = judgements[0].left_out(judgements[1:], prior)
        used = usable(labels)
        if used.any():
            is_right = left_out[used].argmax(axis=1) == labels.classes[used]
            stats |= {"loo_accuracy": float(is_right.mean()), "loo_labels": int(used.sum())}
        is_informed = np.logical_or.reduce([ridge.is_informed for ridge in judgements])
        rows = LeftOutRows(values=left_out, is_informed=is_informed)
        return replace(solution, stats=stats), rows

    @classmethod
    def barred(cls, stats: Mapping[str, Any], *, is_calibrated: bool) -> str | None:
        """Points have no place in arms of the graph; features predict these by another fit."""
        arm = stats.get("arm")
        if arm == "points" or (arm in _NO_NEW_POINTS and is_calibrated):
            return no_place(arm)
        return None

    @one_blas_thread
    def predict(
        self, prepared: FilteredFeatures, solution: Solution, features: Any, edges: Any = None
    ) -> FloatArray:
        """(n_points, n_classes) class scores of new points.

        ``edges``, (n_points, n_nodes), are weights >= 0 between new points and nodes, or None.
        Raises ValueError as `InductiveModel.predict`, if ``edges`` have another shape or a negative
        weight, or if there are some and the arm is ``points``.
        """
        if edges is not None and solution.stats.get("arm") == "points":
            raise ValueError(no_place("points"))
        own = InductiveModel.predict(self, prepared, solution, features)
        functions = solution.functions
        if edges is None or not isinstance(functions, LinearFunctions):
            return own
        constant = functions.weights[-1]
        node_scores = edge_scores(solution.scores, prepared.columns.pagerank.inverse_root, constant)
        return joined_scores(own, edges, node_scores, float(solution.stats["teleport"]), constant)

    def _arms(self, prepared: FilteredFeatures) -> tuple[list[Arm], Arm]:
        """The arms that compete, the first being the one to beat; and the arm of the graph."""
        teleport = TELEPORT if self.teleport == "auto" else self.teleport
        graph = Arm(name="graph", teleport=teleport, has_features=False)
        if prepared.rows is None:
            return [graph], graph
        arms = [Arm(name="filtered", teleport=teleport)]
        if self.teleport == "auto":
            arms += [Arm(name="narrow", teleport=_NARROW), Arm(name="features", teleport=1.0)]
            arms.append(graph)
        return arms, graph

    def _judgements(
        self,
        prepared: FilteredFeatures,
        arms: list[Arm],
        labels: Labels,
        stats: dict[str, float | int | str],
        watch: Watch,
        *,
        tries_points: bool,
    ) -> tuple[Arm, list[Judged]]:
        """The arm to take, and fits to all labels, those of the arms of features first."""
        is_few = labels.n_labeled <= MOST_JUDGED
        at_once = [arm for arm in arms if is_few or arm.has_features] or arms
        judgements = [self._judge(prepared, arm, labels, watch) for arm in at_once]
        if prepared.shares.size:
            judgements[0] = self._by_relation(prepared, judgements[0], labels, stats, watch)
        if tries_points:
            beside = _beside_points(judgements[0])
            judgements.append(self._judge(prepared, beside, labels, watch))
        taken = _choose_arm(judgements, labels, stats)
        graph = next((arm for arm in arms if arm not in at_once), None)
        if graph is None:
            return taken, judgements
        some, of_some = labels.subset(_choose_evenly(labels, MOST_JUDGED)), stats.copy()
        pair = [self._judge(prepared, arm, some, watch, is_judging=True) for arm in (taken, graph)]
        taken = _choose_arm(pair, some, of_some)
        stats[f"loo_{graph.name}"] = of_some[f"loo_{graph.name}"]
        if taken == graph:
            judgements.append(self._judge(prepared, graph, labels, watch))
        return taken, judgements

    def _by_relation(
        self,
        prepared: FilteredFeatures,
        along_all: Judged,
        labels: Labels,
        stats: dict[str, float | int | str],
        watch: Watch,
    ) -> Judged:
        """The first arm with features smoothed along each relation, too (K2b).

        Both kernels count as left-out labels believe in them.
        """
        apart = replace(along_all.arm, factors=(0.0, *prepared.shares.tolist()))
        pair = (along_all, self._judge(prepared, apart, labels, watch))
        beliefs = np.full(2, 0.5)
        if labels.n_usable:
            beliefs = bootstrapped_beliefs(
                np.stack([each.losses(labels) for each in pair]), beliefs
            )
        stats["belief_relations"] = float(beliefs[1])
        whole, relations = beliefs / [each.scale or 1.0 for each in pair]
        both = (float(whole), *(relations * prepared.shares).tolist())
        return self._judge(prepared, replace(along_all.arm, factors=both), labels, watch)

    def _judge(
        self,
        prepared: FilteredFeatures,
        arm: Arm,
        labels: Labels,
        watch: Watch,
        *,
        is_judging: bool = False,
    ) -> Judged:
        kernel = prepared.kernel(arm, labels.nodes, watch, is_judging=is_judging)
        others = kernel.copy()
        np.fill_diagonal(others, 0.0)
        return Judged(
            arm=arm,
            scale=float(kernel.diagonal().mean()),
            fit=fitted_ridge(
                kernel,
                class_targets(labels),
                self.norm_penalty,
                fold=class_folds(labels),
                constant=_CONSTANT if arm.has_features else 0.0,
            ),
            is_informed=np.asarray(others.any(axis=1)),
        )

    def _scores(
        self,
        prepared: FilteredFeatures,
        labels: Labels,
        judgements: list[Judged],
        taken: Arm,
        watch: Watch,
    ) -> tuple[FloatArray, LinearFunctions | None]:
        """(n_nodes, n_classes) scores, 0 where no arm has any, and the functions for new points.

        Nodes without score from the arm that is taken get the first arm's, or last those of the
        graph.
        """
        graph = prepared.graph
        is_labeled = np.isin(graph.component, graph.component[labels.nodes])
        scores = np.zeros((graph.n_nodes, labels.n_classes))
        functions: LinearFunctions | None = None
        known = {ridge.arm: ridge for ridge in judgements}
        _, of_graph = self._arms(prepared)
        for arm in dict.fromkeys((taken, judgements[0].arm, of_graph)):
            lost = ~scores.any(axis=1)
            is_missing = lost if arm.has_features else lost & is_labeled
            if not is_missing.any() and (functions is not None or not arm.has_features):
                continue
            ridge = known.get(arm) or self._judge(prepared, arm, labels, watch)
            values, weights = prepared.scores(arm, labels.nodes, ridge.fit.dual_coef, watch)
            lost &= values.any(axis=1)
            scores[lost] = values[lost] + ridge.fit.constant
            if weights and functions is None:
                functions = prepared.functions(weights, ridge.fit.constant)
        watch.step("scores", 1, 1)
        return scores, functions


def no_place(arm: str) -> str:
    """Why new points are not scored as nodes are where ``arm`` is one of `_NO_NEW_POINTS`."""
    return (
        f"labels left out want {_NO_NEW_POINTS[arm]} here, in which new points have no place; "
        "solve with teleport=0.1, which smooths features, to predict them as nodes are"
    )


def _beside_points(ridge: Judged) -> Arm:
    """The arm with points of the spectrum beside its features."""
    unit = ridge.scale or 1.0
    factors = tuple(factor / unit for factor in ridge.arm.factors)
    return replace(ridge.arm, name="points", factors=factors, points=_POINTS)


def _with_shares_of_nodes(
    solution: Solution, left_out: FloatArray, graph: Graph, labels: Labels
) -> Solution:
    """Scores for the class shares among nodes, where labels are no random sample (K17).

    Each class gains the logarithm of its share among nodes over that among labels, on the scale of
    the scores at which left-out labels are likeliest.
    """
    used = usable(labels)
    sample = LabelSample(p_value=1.0, shares=labels.class_prior(), is_estimated=False)
    scores = solution.scores
    calibration = Calibration.fitted(left_out[used], labels.classes[used])
    reached = np.flatnonzero(solution.reachable)
    if calibration.factor > 0.0:
        sample = LabelSample.of(
            calibration.probabilities(scores[labels.asked_of(solution.reachable)]),
            calibration.probabilities(left_out[used]),
            sample.shares,
        )
    sample = replace(sample, degrees=unlike_degrees(graph.degree, labels, labels.nodes))
    stats, functions = {**solution.stats, **sample.stats}, solution.functions
    if sample.is_estimated:
        gained = np.log(sample.shares / labels.class_prior()) / calibration.factor  # (K17)
        scores[reached] += gained
        if isinstance(functions, LinearFunctions):
            weights = functions.weights.copy()
            weights[-1] += gained
            functions = replace(functions, weights=weights)
        predicted = (left_out + gained)[used].argmax(axis=1)
        stats["loo_accuracy"] = float((predicted == labels.classes[used]).mean())
    return replace(
        solution,
        scores=scores,
        stats=stats,
        functions=functions,
        warnings=(*solution.warnings, *sample.warnings(labels)),
    )


def _choose_evenly(labels: Labels, n_chosen: int) -> Int64Array:
    """Places, increasing, of the same part of each class, at least one, by a hash of the node.

    So one more label leaves most of them as they were.
    """
    counts = np.bincount(labels.classes, minlength=labels.n_classes)
    order = np.lexsort((node_hash(labels.nodes), labels.classes))
    rank = np.arange(labels.n_labeled) - (np.cumsum(counts) - counts)[labels.classes[order]]
    part = np.where(rank == 0, 0.0, (rank + 0.5) / counts[labels.classes[order]])
    return np.sort(order[np.argsort(part, kind="stable")[:n_chosen]])


def _choose_arm(
    judgements: list[Judged], labels: Labels, stats: dict[str, float | int | str]
) -> Arm:
    """The first arm, unless another one predicts clearly more of the left-out labels.

    Clearly is by more than two McNemar standard errors, the root of the number of labels that one
    of the two predicts and the other does not. What each predicts goes into ``stats``.
    """
    counts = usable(labels)
    n_usable = int(np.count_nonzero(counts))
    first, *others = judgements
    if n_usable == 0:
        return first.arm
    hits = [
        (ridge.left_out(judgements, labels.class_prior()).argmax(axis=1) == labels.classes)[counts]
        for ridge in judgements
    ]
    right = [int(np.count_nonzero(is_hit)) for is_hit in hits]
    best = 0
    for place in range(1, len(others) + 1):
        n_different = int(np.count_nonzero(hits[place] != hits[0]))
        is_clear = right[place] - right[0] > _STANDARD_ERRORS * np.sqrt(n_different)
        if is_clear and right[place] > right[best]:
            best = place
    if others:
        for ridge, n_right in zip(judgements, right, strict=True):
            stats[f"loo_{ridge.arm.name}"] = n_right / n_usable
    return judgements[best].arm


def edge_scores(scores: FloatArray, inverse_root: FloatArray, constant: FloatArray) -> FloatArray:
    """(n_nodes, n_classes) what nodes give a new point over an edge of weight 1 (K5b).

    ``inverse_root``, (n_nodes,), is that of `PersonalizedPageRank`; ``constant``, (n_classes,), is
    the part of all scores that the walk does not change.
    """
    return np.asarray(inverse_root[:, None] * (scores - constant))


def joined_scores(
    own: FloatArray, edges: Any, node_scores: FloatArray, teleport: float, constant: FloatArray
) -> FloatArray:
    """(n_points, n_classes) scores of new points with edges to nodes: their own row (K5b).

    ``own`` are their scores by features alone, (n_points, n_classes); ``edges`` weights, (n_points,
    n_nodes); ``node_scores`` the result of `edge_scores` for ``constant``. The nodes' scores stay
    as they are. Raises ValueError for ``edges`` of another shape, or weights that are negative or
    not finite.
    """
    matrix = sp.csr_array(edges, dtype=np.float64, copy=True)
    shape = (len(own), len(node_scores))
    if matrix.shape != shape:
        raise ValueError(f"edges must have shape {shape}, got {matrix.shape}")
    if not (np.isfinite(matrix.data).all() and (matrix.data >= 0).all()):
        raise ValueError("edges must be weights that are finite and >= 0")
    matrix.eliminate_zeros()
    counts = np.diff(matrix.indptr)
    degree = matrix.sum(axis=1)
    whole = degree + np.divide(degree, counts, out=np.ones_like(degree), where=counts > 0)
    loop = 1.0 / (counts + 1.0)
    neighbors = (matrix @ node_scores) / np.sqrt(whole)[:, None]
    mixed = teleport * (own - constant) + (1.0 - teleport) * neighbors
    joined: FloatArray = mixed / (1.0 - (1.0 - teleport) * loop)[:, None] + constant  # (K5b)
    return joined
