"""Auto: several ways to read a graph, weighted by the labels that each predicts when left out.

Decision: the default model when nothing is known of a graph. Context: on graphs of hubs, rings,
neighbors or accounts, with classes of any size, each single method is best somewhere and loses by
tens of points elsewhere. Consequence: three arms that cost one solve each and can leave labels out
without another: Poisson learning, density of personalized PageRank, and walks that sharpen a first
partition. Two more ask what a node is like instead of whom it is near. Harmonic functions join them
where labels hide one another, filtered ridge where nodes have features.
`peewit.solvers.models.auto.stacking` combines them, and the class shares are one of the answers.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal, cast

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.decision import OBJECTIVES, Objective
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Cancelled, Progress, RunStopped, Watch
from peewit.solvers.labels import Labels, RealLabels, Targets
from peewit.solvers.laplacian.adjacency_spectrum import rank_of, working_bytes
from peewit.solvers.laplacian.structural_points import N_ROWS
from peewit.solvers.laplacian.unsparsified_system import LEAST_PASSES
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.columns_of_all_edges import ColumnsOfAllEdges
from peewit.solvers.models.auto.density_arm import TELEPORT, Densities, density_maker
from peewit.solvers.models.auto.harmonic_arm import harmonic_arm
from peewit.solvers.models.auto.point_arms import (
    FULL_COLUMNS,
    MOST_POINT_PASSES,
    node_points,
    point_arm,
)
from peewit.solvers.models.auto.poisson_arm import Potentials, scaled
from peewit.solvers.models.auto.preparation import AllEdges, NodePoints, PreparedAuto, width_of
from peewit.solvers.models.auto.proof_rounds import prove_in_rounds
from peewit.solvers.models.auto.proven_stack import Stacked
from peewit.solvers.models.auto.silence import silence_warnings
from peewit.solvers.models.auto.stacked_arm import StackedArm
from peewit.solvers.models.auto.stacking import (
    Belief,
    SharePrior,
    Stack,
    StratifiedStack,
    fitted_stack,
)
from peewit.solvers.models.auto.walk_arm import walk_arm
from peewit.solvers.models.classes.class_balance import (
    GivenShares,
    completed_shares,
    unknown_classes,
)
from peewit.solvers.models.classes.macro_f1 import macro_f1_decision
from peewit.solvers.models.contract.feature_model import FeatureModel
from peewit.solvers.models.contract.graph_model import GraphModel, PreparedGraph
from peewit.solvers.models.contract.model import KEPT_BYTES, ScoreKind, as_classes, check_labels
from peewit.solvers.models.contract.provable_model import ProofTask, Provable, Proven
from peewit.solvers.models.contract.refinable_model import FullGraph, PassesSpent
from peewit.solvers.models.harmonic.harmonic_mbo import joined_columns
from peewit.solvers.models.left_out.label_coverage import LabelCoverage
from peewit.solvers.models.left_out.label_groups import (
    GroupColumns,
    LabelGroups,
    most_groups,
    most_stand_ins,
)
from peewit.solvers.models.left_out.label_sample import LabelSample, reweighed, unlike_degrees
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Advised, Decisive, Functions, LeftOut, Solution, give_shares
from peewit.solvers.status import Status

_TOSS_UP: Final = 0.02
"""Classes whose probabilities differ by less are equally likely to be right."""

_LEAST_SLOPE_LABELS: Final = 20
_SLOPE_MASS: Final = 0.05

_SOLVED_BYTES: Final = 112
"""Memory of a solve per node and column: thirteen vectors in float64, those of a multigrid cycle
and first iterates included; half as much with Jacobi."""

_FILTERED_BYTES: Final = 36
"""Memory of personalized PageRank per node and column: nine vectors in float32."""

_WALKED_BYTES: Final = 66
"""Memory of the walks, the arms and densities per node and class."""

_KEPT_BYTES: Final = 50
"""Memory per node of the classes that walks began with, and of the cycle of harmonic functions."""

_KEPT_CLASS_BYTES: Final = 6
"""Per node and class: harmonic functions in float32, and the shares where they and walks ended in a
byte each."""

_JOINED_BYTES: Final = 8
"""Per node and column of walks that step together: before and after a step."""

_STAND_IN_BYTES: Final = 8
"""Per stand-in node and each group where walks end, or class."""

_LEAST_SHARING: Final = 3
"""Fewest folds that share columns: without one of two the others could not be judged."""

_MOST_SHARED: Final = 4
"""Most columns of folds, relative to those of a solve, that are worth their memory."""

_SHARED_BYTES: Final = 16
"""Per node and column of potentials and of densities, as they are kept and as they are read."""

_ALONE: Final = ("harmonic", "spectral", "structural")
"""Arms that only a belief of their own uses, so that one that is not believed changes nothing."""


def _belief(mass: float, *arms: str, **settings: Any) -> Belief:
    """That ``arms`` are right, the first fully and another half."""
    weights = {arm: 1.0 / (1 + place) for place, arm in enumerate(arms)}
    ignores = tuple(arm for arm in _ALONE if arm not in arms)
    return Belief(weights=weights, mass=mass, ignores=ignores, **settings)


BELIEFS: Final = {
    "walks": _belief(0.35, "walks", "poisson"),
    "poisson": _belief(0.15, "poisson"),
    "density": _belief(0.35, "density", uses_shares=True),
    "harmonic": _belief(0.15, "harmonic"),
    "spectral": _belief(0.35, "spectral"),
    "structural": _belief(0.15, "structural"),
    "majority": Belief(weights={}, mass=0.15),
    "features": _belief(1.0, "features", variance=0.1),
}
"""Prior beliefs on what may be right on a graph (K9)."""


_LINEAR: Final = {"poisson": "potentials", "density": "densities"}
"""Arms that are linear systems in the Laplacian; one of them explains what the coins did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(FeatureModel, Provable):
    """Stacked arms, judged by labels left out.

    Attributes of ``stats``: ``class_sizes`` says whether walks began at free sizes or at nearly
    even ones, which few labels try; ``walks_from`` whose classes they began from; ``walks`` whether
    ``anew`` or ``repeated`` from labels that were nearly the same; ``harmonic`` the same of
    harmonic functions, or that they were ``left out``, as ``screening`` is low, or have ``not
    converged``; ``belief`` is the one that counts most, ``belief_<name>`` how much each counts;
    ``loo_accuracy`` is the share of the left-out labels that the whole predicts, ``loo_<arm>`` the
    share that each arm alone would; ``majority`` is the share of the labels in the largest class;
    ``sample_p_value`` is the probability that a random sample would be as unlike the nodes as these
    labels.

    Scores are probabilities. ``class_shares`` of ``stats`` says whose class shares they have:
    ``known`` or ``counted`` ones, as told, ``estimated``, or those ``of labels``.

    Notes
    -----
    Two to five folds are left out, the fewer the more classes; labels are columns of linear maps,
    kept for the next solve. While few labels have changed walks are repeated (K13), so that answers
    depend a little on the labels that were solved for before. `refine` solves for these columns on
    the full graph, and makes points of nodes from it; walks then start from the refined scores and
    go along all edges, as harmonic functions do; filtered ridge stays on the sparsifier, and arms
    are judged anew.

    References
    ----------
    Wolpert (1992), stacked generalization; Calder, Cook, Thorpe and Slepcev (2020); Saerens,
    Latinne and Decaestecker (2002).
    """

    uses_start: ClassVar[bool] = False
    takes_counts: ClassVar[bool] = True
    smooths_by_relation: ClassVar[bool] = True
    of_graph: ClassVar[str] = "graph"
    is_calibrated: ClassVar[bool] = True
    least_passes: ClassVar[int] = 1 + 2 * LEAST_PASSES + MOST_POINT_PASSES
    graph_copies: ClassVar[tuple[float, float]] = (1.0, 4.0)  # that of its own numbering in a file

    rtol: float = hyperparameter(
        1e-4,
        Rule(
            doc="Relative residual asked of the linear solves: ten times as much, up to .001, "
            "on graphs of 8,192 nodes and more.",
            above=0.0,
            below=1.0,
        ),
    )
    max_iter: int = hyperparameter(
        10_000, Rule(doc="Limit on the iterations of one linear solve.", kind=int, minimum=1)
    )
    walks: Literal["repeated", "anew"] = hyperparameter(
        "repeated",
        Rule(
            doc="repeated: while few labels have changed only the last walk is done again, in a "
            "tenth of the time. anew: an answer depends on its own labels alone.",
            kind=str,
            words=("repeated", "anew"),
        ),
    )
    objective: Objective = hyperparameter(
        "accuracy",
        Rule(
            doc="What labels aim at: accuracy, most nodes right; macro-f1, the largest mean of the "
            "classes' F-measures, which finds rare classes. Probabilities stay what they are.",
            kind=str,
            words=OBJECTIVES,
        ),
    )
    class_shares: GivenShares = hyperparameter(
        "estimated",
        Rule(
            doc="Shares of the classes among all nodes. estimated: those of the labels, or from 10 "
            "labels a class on estimated where these are no random sample. labels: those of the "
            "labels, as counted in a random sample. Known ones as fraud=.02,spam=.1 or an object: "
            "classes without a share have the rest, as the labels have them.",
            kind=str,
            words=("estimated", "labels"),
            takes_shares=True,
        ),
    )

    @property
    def score_kind(self) -> ScoreKind:
        """Probabilities, calibrated on labels left out."""
        return "probability"

    def node_bytes(self, n_nodes: int, n_classes: int) -> int:
        """Columns of the groups of labels in float32, and what makes or reads them."""
        n_groups = most_groups(n_nodes, n_classes)
        width = min(width_of(n_nodes), n_groups)
        joined = max(joined_columns(n_nodes), n_classes)
        solving = _SOLVED_BYTES * width + 4 * n_groups
        walking = 2 * 4 * n_groups + _JOINED_BYTES * joined + _WALKED_BYTES * n_classes
        filtering = 2 * 4 * n_groups + _FILTERED_BYTES * width + _WALKED_BYTES * n_classes // 2
        keeping = _KEPT_BYTES + 4 * (rank_of(n_nodes) + N_ROWS) + _KEPT_CLASS_BYTES * n_classes
        standing = _STAND_IN_BYTES * (n_groups + n_classes)
        share = most_stand_ins(n_nodes, n_classes) / max(n_nodes, 1)
        making = max(solving, walking, filtering, working_bytes(n_nodes))
        return making + keeping + int(share * standing)

    @one_blas_thread
    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,
    ) -> PreparedAuto:
        """The graph, its normalized adjacency matrix, and the checked features.

        Raises TypeError or ValueError as `FilteredRidge.prepare`.
        """
        filtered = None
        if features is not None:
            filtered = FilteredRidge().prepare(
                graph, features, parallel=parallel, kept_bytes=kept_bytes
            )
            pagerank = filtered.columns.pagerank
        else:
            pagerank = PersonalizedPageRank.of_graph(graph, parallel)
        return PreparedAuto(
            base=PreparedGraph.of_graph(graph, parallel, kept_bytes),
            pagerank=pagerank,
            potential_columns=GroupColumns(kept_bytes=kept_bytes),
            density_columns=GroupColumns(kept_bytes=kept_bytes),
            max_kept_bytes=kept_bytes,
            features=filtered,
        )

    def solve_watched(
        self,
        prepared: PreparedAuto,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - columns that are kept are the better start
        watch: Watch,
    ) -> Solution:
        """Scores of every node; see `Model.solve`."""
        check_labels(labels, prepared.graph)
        return self._solve(prepared, LabelGroups.of(labels, prepared.graph.n_nodes), watch)

    def _solve(self, prepared: PreparedAuto, groups: LabelGroups, watch: Watch) -> Solution:
        """The stack of all arms or, once stopped, scores that prefer no class."""
        try:
            return self._stacked(prepared, groups, watch).solution
        except RunStopped:
            n_nodes, n_classes = prepared.graph.n_nodes, groups.labels.n_classes
            return Solution(
                scores=np.full((n_nodes, n_classes), 1.0 / n_classes),
                reachable=np.zeros(n_nodes, bool),
                status=Status.CANCELLED,
                stats={"n_iter": 0},
            )

    @one_blas_thread
    def solve_without(
        self,
        prepared: PreparedAuto,
        labels: Labels | RealLabels,
        fold: Int64Array,
        number: int,
        *,
        start: Solution | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """From columns that all folds share, if these fit; see `Model.solve_without`."""
        watch = Watch(progress=progress, cancelled=cancelled)
        caches = prepared.walk_cache, prepared.harmonic_cache
        # they may have seen the labels left out
        prepared.walk_cache = prepared.harmonic_cache = None
        groups = _groups_of_folds(prepared, as_classes(labels), fold)
        try:
            if groups is None:
                return FeatureModel.solve_without(
                    self,
                    prepared,
                    labels,
                    fold,
                    number,
                    start=start,
                    progress=progress,
                    cancelled=cancelled,
                )
            if not (
                prepared.potential_columns.holds(groups) and prepared.density_columns.holds(groups)
            ):
                with suppress(RunStopped):  # the solve then stops, too
                    self._potentials(prepared, groups, watch)
                    prepared.density_columns.of(groups, density_maker(prepared, watch))
            return self._solve(prepared, groups.rest(fold == number), watch)
        finally:
            prepared.walk_cache, prepared.harmonic_cache = caches

    def _stacked(self, prepared: PreparedAuto, groups: LabelGroups, watch: Watch) -> Stacked:
        """The stack of all arms; raises `RunStopped`."""
        labels = groups.labels
        given = completed_shares("class_shares", self.class_shares, labels)  # or refuses them
        # points first, beside nothing else
        points = node_points(prepared, watch.within("points"))
        poisson = self._potentials(prepared, groups, watch.within("potentials"))
        densities = Densities.of(prepared, groups, watch.within("densities"))
        built = self._arms(prepared, points, poisson, densities, watch)
        watch.step("weighing", 0, 1)
        predicted = np.flatnonzero(groups.stand_in_fold >= 0)
        nodes, places = groups.stand_ins[predicted], labels.n_labeled + predicted
        arms = {name: arm.with_scale_of(nodes, places) for name, arm in built.arms.items()}
        coverage = LabelCoverage.of(densities.columns, groups)
        covariate = _standardized_degrees(prepared.degree, groups)
        stack = _stack(groups, arms, covariate, coverage)
        probabilities = stack.probabilities(arms, covariate)
        shares = np.exp(stack.far.shares.of_all)
        shares /= shares.sum()
        sample = LabelSample(p_value=coverage.p_value, shares=shares, is_estimated=False)
        # a left-out label of which others say nothing is predicted by nothing, as no node is (K16)
        has_others = built.is_informed
        reached, left_out = has_others[groups.usable], stack.left_out
        if not coverage.is_spread:
            places_judged = places[has_others[places]]
            of_nodes = stack.left_out_of(arms, places_judged, covariate[groups.left_out_nodes])
            sample = replace(
                LabelSample.of(of_nodes, left_out[reached], shares),
                degrees=unlike_degrees(prepared.degree, labels, labels.nodes),
                nearness=coverage.nearness,
            )
        if given is not None:
            sample = sample.with_given(
                given, "counted" if self.class_shares == "labels" else "known"
            )
        factors = np.ones_like(shares)
        if sample.is_reweighed:
            factors = sample.shares / shares
            probabilities = reweighed(probabilities, factors)
            left_out = reweighed(left_out, factors)
        give_shares(probabilities, built.reachable, given)
        of_classes = densities.of_classes()
        solution = Solution(
            scores=probabilities,
            reachable=built.reachable,
            status=poisson.status,
            stats={
                **built.stats,
                **_arm_stats(groups, arms, stack, sample),
                "class_shares": sample.shares_are,
            },
            warnings=(*built.warnings, *_warnings(labels, sample, coverage)),
            densities=of_classes,
            decisive=_decisive(prepared, stack, poisson, of_classes),
            left_out=None
            if coverage.is_spread
            else LeftOut(places=groups.usable, scores=left_out, reachable=reached),
            of_features=built.of_features,
            class_shares=given,
        )
        if self.objective == "macro-f1":
            solution = replace(solution, decision=macro_f1_decision(solution, labels))
        unknown = unknown_classes("class_shares", self.class_shares, labels)
        further = (*([] if unknown is None else [unknown]), *silence_warnings(solution, labels))
        watch.step("weighing", 1, 1)
        return Stacked(
            solution=replace(solution, warnings=(*solution.warnings, *further)),
            arms=arms,
            stack=stack,
            covariate=covariate,
            factors=factors,
            poisson=poisson,
        )

    def _arms(
        self,
        prepared: PreparedAuto,
        points: Mapping[str, NodePoints],
        poisson: Potentials,
        densities: Densities,
        watch: Watch,
    ) -> "_Arms":
        """All arms that the graph and its features allow; raises `RunStopped`."""
        groups = poisson.groups
        arms = {"poisson": poisson.arm(), "density": densities.arm()}
        if self.walks == "anew":
            prepared.walk_cache = prepared.harmonic_cache = None
        harmonic = harmonic_arm(
            prepared, poisson, watch.within("harmonic"), rtol=self.rtol, max_iter=self.max_iter
        )
        if harmonic.arm is not None:
            arms["harmonic"] = harmonic.arm
        arms["walks"], walk_stats = walk_arm(
            prepared, poisson, densities, arms, watch.within("walks")
        )
        watch.step("points", 1, 1)
        for name, each in points.items():
            arms[name] = point_arm(each, groups, poisson.task.reachable)
        stats = {**poisson.stats, "input": self.of_graph, **harmonic.stats, **walk_stats}
        reachable, warnings = poisson.task.reachable, harmonic.warnings
        is_informed, of_features = groups.reached(prepared.graph.component), None
        if prepared.features is not None:
            filtered, rows = FilteredRidge().solved_and_left_out(
                prepared.features, groups.labels, watch.within("features"), may_drop_features=False
            )  # the graph alone has other arms
            if filtered.status is Status.CANCELLED:
                raise RunStopped
            left_out = np.concatenate([rows.values, filtered.scores[groups.stand_ins]])
            is_informed |= np.append(rows.is_informed, filtered.reachable[groups.stand_ins])
            arms["features"] = scaled(filtered.scores, left_out, filtered.reachable)
            reachable = reachable | filtered.reachable
            warnings, of_features = warnings + filtered.warnings, filtered.functions
            names = ("input", "n_without_features", "teleport", "belief_relations")
            stats |= {name: filtered.stats[name] for name in names if name in filtered.stats}
        return _Arms(
            arms=arms,
            reachable=reachable,
            is_informed=is_informed,
            of_features=of_features,
            stats=stats,
            warnings=warnings,
        )

    def full_columns(self, n_nodes: int, n_classes: int) -> int:
        """One for every group of labels, or those of points."""
        return max(most_groups(n_nodes, n_classes), FULL_COLUMNS)

    def full_solution(
        self, prepared: PreparedAuto, labels: Targets, solution: Solution, full: FullGraph
    ) -> Solution:
        """The stack of arms whose columns are those of the full graph; see `Refinable`."""
        groups = LabelGroups.of(as_classes(labels), prepared.graph.n_nodes)
        columns = ColumnsOfAllEdges.of(
            prepared, self._potentials(prepared, groups, full.watch), full.degrees(), full.watch
        )
        later = LEAST_PASSES + MOST_POINT_PASSES
        potentials = full.solved(replace(columns.potentials, rtol=self.rtol), later=later).x
        columns = columns.with_points(full)
        all_edges = AllEdges(passes=full, degrees=columns.degrees)
        refined = columns.read(potentials, full.solve(columns.densities), all_edges)
        stacked = self._on_all_edges(refined, groups, full.watch)
        return _told(stacked.solution, solution, all_edges)

    def proven(
        self, prepared: PreparedAuto, labels: Labels, solution: Solution, task: ProofTask
    ) -> Proven:
        """Columns of all edges, ever more exact, until few labels are unproven; see `Provable`."""
        watch, groups = task.watch, LabelGroups.of(labels, prepared.graph.n_nodes)
        full = FullGraph(
            product=task.passes,
            degrees=lambda: task.degrees,
            max_passes=task.max_passes,
            watch=watch,
        )
        columns = ColumnsOfAllEdges.of(
            prepared, self._potentials(prepared, groups, watch), task.degrees, watch
        )
        proven, all_edges = prove_in_rounds(
            columns, full, task, lambda refined: self._on_all_edges(refined, groups, watch)
        )
        return replace(proven, solution=_told(proven.solution, solution, all_edges))

    def _on_all_edges(self, refined: PreparedAuto, groups: LabelGroups, watch: Watch) -> Stacked:
        """The stack on all edges; walks stay on those kept if passes are spent."""
        try:
            return self._stacked(refined, groups, watch)
        except PassesSpent:
            cast(AllEdges, refined.all_edges).walks = False
            return self._stacked(refined, groups, watch)

    def _potentials(self, prepared: PreparedAuto, groups: LabelGroups, watch: Watch) -> Potentials:
        return Potentials.of(prepared, groups, watch, rtol=self.rtol, max_iter=self.max_iter)

    def bequest(self, prepared: PreparedAuto) -> Mapping[Any, Any]:
        """Whether a hierarchy was needed."""
        return _GRAPH.bequest(prepared.base)

    def inherit(self, prepared: PreparedAuto, left: Mapping[Any, Any]) -> None:
        """Build the hierarchy at once if it was needed before."""
        _GRAPH.inherit(prepared.base, left)


_GRAPH: Final[GraphModel] = Poisson()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Arms:
    """The arms of a stack, and what making them told."""

    arms: dict[str, StackedArm]
    reachable: BoolArray
    is_informed: BoolArray  # (n_left_out,) whether others say anything of what is left out
    of_features: Functions | None
    stats: dict[str, float | int | str]
    warnings: tuple[str, ...]


def _decisive(
    prepared: PreparedAuto, stack: StratifiedStack, poisson: Potentials, of_classes: Float32Array
) -> Decisive:
    """The system of the linear arm that counts most; (K6) is a multiple of (L + a/(1-a) D)^-1."""
    linear = max(_LINEAR, key=lambda name: stack.belief_weights.get(name, 0.0))
    is_potential = linear == "poisson"
    return Decisive(
        values=poisson.scores if is_potential else of_classes,
        shift=prepared.graph.degree * (0.0 if is_potential else TELEPORT / (1.0 - TELEPORT)),
        is_reached=poisson.task.reachable,
        is_free=poisson.task.reachable,
        name=_LINEAR[linear],
        hierarchy=prepared.base.kernel.solver.hierarchy,
    )


def _told(refined: Solution, before: Solution, all_edges: AllEdges) -> Solution:
    """The answer on all edges, with what the solve on those kept told."""
    stats = {name: before.stats[name] for name in ("n_iter", "preconditioner")}
    stats["walks_on"] = "all edges" if all_edges.walks else "edges kept"
    # no densities: reasons follow walks on the sparsifier
    return replace(refined, stats={**refined.stats, **stats}, densities=None)


def _groups_of_folds(
    prepared: PreparedAuto, labels: Labels, fold: Int64Array
) -> LabelGroups | None:
    """Groups of some folds; None if the rest of one is a single fold, or columns do not fit."""
    if fold.max() + 1 < _LEAST_SHARING:
        return None
    groups = LabelGroups.of_folds(labels, fold, prepared.graph.n_nodes)
    n_bytes = _SHARED_BYTES * groups.n_groups * prepared.graph.n_nodes
    most = most_groups(prepared.graph.n_nodes, labels.n_classes)
    fits = groups.n_groups <= _MOST_SHARED * most and n_bytes <= prepared.max_kept_bytes
    return groups if fits else None


def _standardized_degrees(degree: FloatArray, groups: LabelGroups) -> FloatArray:
    """(n_nodes,) standardized log degrees, clipped to the range of the labels (K7)."""
    mean = float(degree.mean()) or 1.0
    covariate: FloatArray = np.log1p(degree / mean)
    covariate = (covariate - covariate.mean()) / (float(covariate.std()) or 1.0)
    used = groups.usable
    if used.size:  # a slope says nothing of degrees that no label has
        of_labels = covariate[groups.labels.nodes[used]]
        covariate = np.clip(covariate, of_labels.min(), of_labels.max())
    return np.asarray(covariate)


def _stack(
    groups: LabelGroups, arms: dict[str, StackedArm], covariate: FloatArray, coverage: LabelCoverage
) -> StratifiedStack:
    """One stack, or one for each stratum where labels are spread (K12)."""
    labels, used = groups.labels, groups.usable
    shares = SharePrior.of(labels.classes, labels.n_classes)

    def fitted(some: Int64Array) -> Stack:
        return fitted_stack(
            arms,
            labels.classes,
            shares,
            BELIEFS,
            some,
            covariate[labels.nodes] if some.size >= _LEAST_SLOPE_LABELS else None,
            covariate_mass=_SLOPE_MASS,
        )

    if not coverage.is_spread:
        whole = fitted(used)
        return StratifiedStack(far=whole, near=whole, coverage=coverage)
    is_near = coverage.is_left_near
    return StratifiedStack(
        far=fitted(used[~is_near]), near=fitted(used[is_near]), coverage=coverage
    )


def _arm_stats(
    groups: LabelGroups, arms: dict[str, StackedArm], stack: StratifiedStack, sample: LabelSample
) -> dict[str, float | int | str]:
    """Stats of how the arms were judged."""
    used, classes, counted = groups.usable, groups.labels.classes, stack.belief_weights
    stats: dict[str, float | int | str] = {"belief": max(counted, key=lambda name: counted[name])}
    stats |= {f"belief_{name}": round(share, 4) for name, share in counted.items()}
    if used.size == 0:
        return stats
    known = classes[used]

    def right(scores: FloatArray) -> float:
        return float((scores.argmax(axis=1) == known).mean())

    # without a label its class is a little rarer: a toss-up between shares would never find it
    whole = stack.left_out
    best = whole >= whole.max(axis=1, keepdims=True) - _TOSS_UP
    accuracy = float((best[np.arange(known.size), known] / best.sum(axis=1)).mean())
    stats |= {"loo_accuracy": accuracy, "loo_labels": int(used.size)}
    stats |= {f"loo_{name}": right(arm.left_out[used]) for name, arm in arms.items()}
    stats["majority"] = float(np.bincount(classes).max() / classes.size)
    stats |= sample.stats
    if stack.coverage.is_spread:
        stats["unjudged_share"] = stack.coverage.near_share
    return stats


def _warnings(labels: Labels, sample: LabelSample, coverage: LabelCoverage) -> tuple[str, ...]:
    if coverage.is_spread:
        text = (
            f"the labels are spread out: {coverage.near_share:.0%} of the nodes are nearer "
            "to a label than labels left out are to other labels. So those say little of "
            "how right predictions are there, and loo_accuracy may be far too low; label "
            "some nodes drawn at random to see"
        )
        return (Advised(text, "label random"),)
    warnings = sample.warnings(labels)
    return tuple(Advised(each, "class shares", *each.advice) for each in warnings)
