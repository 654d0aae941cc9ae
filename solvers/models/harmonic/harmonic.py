"""Harmonic functions: HFS (hard and soft) and Stable-HFS, of classes or numbers, on any graph.

Labels are centered with the mean of their component, which is added to the scores again. So one
linear system serves both models, with or without the zero-sum constraint.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, TypeAlias, cast

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, Int64Array, column_norms
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.kernels.laplacian_products import subtract_by_component
from peewit.solvers.labels import Labels, Targets, deal_folds
from peewit.solvers.laplacian.solver import LaplacianSolver, LinearSolution
from peewit.solvers.laplacian.unsparsified_system import FullDegrees, FullSystem
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.classes.certainty import uncertain
from peewit.solvers.models.classes.class_balance import ClassShares, read_class_shares
from peewit.solvers.models.classes.class_mass import (
    contrast_bounds,
    contrast_reading,
    contrast_shares,
    contrasts,
    mass_reading,
    normalized_masses,
)
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.contract.laplacian_kernel import KernelFunction, accepted
from peewit.solvers.models.contract.model import ScoreKind, check_targets
from peewit.solvers.models.contract.provable_model import LinearModelOfEdges
from peewit.solvers.models.contract.refinable_model import Degrees
from peewit.solvers.models.harmonic.label_shares import LinearModel
from peewit.solvers.models.harmonic.leave_one_out import choose_penalty
from peewit.solvers.models.harmonic.posterior_variance import GaussianField
from peewit.solvers.proof.readings import Reader, Reading, shares_of_components
from peewit.solvers.solution import Decisive, Solution
from peewit.solvers.status import Status, first_failure

SOFT_PENALTY: Final = Rule(
    doc="Weight of smoothness against the labels; 'auto' chooses it by leave-one-out.",
    above=0.0,
    words=("auto",),
)

ClassMass: TypeAlias = Literal["auto", "contrasts"] | ClassShares
"""How scores are read: as contrasts, with corrected class masses, or as they are."""

_MAX_FOLDS: Final = 5
_READING_RTOL: Final = 1e-4
"""Residual of solves that only decide the classes of left-out labels."""

_LEAST_HOLD, _LARGEST_HOLD = 1e8, 1e300
_EPS: Final = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Harmonic(LinearModel, GaussianField, LinearModelOfEdges):
    """What both models share: preparation, checks, the choice of the penalty, the answer's form."""

    graph_penalty: float | Literal["auto"]
    rtol: float = hyperparameter(
        1e-6, Rule(doc="Relative residual asked of the linear solves.", above=0.0, below=1.0)
    )
    max_iter: int = hyperparameter(
        10_000, Rule(doc="Limit on the iterations of one linear solve.", kind=int, minimum=1)
    )

    is_stable: ClassVar[bool]

    def solve_watched(
        self, prepared: PreparedGraph, labels: Targets, start: Solution | None, watch: Watch
    ) -> Solution:
        """Scores of every node; see `Model.solve`.

        A start serves if its scores have the shape of the answer: PCG starts from them minus the
        labels' component means.
        """
        check_targets(labels, prepared.graph)
        graph, task = prepared.graph, CenteredLabels.of(labels, prepared.graph.component)
        prepared.kernel.solver.max_iter = self.max_iter
        if isinstance(labels, Labels) and not self.is_stable and prepared.kernel.solver.eliminates:
            task = task.uncentered()  # sums of positive numbers: each score is exact by itself
        offset, bound, reading = self._offset(task), None, cast(ClassMass, "none")
        first = _first_iterate(start, graph, offset)
        penalty, stats, status = self._penalty(prepared, labels, watch)
        if not np.isfinite(penalty * labels.n_labeled):
            raise ValueError(
                "graph_penalty times the number of labels must be finite, "
                f"got {penalty} times {labels.n_labeled}"
            )
        if status is Status.CANCELLED:
            function = np.zeros((graph.n_nodes, offset.shape[1])) if first is None else first
        else:
            solution, function = self._function(prepared, task, penalty, first, watch)
            bound = solution.bound
            if solution.status is not Status.ILL_CONDITIONED:  # bounds tell of each node
                status = first_failure(solution.status, status)
            stats |= {
                "n_iter": solution.n_iter,
                "residual": float(solution.residual.max(initial=0.0)),
                "preconditioner": solution.preconditioner,
            }
        subtract_by_component(function, graph.component, -offset)
        if status is not Status.CANCELLED:
            reading, figures, read_status = self._reading(prepared, labels, penalty, watch)
            stats |= figures
            status = first_failure(status, read_status)
        scores = contrasted = self._weigh(function, labels, graph, reading)
        scores[~task.reachable] = labels.mean_target()
        if reading == "contrasts" and isinstance(labels, Labels):
            contrasted = contrasts(function, labels, graph)
        if bound is not None:
            bound = bound + _EPS * np.abs(offset)[graph.component]
            if contrasted is not scores:
                bound = contrast_bounds(function, bound, cast(Labels, labels), graph)
            else:  # weighed scores: their bounds are weighed by the same factors
                bound *= np.divide(scores, function, out=np.ones_like(scores), where=function > 0)
            is_uncertain = task.reachable & uncertain(contrasted, bound, labels)
            stats["n_uncertain"] = int(np.count_nonzero(is_uncertain))
            if is_uncertain.any():
                status = first_failure(status, Status.ILL_CONDITIONED)
        has_decided = isinstance(labels, Labels) and status is not Status.CANCELLED
        return Solution(
            scores=scores,
            reachable=task.reachable,
            status=status,
            stats=stats,
            bound=bound,
            decisive=_decisive(prepared, task, penalty, contrasted) if has_decided else None,
        )

    def full_system(
        self, prepared: PreparedGraph, labels: Targets, solution: Solution
    ) -> FullSystem:
        """Of the harmonic function of centered labels: (D1), or (C1) with the penalty used."""
        task = CenteredLabels.of(labels, prepared.graph.component)
        penalty = float(solution.stats["graph_penalty"])
        function = solution.scores - self._offset(task)[prepared.graph.component]
        function[~task.reachable] = 0.0
        known = task.on_nodes(task.values)
        on_labels = task.on_nodes(np.ones((labels.n_labeled, 1)))[:, 0]
        if penalty == 0:
            return FullSystem(
                sparsifier=prepared.graph,
                scale=1.0,
                shift=np.zeros_like(on_labels),
                zero_mean=False,
                rhs=np.zeros_like(known),
                known=known,
                held=on_labels > 0,
                start=function,
                rtol=self.rtol,
                parallel=prepared.parallel,
            )
        kappa = penalty * labels.n_labeled
        pulled = kappa * prepared.graph.laplacian_product(known)
        follows_labels = column_norms(pulled).max() < column_norms(known).max()  # as in `_soft`
        return FullSystem(
            sparsifier=prepared.graph,
            scale=kappa,
            shift=on_labels,
            zero_mean=self.is_stable,
            rhs=known,
            known=known if follows_labels else None,
            start=function - known if follows_labels else function,
            rtol=self.rtol,
            parallel=prepared.parallel,
        )

    def full_scores(
        self,
        prepared: PreparedGraph,
        labels: Targets,
        solution: Solution,
        x: FloatArray,
        degrees: Degrees,
    ) -> Solution:
        """Scores from the harmonic function; see `LinearModelOfEdges`."""
        task = CenteredLabels.of(labels, prepared.graph.component)
        reading, graph = self._reading_taken(labels, solution), prepared.graph
        if reading == "contrasts":
            graph = replace(graph, degree=degrees().weight)
        if isinstance(labels, Labels):  # passes mix columns; contrasts would blow up their rounding
            x = np.where(task.absent, 0.0, x)
        function = x + self._offset(task)[graph.component]
        scores = self._weigh(function, labels, graph, reading)
        scores[~task.reachable] = labels.mean_target()
        return replace(solution, scores=scores)

    def full_reader(
        self, prepared: PreparedGraph, labels: Labels, solution: Solution, degrees: FullDegrees
    ) -> Reader:
        """Values, contrasts or masses of the harmonic function; see `LinearModelOfEdges`."""
        reading, graph = self._reading_taken(labels, solution), prepared.graph
        offset = self._offset(CenteredLabels.of(labels, graph.component))
        if reading == "none":
            plain = Reading.plain(offset, np.ones(offset.shape, bool))
            return Reader(terms=lambda _x, _misses: plain)
        if reading == "contrasts":
            whole = replace(graph, degree=degrees.weight)
            return Reader(
                terms=lambda x, misses: contrast_reading(
                    x + offset[graph.component], misses, labels, whole
                ).moved(offset),
                weights=shares_of_components(degrees.weight, graph.component),
            )
        shares = None if isinstance(reading, str) else read_class_shares("", reading, labels)
        return Reader(
            terms=lambda x, misses: mass_reading(
                x + offset[graph.component], misses, labels, graph, shares
            ).moved(offset),
            weights=np.ones(graph.n_nodes),
        )

    def _reading_taken(self, labels: Targets, solution: Solution) -> ClassMass:
        """How scores of a solution were read."""
        reading = self._reading_or_auto(labels)
        if reading == "auto":
            return "none" if solution.stats["class_mass"] == "none" else "contrasts"
        return reading

    def _offset(self, task: CenteredLabels) -> FloatArray:
        """(n_components, n_classes) what scores are above the harmonic function."""
        shows_class_scores = self.is_stable and isinstance(task.labels, Labels)
        return task.means - task.labels.mean_target() if shows_class_scores else task.means

    def _reading_or_auto(self, labels: Targets) -> ClassMass:  # noqa: ARG002 - for HFS
        """How scores are to be read; 'auto' is still to be chosen."""
        return "none"

    def _reading(
        self,
        prepared: PreparedGraph,  # noqa: ARG002 - for HFS
        labels: Targets,
        penalty: float,  # noqa: ARG002 - for HFS
        watch: Watch,  # noqa: ARG002 - for HFS
    ) -> tuple[ClassMass, dict[str, float | int | str], Status]:
        """How scores are read, stats of that choice, and its status."""
        return self._reading_or_auto(labels), {}, Status.CONVERGED

    def _weigh(
        self,
        scores: FloatArray,
        labels: Targets,  # noqa: ARG002 - for HFS
        graph: Graph,  # noqa: ARG002 - for HFS
        reading: ClassMass,  # noqa: ARG002 - for HFS
    ) -> FloatArray:
        """The scores in their requested reading."""
        return scores

    def _function(
        self,
        prepared: PreparedGraph,
        task: CenteredLabels,
        penalty: float,
        first: FloatArray | None,
        watch: Watch,
    ) -> tuple[LinearSolution, FloatArray]:
        """The harmonic function of centered labels, from its kernel form (D9) if it is cheap."""
        nodes, n_columns, made = task.labels.nodes, task.values.shape[1], None
        if prepared.has_columns(nodes, n_columns, is_warm=first is not None, watch=watch):
            kappa = penalty * task.labels.n_labeled
            made = prepared.kernel.harmonic(nodes, task.values, kappa, zero_mean=self.is_stable)
        if penalty == 0:
            return self._hard(prepared, task, first, made, watch)
        return self._soft(prepared, task, penalty, first, made, watch)

    def _penalty(
        self, prepared: PreparedGraph, labels: Targets, watch: Watch
    ) -> tuple[float, dict[str, float | int | str], Status]:
        """The penalty to use, stats of its choice, and its status."""
        if self.graph_penalty != "auto":
            return self.graph_penalty, {"graph_penalty": self.graph_penalty}, Status.CONVERGED
        choice = choose_penalty(prepared.kernel, labels, zero_mean=self.is_stable, watch=watch)
        stats: dict[str, float | int | str] = {"graph_penalty": choice.graph_penalty}
        stats |= choice.figures()
        return choice.graph_penalty, stats, choice.status

    def _soft(
        self,
        prepared: PreparedGraph,
        task: CenteredLabels,
        penalty: float,
        first: FloatArray | None,
        made: KernelFunction | None,
        watch: Watch,
    ) -> tuple[LinearSolution, FloatArray]:
        """Solve M f = centered labels, M = kappa L + I_S (C1), with zero sums for Stable-HFS (D4).

        ``first`` may be overwritten. With a small kappa f nearly equals the labels on S, and a
        residual measured against them would not see the other nodes. Then the unknown is f minus
        the labels.
        """
        kappa = penalty * task.labels.n_labeled
        nodes = task.labels.nodes
        pulled, pull = _pull_of_labels(prepared.graph, task, -kappa)
        follows_labels = not prepared.kernel.solver.eliminates and bool(
            column_norms(pull).max() < column_norms(task.values).max()
        )
        rhs = np.zeros((prepared.graph.n_nodes, pull.shape[1]))
        if follows_labels:
            rhs[pulled] = pull
        else:
            rhs[nodes] = task.values
        if made is not None:
            bound = kappa * made.residual + made.off_labels
            exact = accepted(bound, rhs, made.values, self.rtol)
            if exact is not None:
                return exact, made.values
            first = made.values
        if first is not None and follows_labels:
            first[nodes] -= task.values
        solver = prepared.solver(
            scale=kappa,
            shift=task.on_nodes(np.ones((nodes.size, 1)))[:, 0],
            zero_mean=self.is_stable,
            rtol=self.rtol,
            max_iter=self.max_iter,
        )
        solution = prepared.solved(solver, rhs, first, watch)
        function: FloatArray = solution.x.astype(np.float64, copy=False)
        if follows_labels:
            function[nodes] += task.values
        if not (self.is_stable or solver.eliminates):
            missing = _missing_constants(task, function)
            function += missing
            if solution.bound is not None:
                solution.bound[...] += np.abs(missing)
        return solution, function

    def _hard(
        self,
        prepared: PreparedGraph,
        task: CenteredLabels,
        first: FloatArray | None,
        made: KernelFunction | None,
        watch: Watch,
    ) -> tuple[LinearSolution, FloatArray]:
        """Solve L_UU f_U = A_US y_S (D1), in L with shifts that hold labels at 0.

        So the hierarchy of the whole graph serves. The shifts let through less than a tenth of what
        ``rtol`` does; larger ones would only cost factors their digits. Elimination takes L_UU
        itself, with the labels as the ground.
        """
        free = np.ones(prepared.graph.n_nodes, dtype=bool)
        free[task.labels.nodes] = False
        function = task.on_nodes(task.values)
        right = np.zeros_like(function)
        pulled, pull = _pull_of_labels(prepared.graph, task, -1.0)
        right[pulled] = pull
        right[task.labels.nodes] = 0.0
        if made is not None:
            function[free] = made.values[free]
            most = 2.0 * float(prepared.graph.degree.max(initial=0.0))
            bound = made.residual + most * made.off_labels
            exact = accepted(bound, right[free], function[free], self.rtol)
            if exact is not None:
                return exact, function
            first = made.values
        graph, nodes = prepared.graph, task.labels.nodes
        if prepared.kernel.solver.eliminates and free.any():
            inner = LaplacianSolver(
                graph.subgraph(np.flatnonzero(free)),
                shift=np.asarray(graph.adjacency[:, nodes].sum(axis=1)).ravel()[free],
                rtol=self.rtol,
            )
            solution = inner.eliminated(right[free])
            function[free], bound = solution.x, np.zeros_like(function)
            bound[free] = solution.bound
            return replace(solution, bound=bound), function
        firmly = max(_LEAST_HOLD, 10.0 / self.rtol)
        most = float(graph.degree.max(initial=0.0)) or 1.0
        hold = max(min(firmly * most, _LARGEST_HOLD), most)
        start = None
        if first is not None:
            start = np.where(free[:, None], first, 0.0)
            start[nodes] = (graph.adjacency[nodes] @ start) / (hold + graph.degree[nodes, None])
        solver = prepared.solver(
            scale=1.0,
            shift=task.on_nodes(np.full((nodes.size, 1), hold))[:, 0],
            rtol=self.rtol,
            max_iter=self.max_iter,
        )
        solution = prepared.solved(solver, right, start, watch)
        function[free] = solution.x[free]
        if solution.bound is not None:
            solution.bound[nodes] = 0.0
        return solution, function


@dataclass(frozen=True, slots=True, kw_only=True)
class HFS(_Harmonic):
    """Harmonic functions of Zhu, Ghahramani and Lafferty (2003), hard or soft (D1), (D2).

    Minimizes the mean squared miss on the labels plus graph_penalty * f^T L f; with graph_penalty 0
    the labels are kept exactly. Scores of classes lie in [0, 1] and sum to 1, numbers between the
    least and the greatest label. At a few labels per class on a large graph they flatten out, and
    one class would win nearly all nodes. By default the penalty is chosen, and scores are read as
    contrasts (`peewit.solvers.models.classes.class_mass.contrast_shares`) unless left-out labels
    clearly favor the values; ``class_mass="none"`` keeps the published rule.

    Notes
    -----
    The choice takes up to five more solves, of four fifths of the labels each; the columns that
    chose the penalty make them cheap. Values are taken where they are right at more left-out labels
    by more than the root of the number on which the two differ. ``class_mass`` in the stats is what
    was taken, ``loo_accuracy`` its accuracy on the ``loo_labels`` left out.
    """

    graph_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Weight of smoothness against the labels; 0 keeps the labels exactly, 'auto' "
            "chooses it by leave-one-out.",
            minimum=0.0,
            words=("auto",),
        ),
    )
    class_mass: ClassMass = hyperparameter(
        "auto",
        Rule(
            doc=(
                "How a class is read from scores. 'contrasts': by how far a node leans to "
                "it beyond what all nodes do. 'labels': each class is scaled to its share "
                'of the labels. An object such as {"spam": 2, "ham": 1}: to known shares. '
                "'none': scores stay. 'auto' chooses between contrasts and none by labels "
                "left out; it is none where graph_penalty is given."
            ),
            kind=str,
            words=("auto", "none", "contrasts", "labels"),
            takes_shares=True,
        ),
    )

    is_stable: ClassVar[bool] = False

    @property
    def score_kind(self) -> ScoreKind:
        """Harmonic functions of classes are probabilities."""
        return "probability"

    def as_chosen(self, solution: Solution) -> "HFS":
        """With the penalty that was chosen, and the harmonic function as it is."""
        penalty = float(solution.stats["graph_penalty"])
        return replace(self, graph_penalty=penalty, class_mass="none")

    def reads_as_they_are(self, solution: Solution) -> bool:
        """Whether scores are the harmonic function."""
        if self.class_mass == "auto" and self.graph_penalty == "auto":
            return solution.stats["class_mass"] == "none"
        return self.class_mass in ("auto", "none")

    def _reading_or_auto(self, labels: Targets) -> ClassMass:
        if not isinstance(labels, Labels):
            return "none"
        if self.class_mass == "auto" and self.graph_penalty != "auto":
            return "none"
        return self.class_mass

    def _reading(
        self, prepared: PreparedGraph, labels: Targets, penalty: float, watch: Watch
    ) -> tuple[ClassMass, dict[str, float | int | str], Status]:
        reading = self._reading_or_auto(labels)
        if reading != "auto" or not isinstance(labels, Labels):
            return reading, {}, Status.CONVERGED
        n_folds = min(_MAX_FOLDS, labels.n_usable)
        if n_folds < 2:
            return "contrasts", {"class_mass": "contrasts"}, Status.CONVERGED
        fold, _ = deal_folds(labels, n_folds, 0)
        rtol = max(self.rtol, _READING_RTOL)
        plain = replace(self, graph_penalty=penalty, class_mass="none", rtol=rtol)
        is_right = np.zeros((labels.n_labeled, 2), bool)  # as values, as contrasts
        for number in range(n_folds):
            others, places = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            rest, nodes = labels.subset(others), labels.nodes[places]
            solution = plain.solve_watched(prepared, rest, None, watch.silent())
            if solution.status is Status.CANCELLED:
                return "contrasts", {"class_mass": "contrasts"}, Status.CANCELLED
            leaning = contrasts(solution.scores, rest, prepared.graph)
            for way, scores in enumerate((solution.scores, leaning)):
                is_right[places, way] = scores[nodes].argmax(axis=1) == labels.classes[places]
        left_out = is_right[fold >= 0]
        n_values, n_contrasts = left_out.sum(axis=0)
        n_differing = np.count_nonzero(left_out[:, 0] != left_out[:, 1])
        takes_values = n_values - n_contrasts > np.sqrt(n_differing)
        name: Literal["none", "contrasts"] = "none" if takes_values else "contrasts"
        figures: dict[str, float | int | str] = {
            "class_mass": name,
            "loo_accuracy": float(left_out[:, 0 if takes_values else 1].mean()),
            "loo_labels": len(left_out),
        }
        return name, figures, Status.CONVERGED

    def _weigh(
        self, scores: FloatArray, labels: Targets, graph: Graph, reading: ClassMass
    ) -> FloatArray:
        if reading in ("auto", "none") or not isinstance(labels, Labels):
            return scores
        if reading == "contrasts":
            return contrast_shares(scores, labels, graph)
        shares = None  # the labels', in each component
        if not isinstance(reading, str):
            shares = read_class_shares("class_mass", reading, labels)
        return normalized_masses(scores, labels, graph, shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class StableHFS(_Harmonic):
    """Stable-HFS of Belkin, Matveeva and Niyogi (2004): soft, centered, zero sum (D3).

    On each component the labels are centered with that component's mean, f sums to zero, and the
    component's scores are f + (its label mean - the mean of all labels): on a connected graph
    exactly (D3). So a component whose labels agree predicts their class. Scores are class
    scores around 0, not probabilities; numbers are f + the component's label mean.
    """

    graph_penalty: float | Literal["auto"] = hyperparameter("auto", SOFT_PENALTY)

    is_stable: ClassVar[bool] = True
    is_centered: ClassVar[bool] = True

    def as_chosen(self, solution: Solution) -> "StableHFS":
        """With the penalty that was chosen."""
        return replace(self, graph_penalty=float(solution.stats["graph_penalty"]))

    def reads_as_they_are(self, solution: Solution) -> bool:  # noqa: ARG002 - always
        """Whether scores are the function."""
        return True


def even_penalty(labels: Labels, graph: Graph) -> float:
    """The graph penalty that holds a label as firmly as the edges of the median label do (H5).

    So no label gives its class much more than others do, however many edges it has.
    """
    degree = graph.degree[labels.nodes]
    joined = degree[degree > 0]
    return 1.0 / (float(np.median(joined)) * labels.n_labeled) if joined.size else 1.0


def _first_iterate(start: Solution | None, graph: Graph, offset: FloatArray) -> FloatArray | None:
    """The scores of a start minus the offsets of components; None if the shape is another."""
    if start is None or start.scores.shape != (graph.n_nodes, offset.shape[1]):
        return None
    first = np.array(start.scores, dtype=np.float64, order="C")
    subtract_by_component(first, graph.component, offset)
    return first


def _decisive(
    prepared: PreparedGraph, task: CenteredLabels, penalty: float, values: FloatArray
) -> Decisive:
    """The system that decides classes: (D1) by shifts that hold labels, or (C1)."""
    on_labels = task.on_nodes(np.ones((task.labels.n_labeled, 1)))[:, 0]
    kappa = penalty * task.labels.n_labeled
    is_hard = kappa == 0.0
    hold = _LEAST_HOLD * float(prepared.graph.degree.max(initial=1.0))
    return Decisive(
        values=values,
        shift=on_labels * (hold if is_hard else 1.0 / kappa),
        is_reached=task.reachable,
        is_free=task.reachable & ((on_labels == 0.0) | (not is_hard)),
        name="scores",
        is_held=is_hard,
        hierarchy=prepared.kernel.solver.hierarchy,
    )


def _pull_of_labels(
    graph: Graph, task: CenteredLabels, factor: float
) -> tuple[Int64Array, FloatArray]:
    """``factor`` times L times the centered labels: nonzero nodes, increasing, and values."""
    nodes, values = task.labels.nodes, factor * task.values
    near = graph.adjacency[nodes]
    is_pulled = np.zeros(graph.n_nodes, dtype=bool)
    is_pulled[nodes] = is_pulled[near.indices] = True
    pulled = np.flatnonzero(is_pulled)
    row = np.cumsum(is_pulled, dtype=near.indices.dtype) - 1
    among = sp.csr_array((near.data, row[near.indices], near.indptr), (nodes.size, pulled.size))
    pull: FloatArray = among.T @ -values
    pull[row[nodes]] += graph.degree[nodes, None] * values
    return pulled, pull


def _missing_constants(task: CenteredLabels, function: FloatArray) -> FloatArray:
    """(n_nodes, n_columns) what to add on each component so that labels are missed by 0 on average.

    At the solution of (C1) that is exactly 0, whatever kappa, where a residual measured against the
    labels would not see a wrong constant.
    """
    sums = np.zeros_like(task.means)
    missed = task.values - function[task.labels.nodes]
    np.add.at(sums, task.component[task.labels.nodes], missed)
    means: FloatArray = sums / np.maximum(task.counts, 1)[:, None]
    return means[task.component]
