"""Harmonic MBO: a harmonic function for where the classes lie, short walks for their borders.

Decision: no class size is known or kept. Context: at one label per class a harmonic function is
nearly flat, and Poisson learning nearly as good as it gets without known class sizes; with more
labels Poisson learning falls behind. Consequence: one harmonic solve, contrasts in place of values
(`peewit.solvers.models.classes.class_mass`), then threshold dynamics.

Decision: labels are held by springs (H5), and a round that makes the edges less likely is undone
(H6). Context: a firmly held label gives more to its class the higher its degree, so that a hub
speaks for its class alone; and where classes mix fast each round makes the largest class larger. To
move nothing where a walk ends at its first step would lose what rounds gain on blocks with hubs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array, IntArray
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Outcome, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.neighbor_means import MeansByPasses, NeighborMeans
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.classes.certainty import uncertain
from peewit.solvers.models.classes.class_mass import contrast_bounds, contrasts
from peewit.solvers.models.contract.graph_model import GraphModel, PreparedGraph
from peewit.solvers.models.contract.model import check_labels
from peewit.solvers.models.harmonic.harmonic import HFS, even_penalty
from peewit.solvers.models.harmonic.joined_walks import JoinedState, JoinedWalks
from peewit.solvers.models.harmonic.threshold_dynamics import (
    CutState,
    Nodes,
    ThresholdDynamics,
    Walk,
)
from peewit.solvers.solution import Solution, give_shares
from peewit.solvers.status import Status, first_failure

_MOST_JOINED = 32
_JOINED_ENTRIES = 96 << 20
"""Limits of joined columns: a product with a million nodes takes hardly longer for them all than
for one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkStart:
    """What walks start from."""

    task: CenteredLabels  # ``labels`` on the components
    labels: Labels  # where walks stop
    first: IntArray  # (n_nodes,) a class for each node; labels keep theirs
    nodes: Int64Array | None = None  # (n_some,) nodes whose shares are needed; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonicMBO(GraphModel):
    """Harmonic functions, then threshold dynamics with walks that get shorter.

    The class that wins `peewit.solvers.models.classes.class_mass.contrasts` of the soft HFS
    solution (H5) makes a first partition of the nodes. Each round then replaces the class of a node
    by the one that a random walk from it, stopped at labels, most often ends in. A round is one
    step of Merriman-Bence-Osher dynamics: it shortens the border between the classes at the scale
    of its walks. Walks start at ``walk_length`` steps, which moves whole borders, and shrink to a
    half and a third of it, which settles single nodes. No class size is needed or kept. A round
    that makes the edges less likely (H6) is undone, and the next walks are shorter.

    Scores are the shares of walks that end in each class, of the last round that was kept: they lie
    in [0, 1] and sum to 1. They are those of a very local walk, so most are near 0 or 1.

    Notes
    -----
    One HFS solve and at most ``n_rounds`` times ``walk_length + 1`` products with the adjacency
    matrix. A walk ends early once fewer than ``min_kept`` of the nodes would keep their class,
    beyond those that chance keeps: on graphs whose classes mix fast (many hubs, no dimension) long
    walks would let the largest class take all.

    References
    ----------
    Zhu, Ghahramani and Lafferty (2003); Merriman, Bence and Osher (1992); Newman (2016), whose
    planted partition says how likely edges are; Calder, Cook, Thorpe and Slepcev (2020), whose
    PoissonMBO fixes class sizes instead.
    """

    n_rounds: int = hyperparameter(
        9, Rule(doc="Rounds of walks, a third of them at each length.", kind=int, minimum=1)
    )
    walk_length: int = hyperparameter(
        10, Rule(doc="Most steps of the longest walks.", kind=int, minimum=1, below=1001)
    )
    min_kept: float = hyperparameter(
        0.8,
        Rule(
            doc="A walk ends once a smaller part of the nodes would keep their class; 0 never "
            "ends one early.",
            minimum=0.0,
            below=1.0,
        ),
    )
    rtol: float = hyperparameter(
        1e-5, Rule(doc="Relative residual asked of the harmonic solve.", above=0.0, below=1.0)
    )
    max_iter: int = hyperparameter(
        10_000, Rule(doc="Limit on the iterations of the harmonic solve.", kind=int, minimum=1)
    )

    def solve_watched(
        self,
        prepared: PreparedGraph,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - shares of walks start no linear solve
        watch: Watch,
    ) -> Solution:
        """Scores of every node; see `Model.solve`.

        A start is not used: its scores say which class won, not what the harmonic function was. The
        harmonic solve starts from that of the labels before, which ``prepared`` keeps.
        """
        check_labels(labels, prepared.graph)
        model = HFS(
            graph_penalty=even_penalty(labels, prepared.graph),
            rtol=self.rtol,
            max_iter=self.max_iter,
        )
        harmonic = model.solve_watched(prepared, labels, prepared.last.get(HFS), watch)
        if harmonic.status is Status.CANCELLED:
            return harmonic
        prepared.last[HFS] = harmonic
        leaning = contrasts(harmonic.scores, labels, prepared.graph)
        first = leaning.argmax(axis=1)
        status: Status = harmonic.status
        stats = dict(harmonic.stats)
        if harmonic.bound is not None:
            bound = contrast_bounds(harmonic.scores, harmonic.bound, labels, prepared.graph)
            is_uncertain = harmonic.reachable & uncertain(leaning, bound, labels)
            is_uncertain[labels.nodes] = False
            stats["n_uncertain"] = int(np.count_nonzero(is_uncertain))
            ended = Status.CONVERGED if status is Status.ILL_CONDITIONED else status
            certainty = Status.ILL_CONDITIONED if is_uncertain.any() else Status.CONVERGED
            status = first_failure(ended, certainty)
        task = CenteredLabels.of(labels, prepared.graph.component)
        start_of_walks = WalkStart(task=task, labels=labels, first=first)
        outcome, (scores,) = self.walked(prepared, [start_of_walks], watch)
        (state,) = outcome.state.parts
        give_shares(scores, harmonic.reachable)
        stopped = outcome.status is Status.CANCELLED
        return Solution(
            scores=scores,
            reachable=harmonic.reachable,
            status=outcome.status if stopped else status,
            stats={
                **stats,
                "n_rounds": state.n_rounds,
                "n_undone": state.n_undone,
                "n_steps": outcome.n_iter,
                "n_moved": state.n_moved,
            },
        )

    def walked(
        self,
        prepared: PreparedGraph,
        starts: Sequence[WalkStart],
        watch: Watch,
        by_passes: MeansByPasses | None = None,
    ) -> tuple[Outcome[JoinedState], list[FloatArray]]:
        """Outcome of threshold dynamics from several partitions, and the shares of each.

        Starts are walked in batches, joined as far as memory goes, or all together where each step
        is a pass. The outcome is that of the last batch; shares, (n_some, n_classes) float64 each,
        are fewer than ``starts`` if cancelled.
        """
        walk: NeighborMeans | MeansByPasses
        if by_passes is None:
            graph, order = prepared.near_in_memory()
            walk = NeighborMeans.of(graph, prepared.parallel)
            degree, n_joined = prepared.graph.degree[order], joined_columns(graph.n_nodes)
        else:
            order, walk, degree = np.arange(by_passes.degree.size), by_passes, by_passes.degree
            n_joined = sum(start.labels.n_classes for start in starts)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        most = self.n_rounds * (self.walk_length + 1)
        shares: list[FloatArray] = []
        for some in _batches(starts, n_joined):
            dynamics = []
            for start in some:
                placed = Nodes.of(order, rank, start.task, start.labels, walk)
                places = rank if start.nodes is None else rank[start.nodes]
                dynamics.append(self._dynamics(start, placed, order, degree, places))
            outcome = watch.run(JoinedWalks(parts=tuple(dynamics)), max_iter=most, phase="walks")
            for part, state in zip(dynamics, outcome.state.parts, strict=True):
                shares.append(_shares(part, state))
            if outcome.status is Status.CANCELLED:
                break
        return outcome, shares

    def repeated(
        self, prepared: PreparedGraph, labels: Labels, walk: Walk, watch: Watch
    ) -> Float32Array:
        """(n_nodes, n_classes) shares of one walk that labels stop, from any classes (K13).

        As `walked` makes them at its end, with sum 1; raises `RunStopped`.
        """
        graph, order = prepared.near_in_memory()
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        means = NeighborMeans.of(graph, prepared.parallel)
        labeled, known = rank[labels.nodes], labels.targets().astype(np.float32)
        classes = walk.classes[order]
        classes[labeled] = labels.classes
        shares, spare = np.empty((2, order.size, labels.n_classes), np.float32)
        means.step_from_classes(classes, shares)
        if walk.n_steps == 0:
            shares[np.arange(order.size), classes] += 2.0
        shares[labeled] = known
        for _ in range(1, walk.n_steps):
            watch.check()
            means.step(shares, spare)
            shares, spare = spare, shares
            shares[labeled] = known
        np.divide(shares, shares.sum(axis=1, keepdims=True), out=shares)
        return np.take(shares, rank, axis=0, out=spare)

    def _dynamics(
        self, start: WalkStart, nodes: Nodes, order: IntArray, degree: FloatArray, places: IntArray
    ) -> ThresholdDynamics:
        smallest = np.min_scalar_type(nodes.n_classes)
        first = start.first[order].astype(smallest, copy=False)
        first[nodes.labeled] = nodes.classes
        return ThresholdDynamics(
            nodes=nodes,
            first=first,
            bounds=None,
            lengths=self._lengths(),
            min_kept=self.min_kept,
            degree=degree,
            shares_at=places,
        )

    def _lengths(self) -> tuple[int, ...]:
        """Most steps of the walks of every round: a third of the rounds whole, half, a third."""
        thirds = (3 * np.arange(self.n_rounds)) // self.n_rounds
        return tuple(-(-self.walk_length // int(part + 1)) for part in thirds)


def joined_columns(n_nodes: int) -> int:
    """Most columns of walks that step together."""
    return min(_MOST_JOINED, _JOINED_ENTRIES // max(n_nodes, 1))


def _batches(starts: Sequence[WalkStart], most: int) -> Iterator[list[WalkStart]]:
    """Starts of at most ``most`` classes in all, or one start."""
    batch: list[WalkStart] = []
    n_columns = 0
    for start in starts:
        n_columns += start.labels.n_classes
        if batch and n_columns > most:
            yield batch
            batch, n_columns = [], start.labels.n_classes
        batch.append(start)
    yield batch


def _shares(part: ThresholdDynamics, state: CutState) -> FloatArray:
    """(n_some, n_classes) shares of the last round that was kept."""
    last = state.shares[part.shares_at] if state.best_shares is None else state.best_shares
    shares = np.maximum(last.astype(np.float64), 0.0)  # rounding goes below
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
