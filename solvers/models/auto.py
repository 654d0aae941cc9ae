"""Auto: several ways to read a graph, weighed by the labels that each predicts when left out.

Decision: the model to use when nothing is known of a graph. Context: on graphs of hubs, rings,
neighbors or accounts, with classes of any size, each single method is the best somewhere and loses
by tens of points elsewhere. Consequence: three of them are kept, that cost one solve each and can
leave labels out without another: Poisson learning, density of personalized PageRank, and walks that
sharpen a first partition; filtered ridge is the fourth where nodes have features. What they say is
stacked (`peewit.solvers.models.stacking`), and the majority of the labels is one of the answers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, RealArray
from peewit.solvers.features import Rows
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Stopped, Watch
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.laplacian.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.laplacian.unsparsified_system import FullSystem
from peewit.solvers.models.base import KEPT_BYTES, ScoreKind, as_classes, check_labels
from peewit.solvers.models.centring import CentredLabels
from peewit.solvers.models.class_mixing import Mixing, agreement
from peewit.solvers.models.feature_model_base import FeatureModel
from peewit.solvers.models.filtered_ridge import FilteredFeatures, FilteredRidge
from peewit.solvers.models.graph_model_base import Bequest, GraphModel, PreparedGraph
from peewit.solvers.models.harmonic_mbo import HarmonicMBO, WalkStart, joined_columns
from peewit.solvers.models.label_groups import GroupColumns, LabelGroups, most_groups
from peewit.solvers.models.label_sample import DOUBT, LabelSample, reweighed
from peewit.solvers.models.poisson import Poisson
from peewit.solvers.models.poisson_mbo import PoissonMBO
from peewit.solvers.models.refinable_base import FullGraph, Refinable
from peewit.solvers.models.stacking import Belief, SharePrior, Stack, StackedArm, fitted_stack
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure

TELEPORT: Final = 0.05
"""Teleport probability of the density: walks of about 20 steps."""

_DENSITY_RTOL: Final = 1e-4
_EVERYWHERE: Final = 0.3
"""Added to densities, in units of what a walk finds anywhere: less than that says nothing."""

_TOSS_UP: Final = 0.02
"""Classes whose probabilities differ by less are equally likely to be right."""

_SHARE: Final = 0.05
_FEW_PER_CLASS: Final = 5
"""Up to so many labels a class, a cut of nearly even sizes is tried beside that of free ones."""

_LEAST_SLOPE_LABELS: Final = 20
_SLOPE_MASS: Final = 0.05
_BLOCK_ENTRIES: Final = 40 << 20
_ROWS: Final = 1 << 16
"""Nodes at a time, where every class has a number of each."""

_SOLVED_BYTES: Final = 104
"""What a solve holds of a node for each column that is solved for: thirteen vectors in float64,
those of a multigrid cycle counted; half as much where Jacobi serves."""

_FILTERED_BYTES: Final = 28
"""What personalized PageRank holds of a node for each column: seven vectors in float32."""

_WALKED_BYTES: Final = 48
"""What the walks and the arms hold of a node for each class."""

_JOINED_BYTES: Final = 8
"""For each column of walks that step together, before and after a step."""

_LARGEST: Final = 1e30
"""What a potential, in units of 1 / (mean degree), or a density may be in float32."""

BELIEFS: Final = {
    "walks": Belief(weights={"walks": 1.0, "poisson": 0.5}, mass=0.35),
    "poisson": Belief(weights={"poisson": 1.0}, mass=0.15),
    "density": Belief(weights={"density": 1.0}, mass=0.35, uses_shares=True),
    "majority": Belief(weights={}, mass=0.15),
    "features": Belief(weights={"features": 1.0}, mass=1.0, variance=0.1),
}
"""What may be right on a graph, before any label is left out."""


def _width(n_nodes: int) -> int:
    """Columns that are solved for at once."""
    return max(1, _BLOCK_ENTRIES // max(n_nodes, 1))


@dataclass(slots=True, kw_only=True, eq=False)
class PreparedAuto:
    """What the arms share of a graph.

    Attributes
    ----------
    base : PreparedGraph
        Of Poisson learning and of the walks.
    pagerank : PersonalizedPageRank
        Of the density.
    features : FilteredFeatures or None
        Of filtered ridge, where nodes have features.
    potentials, densities : GroupColumns
        Columns of the last labels.
    """

    base: PreparedGraph
    pagerank: PersonalizedPageRank
    potentials: GroupColumns
    densities: GroupColumns
    features: FilteredFeatures | None = None

    @property
    def graph(self) -> Graph:
        """The graph itself."""
        return self.base.graph

    @property
    def rows(self) -> Rows | None:
        """Features as they are given."""
        return None if self.features is None else self.features.rows

    @property
    def width(self) -> int:
        """Columns that are solved for at once."""
        return _width(self.graph.n_nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(FeatureModel, Refinable):
    """Stacked arms, judged by labels left out.

    Attributes of ``stats``: ``class_sizes`` says whether walks began at free sizes or at nearly
    even ones, which few labels try; ``belief`` is the one that counts most, ``loo_accuracy`` the
    share of the left-out labels that the whole predicts, ``loo_<arm>`` those that each arm alone
    would, ``majority`` the largest class; ``belief_<name>`` how much each belief counts,
    ``sample_p_value`` how likely a random sample would be as unlike the nodes as these labels.

    Scores are probabilities.

    Notes
    -----
    Two to five folds are left out, of many classes fewer; labels are columns of linear maps, kept
    for the next solve. Refined on the full graph are these columns; walks then start from what they
    say and stay on the sparsifier, as filtered ridge does, and all arms are judged anew.

    References
    ----------
    Wolpert (1992), stacked generalization; Calder, Cook, Thorpe and Slepcev (2020); Saerens,
    Latinne and Decaestecker (2002).
    """

    of_graph: ClassVar[str] = "graph"
    graph_copies: ClassVar[tuple[float, float]] = (1.0, 4.0)  # that of its own numbering in a file

    rtol: float = hyperparameter(
        1e-4, Rule(doc="Relative residual asked of the linear solves.", above=0.0, below=1.0)
    )
    max_iter: int = hyperparameter(
        10_000, Rule(doc="Limit on the iterations of one linear solve.", kind=int, minimum=1)
    )

    @property
    def score_kind(self) -> ScoreKind:
        """Calibrated on labels left out."""
        return "probability"

    def node_bytes(self, n_nodes: int, n_classes: int) -> int:
        """Columns of the groups of labels, single in memory, and what makes or reads them."""
        n_groups = most_groups(n_nodes, n_classes)
        width = min(_width(n_nodes), n_groups)
        joined = max(joined_columns(n_nodes), n_classes)
        solving = _SOLVED_BYTES * width + 4 * n_groups
        walking = 4 * n_groups + _JOINED_BYTES * joined + _WALKED_BYTES * n_classes
        filtering = 2 * 4 * n_groups + _FILTERED_BYTES * width + _WALKED_BYTES * n_classes // 2
        return max(solving, walking, filtering)

    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,
    ) -> PreparedAuto:
        """The graph, its normalised adjacency matrix, and the features, checked.

        Raises
        ------
        TypeError, ValueError
            As `FilteredRidge.prepare`.
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
            potentials=GroupColumns(kept_bytes=kept_bytes),
            densities=GroupColumns(kept_bytes=kept_bytes),
            features=filtered,
        )

    def solve_watched(
        self,
        prepared: PreparedAuto,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - columns that are kept are the better start
        watch: Watch,
    ) -> Solution:
        """Scores of every node; see `peewit.solvers.models.base.Model.solve`."""
        check_labels(labels, prepared.graph)
        try:
            return self._solution(prepared, LabelGroups.of(labels, prepared.graph.n_nodes), watch)
        except Stopped:
            n_nodes = prepared.graph.n_nodes
            return Solution(
                scores=np.tile(labels.class_prior(), (n_nodes, 1)),
                reachable=np.zeros(n_nodes, bool),
                status=Status.CANCELLED,
                stats={"n_iter": 0},
            )

    def _solution(self, prepared: PreparedAuto, groups: LabelGroups, watch: Watch) -> Solution:
        """The stack of all arms; raises `Stopped`."""
        labels = groups.labels
        poisson = _Potentials.of(self, prepared, groups, watch)
        walks, sizes = _walks(prepared, groups, poisson, watch)
        arms = {
            "poisson": poisson.arm(),
            "density": _density(prepared, groups, watch),
            "walks": walks,
        }
        reachable = poisson.task.reachable
        stats = {**poisson.stats, "input": self.of_graph, "class_sizes": sizes}
        warnings: tuple[str, ...] = ()
        if prepared.features is not None:
            filtered, left_out = FilteredRidge().solved_and_left_out(
                prepared.features, labels, watch
            )
            if filtered.status is Status.CANCELLED:
                raise Stopped
            arms["features"] = _scaled(filtered.scores, left_out, filtered.reachable)
            reachable = reachable | filtered.reachable
            warnings = filtered.warnings
            told = ("input", "n_without_features", "teleport")
            stats |= {name: filtered.stats[name] for name in told if name in filtered.stats}
        stack, covariate = _stacked(prepared, groups, arms)
        probabilities = stack.probabilities(arms, covariate)
        shares = np.exp(stack.shares.of_all)
        shares /= shares.sum()
        sample = LabelSample.of(probabilities[reachable], stack.left_out, shares)
        if sample.is_estimated:
            probabilities = reweighed(probabilities, sample.shares / shares)
        probabilities[~reachable] = labels.class_prior()
        return Solution(
            scores=probabilities,
            reachable=reachable,
            status=poisson.status,
            stats={**stats, **_told(groups, arms, stack, sample)},
            warnings=(*warnings, *_warnings(labels, sample)),
        )

    def full_columns(self, n_nodes: int, n_classes: int) -> int:
        """One for every group of labels."""
        return most_groups(n_nodes, n_classes)

    def full_solution(
        self, prepared: PreparedAuto, labels: Targets, solution: Solution, full: FullGraph
    ) -> Solution:
        """The stack of arms whose columns are those of the full graph; see `Refinable`."""
        groups = LabelGroups.of(as_classes(labels), prepared.graph.n_nodes)
        refined = self._refined(prepared, groups, full)
        found = self._solution(refined, groups, full.watch)
        kept = {name: solution.stats[name] for name in ("n_iter", "preconditioner")}
        return replace(found, stats={**found.stats, **kept})

    def _refined(
        self, prepared: PreparedAuto, groups: LabelGroups, full: FullGraph
    ) -> PreparedAuto:
        """``prepared`` with the columns of the full graph; raises `Stopped`."""
        graph, watch = prepared.graph, full.watch
        sources: FloatArray = np.asarray(
            _indicators(groups.members(), graph.n_nodes, np.float64), np.float64
        )
        system = FullSystem(
            sparsifier=graph,
            scale=1.0,
            shift=np.zeros(graph.n_nodes),
            zero_mean=False,
            rhs=sources,
            start=_Potentials.of(self, prepared, groups, watch).columns.T.astype(np.float64),
            rtol=self.rtol,
            parallel=prepared.base.parallel,
        )
        potentials = full.solve(system)
        degree, n_edges = full.degrees()
        looped = degree * (1.0 + 1.0 / np.maximum(n_edges, 1))  # a loop of the edges' mean weight
        looped[n_edges == 0] = 1.0
        # (K6) is vol a ((1 - a) L + a D)^-1, since D - A is L with and without loops
        system = replace(
            system,
            scale=1.0 - TELEPORT,
            shift=TELEPORT * looped,
            rhs=TELEPORT * sources,
            start=prepared.densities.of(groups, _density_maker(prepared, watch)).T.astype(
                np.float64
            ),
            rtol=_DENSITY_RTOL,
        )
        densities = np.clip(looped.sum() * full.solve(system).T, 0.0, _LARGEST)
        whole = replace(graph, degree=degree)
        return replace(
            prepared,
            potentials=GroupColumns.holding(groups, _centred(potentials, whole, _unit(whole))),
            densities=GroupColumns.holding(groups, densities.astype(np.float32)),
        )

    def bequest(self, prepared: PreparedAuto) -> Bequest:
        """Whether there was need of a hierarchy."""
        return _GRAPH.bequest(prepared.base)

    def inherit(self, prepared: PreparedAuto, bequest: Bequest | None) -> None:
        """Contract the graph without a trial."""
        _GRAPH.inherit(prepared.base, bequest)


_GRAPH: Final[GraphModel] = Poisson()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Potentials:
    """Poisson learning with all labels, and without each fold.

    Attributes
    ----------
    groups : LabelGroups
    graph : Graph
    task : CentredLabels
        All labels.
    columns : (n_groups, n_nodes) float32
        L^+ of the groups times the mean degree, of mean 0 by degree on each component.
    scores : (n_nodes, n_classes) float64
        With all labels.
    status : Status
    stats : dict
    """

    groups: LabelGroups
    graph: Graph
    task: CentredLabels
    columns: Float32Array
    scores: FloatArray
    status: Status
    stats: dict[str, float | int | str]

    @classmethod
    def of(
        cls, model: "Auto", prepared: PreparedAuto, groups: LabelGroups, watch: Watch
    ) -> "_Potentials":
        """Those of ``groups``; raises `Stopped`."""
        graph, solver = prepared.graph, prepared.base.kernel.solver
        made = _Made(model=model, prepared=prepared, watch=watch)
        columns = prepared.potentials.of(groups, made.columns)
        if made.status is not Status.CONVERGED:
            prepared.potentials.kept.clear()
        if solver.eliminates or solver.is_blind:  # whether rounding decides only bounds can tell
            bounded = Poisson(rtol=model.rtol, max_iter=model.max_iter)
            _, solution = bounded.poisson(prepared.base, groups.labels, None, watch)
            made.status = first_failure(made.status, solution.status)
        task = CentredLabels.of(groups.labels, graph.component)
        return cls(
            groups=groups,
            graph=graph,
            task=task,
            columns=columns,
            scores=_potential(columns, groups.class_sums(), task),
            status=made.status,
            stats={
                "n_iter": made.n_iter,
                "residual": made.residual,
                "preconditioner": prepared.base.kernel.solver.chosen,
            },
        )

    def without(self, fold: int) -> tuple[CentredLabels, FloatArray]:
        """The labels of the other folds, and the scores that they give."""
        task = CentredLabels.of(self.groups.without(fold), self.graph.component)
        return task, _potential(
            self.columns, self.groups.class_sums(self.groups.fold != fold), task
        )

    def arm(self) -> StackedArm:
        """Poisson learning as an arm."""
        labels = self.groups.labels
        left_out = np.zeros((labels.n_labeled, labels.n_classes))
        if self.groups.is_single:
            left_out[self.groups.usable] = self._each_without()
        else:
            for fold in range(self.groups.n_folds):
                at = np.flatnonzero(self.groups.fold == fold)
                task, scores = self.without(fold)
                nodes = labels.nodes[at]
                left_out[at] = np.where(task.reachable[nodes, None], scores[nodes], 0.0)
        return _compressed(self.scores, left_out, self.task.reachable)

    def _each_without(self) -> FloatArray:
        """(n_usable, n_classes) every label's own scores, by all the others."""
        labels, component = self.groups.labels, self.graph.component
        at_labels = self.columns[:, labels.nodes].astype(np.float64)
        np.fill_diagonal(at_labels, 0.0)
        together = component[labels.nodes][:, None] == component[labels.nodes]
        np.fill_diagonal(together, val=False)
        targets = labels.targets()
        counts = together @ targets
        means = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
        scores = at_labels.T @ targets - means * at_labels.sum(axis=0)[:, None]
        lowest = np.where(counts > 0, scores, np.inf).min(axis=1, keepdims=True)
        found = np.where(counts > 0, scores, lowest)
        found[counts.sum(axis=1) == 0] = 0.0
        return np.asarray(found[self.groups.usable])


@dataclass(slots=True, kw_only=True, eq=False)
class _Made:
    """Columns of L^+ as they are solved for, and how that went."""

    model: "Auto"
    prepared: PreparedAuto
    watch: Watch
    status: Status = Status.CONVERGED
    n_iter: int = 0
    residual: float = 0.0

    def columns(self, members: list[Int64Array]) -> Float32Array:
        """(n_groups, n_nodes) of some groups."""
        graph, kernel = self.prepared.graph, self.prepared.base.kernel
        columns = np.empty((len(members), graph.n_nodes), np.float32)
        solver, unit = self._solver()
        width = self.prepared.width
        for first in range(0, len(members), width):
            some = members[first : first + width]
            solution = solver.solve(
                _indicators(some, graph.n_nodes, solver.dtype),
                project=True,
                phase="potentials",
                progress=self.watch.progress,
                cancelled=self.watch.cancelled,
                overwrite=True,
            )
            self.watch.check()
            self.status = first_failure(self.status, solution.status)
            self.n_iter += solution.n_iter
            self.residual = max(self.residual, float(solution.residual.max(initial=0.0)))
            columns[first : first + len(some)] = _centred(solution.x, graph, unit)
        kernel.learn(solver.hierarchy)
        return columns

    def _solver(self) -> tuple[LaplacianSolver, float]:
        """A solver, in float32 as columns are unless residuals are blind; unit of potentials."""
        solver, unit = self.prepared.base.kernel.solver, _unit(self.prepared.graph)
        if solver.eliminates or solver.is_blind:
            solver.rtol, solver.max_iter = self.model.rtol, self.model.max_iter
            return solver, unit
        single = LaplacianSolver(
            solver.graph,
            scale=1.0 / unit,
            rtol=self.model.rtol,
            max_iter=self.model.max_iter,
            dtype=np.float32,
            hierarchy=solver.hierarchy,
            parallel=solver.parallel,
        )
        return single, 1.0


def _unit(graph: Graph) -> float:
    """The mean degree."""
    return float(graph.degree.mean()) or 1.0


def _centred(block: RealArray, graph: Graph, unit: float) -> Float32Array:
    """(k, n_nodes) columns of L^+ times ``unit``, of mean 0 by degree."""
    total = np.bincount(graph.component, graph.degree, graph.n_components)
    by_degree = graph.degree / np.where(total > 0, total, 1.0)[graph.component]
    columns = np.empty(block.shape[::-1], np.float32)
    for place, column in enumerate(block.T):
        means = np.bincount(graph.component, by_degree * column, graph.n_components)
        settled = (column - means[graph.component]) * unit
        columns[place] = np.clip(settled, -_LARGEST, _LARGEST)
    return columns


def _potential(columns: Float32Array, sums: FloatArray, task: CentredLabels) -> FloatArray:
    """(n_nodes, n_classes) Poisson learning (H1) from the columns of groups.

    Classes that are absent from a component are there as low as the lowest one that is present.
    """
    single, lacks = sums.astype(np.float32), task.lacks
    scores = np.empty((columns.shape[1], len(sums)))
    for start in range(0, len(scores), _ROWS):
        rows = slice(start, start + _ROWS)
        found, own = scores[rows], task.component[rows]
        of_class = (single @ columns[:, rows]).T.astype(np.float64)
        found[...] = of_class - task.means[own] * of_class.sum(axis=1, keepdims=True)
        if lacks.any():
            absent = lacks[own]
            lowest = np.where(absent, np.inf, found).min(axis=1, keepdims=True)
            found[...] = np.where(absent & np.isfinite(lowest), lowest, found)
    return scores


def _compressed(scores: FloatArray, left_out: FloatArray, asked: BoolArray) -> StackedArm:
    """Potentials as an arm: they have spikes at labels, which a fit must not follow."""
    centred = _of_reached(scores, asked)
    typical = float(np.median(np.abs(centred[asked]))) or 1.0
    values = np.arcsinh(centred / np.float32(typical), out=centred)
    values -= values.mean(axis=1, keepdims=True)
    bent = np.arcsinh((left_out - left_out.mean(axis=1, keepdims=True)) / typical)
    size = _size(values[asked])
    values /= np.float32(size)
    return StackedArm(values=values, left_out=(bent - bent.mean(axis=1, keepdims=True)) / size)


def _scaled(scores: FloatArray, left_out: FloatArray, asked: BoolArray) -> StackedArm:
    """Class scores as an arm, of size 1."""
    values = _of_reached(scores, asked)
    size = _size(values[asked])
    values /= np.float32(size)
    away = left_out - left_out.mean(axis=1, keepdims=True)
    return StackedArm(values=values, left_out=away / size)


def _of_reached(scores: FloatArray, asked: BoolArray) -> Float32Array:
    """Rows of mean 0; zeros where nothing is asked."""
    values = np.zeros(scores.shape, np.float32)
    for start in range(0, len(scores), _ROWS):
        rows = slice(start, start + _ROWS)
        away = scores[rows] - scores[rows].mean(axis=1, keepdims=True)
        values[rows][asked[rows]] = away[asked[rows]]
    return values


def _size(values: Float32Array) -> float:
    """Root mean square."""
    return float(np.sqrt(np.square(values, dtype=np.float64).mean())) or 1.0


def _density(prepared: PreparedAuto, groups: LabelGroups, watch: Watch) -> StackedArm:
    """How much more often walks from a class come by than walks from anywhere, as an arm.

    q_k(i) = vol / n_k sum_{j in k} P_ij / sqrt(d_i d_j) (K6); its mean over long walks is 1.
    """
    labels = groups.labels
    columns = prepared.densities.of(groups, _density_maker(prepared, watch))
    counts = np.bincount(labels.classes, minlength=labels.n_classes)
    single = groups.class_sums().astype(np.float32)
    values = np.empty((columns.shape[1], labels.n_classes), np.float32)
    for start in range(0, len(values), _ROWS):
        rows = slice(start, start + _ROWS)
        values[rows] = _log_odds((single @ columns[:, rows]).T / counts, _EVERYWHERE)
    left_out = np.zeros((labels.n_labeled, labels.n_classes))
    if groups.is_single:
        others = columns[:, labels.nodes].astype(np.float64)
        np.fill_diagonal(others, 0.0)
        remaining = np.maximum(counts - labels.targets(), 1.0)
        left_out = (others.T @ labels.targets()) / remaining
    for fold in range(0 if groups.is_single else groups.n_folds):
        at = np.flatnonzero(groups.fold == fold)
        kept = groups.fold != fold
        remaining = np.bincount(labels.classes[kept], minlength=labels.n_classes)
        own = columns[:, labels.nodes[at]].astype(np.float64)
        left_out[at] = (groups.class_sums(kept) @ own).T / remaining
    return StackedArm(values=values, left_out=_log_odds(left_out, _EVERYWHERE))


def _density_maker(
    prepared: PreparedAuto, watch: Watch
) -> Callable[[list[Int64Array]], Float32Array]:
    """From the nodes of some groups to the columns of their densities."""
    pagerank = prepared.pagerank
    root = pagerank.inverse_root / np.median(pagerank.inverse_root)  # weights have any unit
    volume = float((1.0 / np.square(root)).sum())

    def make(members: list[Int64Array]) -> Float32Array:
        columns = np.empty((len(members), pagerank.n_nodes), np.float32)
        for first in range(0, len(members), prepared.width):
            some = members[first : first + prepared.width]
            block = _indicators(some, pagerank.n_nodes, np.float32)
            block *= root[:, None]
            found = pagerank.filtered(block, TELEPORT, rtol=_DENSITY_RTOL, watch=watch)
            columns[first : first + len(some)] = np.minimum(found.T * (volume * root), _LARGEST)
        return columns

    return make


def _walks(
    prepared: PreparedAuto, groups: LabelGroups, poisson: _Potentials, watch: Watch
) -> tuple[StackedArm, str]:
    """Threshold dynamics from the classes of Poisson learning, as an arm; raises `Stopped`.

    Of few labels also from a cut of nearly even sizes, where that is better; which one, is told.
    """
    labels, base = groups.labels, prepared.base
    task, potential = poisson.task, poisson.scores
    starts = []
    for fold in range(groups.n_folds):
        others, scores = poisson.without(fold)
        left = labels.nodes[groups.fold == fold]
        starts.append(_start(others, groups.without(fold), scores, left))
    starts.append(_start(task, labels, potential))
    tries_even = labels.n_labeled <= _FEW_PER_CLASS * labels.n_classes
    if tries_even:
        even = PoissonMBO().nearly_even(base, task, labels, potential, watch)
        starts.append(WalkStart(task=task, labels=labels, first=even))
    outcome, found = HarmonicMBO().walked(base, starts, watch)
    if outcome.status is Status.CANCELLED:
        raise Stopped
    for start, shares in zip(starts, found, strict=True):
        reachable = start.task.reachable
        shares[~(reachable if start.asked is None else reachable[start.asked])] = 1.0
    left_out = np.ones((labels.n_labeled, labels.n_classes))
    for fold in range(groups.n_folds):
        left_out[groups.fold == fold] = found[fold]
    values, sizes = found[groups.n_folds], "free"
    if tries_even and _is_better_cut(prepared.graph, poisson, found[-1], values):
        values, sizes = found[-1], "nearly even"
    arm = np.empty(values.shape, np.float32)
    for at in range(0, len(values), _ROWS):
        arm[at : at + _ROWS] = _log_odds(values[at : at + _ROWS], _SHARE)
    return StackedArm(values=arm, left_out=_log_odds(left_out, _SHARE)), sizes


def _start(
    task: CentredLabels, labels: Labels, scores: FloatArray, asked: Int64Array | None = None
) -> WalkStart:
    """Walks from the classes of the largest scores, of which some nodes' shares are asked for."""
    first = np.empty(len(scores), np.min_scalar_type(labels.n_classes))
    for at in range(0, first.size, _ROWS):
        rows = slice(at, at + _ROWS)
        absent = task.lacks[task.component[rows]]
        first[rows] = np.where(absent, -np.inf, scores[rows]).argmax(axis=1)
    return WalkStart(task=task, labels=labels, first=first, asked=asked)


def _is_better_cut(graph: Graph, poisson: _Potentials, found: FloatArray, best: FloatArray) -> bool:
    """Whether the classes of some shares cut a graph better than those of others (H4)."""
    asked = poisson.task.reachable
    weight = np.where(asked, graph.degree, 0.0)
    told = []
    for shares in (found, best):
        classes = shares.argmax(axis=1)
        mixing = Mixing.of(graph, classes, asked, shares.shape[1])
        told.append((mixing, agreement(poisson.scores, classes, weight)))
    (mixing, fit), (best_mixing, best_fit) = told
    return mixing.beats(best_mixing, fit, best_fit)


def _log_odds(values: RealArray, added: float) -> FloatArray:
    """Rows of log(values + added), with mean 0."""
    logs = np.log(np.maximum(values, 0.0) + added)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def _indicators(members: list[Int64Array], n_nodes: int, dtype: npt.DTypeLike) -> RealArray:
    """(n_nodes, n_groups) 1 at the nodes of each group."""
    block: RealArray = np.zeros((n_nodes, len(members)), dtype)
    for place, nodes in enumerate(members):
        block[nodes, place] = 1.0
    return block


def _stacked(
    prepared: PreparedAuto, groups: LabelGroups, arms: dict[str, StackedArm]
) -> tuple[Stack, FloatArray]:
    """The stack, and the standardised logarithms of the degrees, within those of the labels."""
    labels, degree = groups.labels, prepared.graph.degree
    mean = float(degree.mean()) or 1.0
    covariate = np.log1p(degree / mean)
    covariate = (covariate - covariate.mean()) / (float(covariate.std()) or 1.0)
    used = groups.usable
    if used.size:  # a slope says nothing of degrees that no label has
        of_labels = covariate[labels.nodes[used]]
        covariate = np.clip(covariate, of_labels.min(), of_labels.max())
    stack = fitted_stack(
        arms,
        labels.classes,
        SharePrior.of(labels.classes, labels.n_classes),
        BELIEFS,
        used,
        covariate[labels.nodes] if used.size >= _LEAST_SLOPE_LABELS else None,
        covariate_mass=_SLOPE_MASS,
    )
    return stack, covariate


def _told(
    groups: LabelGroups, arms: dict[str, StackedArm], stack: Stack, sample: LabelSample
) -> dict[str, float | int | str]:
    """What the job tells of the judgement."""
    used, classes = groups.usable, groups.labels.classes
    counted: dict[str, float] = {}
    for share, fit in zip(stack.posterior, stack.fits, strict=True):
        counted[fit.name] = counted.get(fit.name, 0.0) + float(share)
    told: dict[str, float | int | str] = {"belief": max(counted, key=lambda name: counted[name])}
    told |= {f"belief_{name}": round(share, 4) for name, share in counted.items()}
    if used.size == 0:
        return told
    known = classes[used]

    def right(scores: FloatArray) -> float:
        return float((scores.argmax(axis=1) == known).mean())

    # without a label its class is a little rarer: a toss-up between shares would never find it
    whole = stack.left_out
    best = whole >= whole.max(axis=1, keepdims=True) - _TOSS_UP
    accuracy = float((best[np.arange(known.size), known] / best.sum(axis=1)).mean())
    told |= {"loo_accuracy": accuracy, "loo_labels": int(used.size)}
    told |= {f"loo_{name}": right(arm.left_out[used]) for name, arm in arms.items()}
    told["majority"] = float(np.bincount(classes).max() / classes.size)
    told["sample_p_value"] = sample.p_value
    return told


def _warnings(labels: Labels, sample: LabelSample) -> tuple[str, ...]:
    """What is hardly what was wanted: labels drawn otherwise than at random."""
    if sample.p_value >= DOUBT:
        return ()
    told = "the labels are no random sample of the nodes"
    if not sample.is_estimated:
        return (f"{told}; class shares are those of the labels, which may be far from the nodes'",)
    names, given = labels.class_names, labels.class_prior()
    worst = np.argsort(-np.abs(sample.shares - given))[:3]
    listed = ", ".join(
        f"{names[at]!r} {given[at]:.0%} of the labels, about {sample.shares[at]:.0%} of the nodes"
        for at in worst
    )
    return (f"{told}: {listed}; predictions use the latter",)
