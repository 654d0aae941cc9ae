"""PoissonMBO: Poisson learning, then walks and cuts into classes of free, known or found sizes."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.neighbor_means import NeighborMeans
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.classes.class_balance import (
    BALANCE_DOC,
    ClassShares,
    balance_warnings,
    read_class_shares,
    share_miss,
)
from peewit.solvers.models.classes.class_mixing import Mixing, agreement, slow_functions
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.contract.model import check_labels
from peewit.solvers.models.harmonic.threshold_dynamics import Nodes, SizeBounds, ThresholdDynamics
from peewit.solvers.models.poisson.poisson import Poisson, PoissonModel
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

_ENTRY_BYTES: Final = 32
_MIN_KEPT: Final = 0.8
_MIN_KEPT_AT_SIZES: Final = 0.5
"""A walk ends once a smaller share of the nodes would keep their class: where classes mix fast,
later steps only fill sizes with the wrong nodes (section H.1)."""

_EVEN: Final = 0.2
"""How far sizes may be from even ones in the cut that free sizes are compared with."""

_N_FUNCTIONS: Final = 4
_N_IN_VAIN: Final = 2
_PAIR_CUT, _WHOLE_CUT, _FIT = 0.6, 0.95, 0.9
"""Limits for splitting a pair of classes anew (H4): at most these parts of the weight between both,
and of all weight between classes relative to chance, and at least this agreement with Poisson."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonMBO(PoissonModel):
    """Cuts that start from Poisson learning, for very few labels per class.

    The classes of Poisson learning make a first partition. Each round replaces the class of a node
    by the one that a random walk from it, stopped at labels, most often ends in, plus an offset of
    the class that keeps sizes as asked (H3). Walks have ``n_inner`` steps in the first three fifths
    of the rounds, then a quarter and an eighth of that. Then pairs of classes are split anew
    by the slowest functions of the graph between them; a split is kept where it
    lowers the weight between classes by much and still agrees with Poisson learning (H4).

    With ``class_balance="estimated"`` the sizes are those of the better of two cuts: one with free
    sizes, and one with sizes within a fifth of even ones, let free at the end. The second is taken
    where its classes retain walks better and it agrees with Poisson learning as well, or cuts much
    less than the first (H4); where classes are of unequal size it does not.

    Scores are the shares of the last walks plus the offsets of their classes.

    Notes
    -----
    One Poisson solve and up to ``n_outer`` times ``n_inner`` products with the adjacency matrix in
    float32; with free sizes walks are four times shorter. Walks end early once fewer than four
    fifths of the nodes would keep their class, half of them at given sizes, beyond those that
    chance keeps. A pair of classes that is tried costs about as many products on its own nodes. A
    start is not used: the Poisson solve starts from the one before, which ``prepared`` keeps.

    References
    ----------
    Calder, Cook, Thorpe and Slepcev (2020), whose heat steps are 1 / (largest degree) for all
    nodes: beside hubs those move nothing. Newman (2003), Mixing patterns in networks.
    """

    class_balance: ClassShares = hyperparameter(
        "none",
        Rule(
            doc=BALANCE_DOC + " 'estimated' finds them by the cut.",
            kind=str,
            words=("none", "labels", "estimated"),
            takes_shares=True,
        ),
    )
    n_outer: int = hyperparameter(10, Rule(doc="Most rounds.", kind=int, minimum=1))
    n_inner: int = hyperparameter(
        40, Rule(doc="Most steps of the longest walks.", kind=int, minimum=1, below=1001)
    )
    n_splits: int = hyperparameter(
        8,
        Rule(
            doc="Most pairs of classes that are split anew; none are where class sizes are free.",
            kind=int,
            minimum=0,
        ),
    )

    phase: ClassVar[str] = "cuts"

    def entry_bytes(self, n_classes: int) -> int:
        """The walk, and the classes at both ends of every edge when a cut is judged."""
        del n_classes
        return _ENTRY_BYTES

    def solve_watched(
        self,
        prepared: PreparedGraph,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - shares of walks are no potential to start from
        watch: Watch,
    ) -> Solution:
        """Scores of every node; see `Model.solve`."""
        check_labels(labels, prepared.graph)
        shares = read_class_shares("class_balance", self.class_balance, labels)
        task, poisson = self.poisson(prepared, labels, prepared.last.get(Poisson), watch)
        if poisson.status is Status.CANCELLED:
            return poisson
        prepared.last[Poisson] = poisson
        cuts, rank = self._cuts(prepared, task, labels, poisson.scores, watch)
        status: Status = poisson.status
        try:
            if self.class_balance == "estimated":
                cuts.estimate()
            else:
                cuts.cut(None if shares is None else SizeBounds(lower=shares, upper=shares))
            if self.class_balance != "none":
                cuts.split(self.n_splits)
        except RunStopped:
            status = Status.CANCELLED
        scores = cuts.best.scores[rank].astype(np.float64)
        stats = {**poisson.stats, **cuts.best.stats(), "n_splits": cuts.n_splits}
        stats |= {"assortativity": cuts.best.mixing.assortativity}
        if shares is not None:
            stats["share_miss"] = share_miss(scores[task.reachable], shares)
        warnings = balance_warnings(self.class_balance, labels, stats)
        return replace(task.solution(scores, status, stats), warnings=warnings)

    def nearly_even(
        self,
        prepared: PreparedGraph,
        task: CenteredLabels,
        labels: Labels,
        potential: FloatArray,
        watch: Watch,
    ) -> Int64Array:
        """(n_nodes,) classes of sizes within a fifth of even ones, cut from those of a potential.

        Raises `RunStopped`.
        """
        cuts, rank = self._cuts(prepared, task, labels, potential, watch)
        return np.asarray(cuts.nearly_even().classes[rank])

    def _cuts(
        self,
        prepared: PreparedGraph,
        task: CenteredLabels,
        labels: Labels,
        potential: FloatArray,
        watch: Watch,
    ) -> tuple["_Cuts", IntArray]:
        """Cuts of the nodes in an order that is near in memory, and the place of each there."""
        graph, order = prepared.near_in_memory()
        walk = NeighborMeans.of(graph, prepared.parallel)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        nodes = Nodes.of(order, rank, task, labels, walk)
        cuts = _Cuts(
            graph=graph,
            parallel=prepared.parallel,
            potential=potential[order],
            nodes=nodes,
            lengths=self._lengths(1, 4, 8),
            free_lengths=self._lengths(4, 8, 12),
            watch=watch,
        )
        return cuts, rank

    def _lengths(self, *parts: int) -> tuple[int, ...]:
        """Most steps of the walks of every round: three fifths of the rounds, a fifth, a fifth."""
        of_round = np.repeat(parts, [3, 1, 1])[5 * np.arange(self.n_outer) // self.n_outer]
        return tuple(-(-self.n_inner // int(part)) for part in of_round)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cut:
    """A partition, the scores that it is the arg max of, and its mixing."""

    classes: Int64Array
    scores: Float32Array
    mixing: Mixing
    n_rounds: int
    n_moved: int

    def stats(self) -> dict[str, int]:
        return {"n_rounds": self.n_rounds, "n_moved": self.n_moved}

    def between(self, pair: tuple[int, int]) -> float:
        return float(self.mixing.weight[pair])


@dataclass(slots=True, kw_only=True, eq=False)
class _Cuts:
    """The cuts of one graph from the potentials of Poisson learning, and the best of them."""

    graph: Graph
    parallel: Parallel
    potential: FloatArray
    nodes: Nodes
    lengths: tuple[int, ...]
    free_lengths: tuple[int, ...]
    watch: Watch
    best: _Cut = field(init=False)
    bounds: SizeBounds | None = None
    n_splits: int = 0

    def cut(self, bounds: SizeBounds | None) -> None:
        """From the classes of Poisson learning."""
        self.bounds = bounds
        self.best = self._from_potential(bounds, "cuts")
        self.watch.check()

    def estimate(self) -> None:
        """With free sizes, or from nearly even ones if that is the better cut (H4)."""
        self.cut(None)
        freed = self._settle(self.nearly_even().classes)
        fit, best_fit = self._fit(freed.classes), self._fit(self.best.classes)
        if freed.mixing.beats(self.best.mixing, fit, best_fit):
            self.best = freed

    def nearly_even(self) -> _Cut:
        """At sizes within a fifth of even ones."""
        even = np.full(self.nodes.n_classes, 1.0 / self.nodes.n_classes)
        near = SizeBounds(lower=even * (1.0 - _EVEN), upper=even * (1.0 + _EVEN))
        cut = self._from_potential(near, "cuts of even sizes")
        self.watch.check()
        return cut

    def split(self, n_pairs: int) -> None:
        """Split pairs of classes anew while that pays (H4)."""
        tried: set[tuple[int, int]] = set()
        n_in_vain = 0
        for number in range(n_pairs):
            self.watch.step("splits", number, n_pairs)
            left = [pair for pair in self.best.mixing.nearest_pairs() if pair not in tried]
            if not left or n_in_vain == _N_IN_VAIN:
                break
            tried.add(left[0])
            n_in_vain += 1
            for classes in self._split_anew(left[0]):
                cut = self._settle(classes)
                if self._pays(cut, left[0]):
                    self.best, tried, n_in_vain = cut, {left[0]}, 0
                    self.n_splits += 1
        self.watch.step("splits", n_pairs, n_pairs)

    def _from_potential(self, bounds: SizeBounds | None, phase: str) -> _Cut:
        """Rounds from the classes of Poisson learning, at sizes within the bounds."""
        nodes = self.nodes
        offsets = nodes.balance(self.potential, bounds)
        first = nodes.balanced(self.potential, offsets).argmax(axis=1)
        first[nodes.labeled] = nodes.classes
        lengths = self.free_lengths if bounds is None else self.lengths
        return self._cut(nodes, first, bounds, lengths, phase)

    def _settle(self, classes: Int64Array) -> _Cut:
        """A partition after a few rounds at the requested sizes, or short ones at free sizes."""
        lengths = self.free_lengths[-1:] * 3 if self.bounds is None else self.lengths[::2]
        cut = self._cut(self.nodes, classes, self.bounds, lengths, None)
        self.watch.check()
        return cut

    def _cut(
        self,
        nodes: Nodes,
        first: Int64Array,
        bounds: SizeBounds | None,
        lengths: tuple[int, ...],
        phase: str | None,
    ) -> _Cut:
        dynamics = ThresholdDynamics(
            nodes=nodes,
            first=first,
            bounds=bounds,
            lengths=lengths,
            min_kept=_MIN_KEPT if bounds is None else _MIN_KEPT_AT_SIZES,
        )
        watch = self.watch.silent() if phase is None else self.watch
        state = watch.run(dynamics, max_iter=sum(lengths), phase=phase or "cuts").state
        scores = nodes.balanced(state.shares, state.offsets)
        return _Cut(
            classes=state.classes,
            scores=scores,
            mixing=Mixing.of(self.graph, state.classes, nodes.reachable, nodes.n_classes),
            n_rounds=state.n_rounds,
            n_moved=state.n_moved,
        )

    def _split_anew(self, pair: tuple[int, int]) -> list[Int64Array]:
        """At most two partitions in which a better cut divides the nodes of a pair."""
        inside = np.flatnonzero(self.nodes.reachable & np.isin(self.best.classes, pair))
        graph = self.graph.subgraph(inside)
        walk = NeighborMeans.of(graph, self.parallel)
        own = np.isin(self.nodes.classes, pair)
        absent = None if self.nodes.absent is None else self.nodes.absent[inside][:, list(pair)]
        part = _Cuts(
            graph=graph,
            parallel=self.parallel,
            potential=self.potential[inside][:, list(pair)],
            nodes=Nodes(
                walk=walk,
                labeled=np.searchsorted(inside, self.nodes.labeled[own]),
                classes=(self.nodes.classes[own] == pair[1]).astype(np.int64),
                reachable=np.ones(inside.size, bool),
                sized=self.nodes.sized[inside],
                n_classes=len(pair),
                absent=absent,
            ),
            lengths=self.lengths,
            free_lengths=self.free_lengths,
            watch=self.watch,
        )
        share = 0.5
        if self.bounds is not None:
            share = float(np.mean(self.best.classes[inside] == pair[0]))
        shares, slack = np.array([share, 1.0 - share]), _EVEN if self.bounds is None else 0.0
        bounds = SizeBounds(lower=shares * (1.0 - slack), upper=shares * (1.0 + slack))
        lengths = self.lengths[::3]
        cuts = []
        for function in slow_functions(graph, walk, _N_FUNCTIONS).T:
            for side in (function, -function):
                first = (side > np.quantile(side, share)).astype(np.int64)
                first[part.nodes.labeled] = part.nodes.classes
                cuts.append(part._cut(part.nodes, first, bounds, lengths[:1], None))
                self.watch.check()
        # two are kept: drop the half that cuts most after one round
        cuts.sort(key=lambda cut: cut.between((0, 1)))
        cuts = [
            part._cut(part.nodes, cut.classes, bounds, lengths[1:], None)
            for cut in cuts[:_N_FUNCTIONS]
        ]
        cuts.sort(key=lambda cut: cut.between((0, 1)))
        pair_cuts = [
            cut for cut in cuts[:2] if cut.between((0, 1)) <= _PAIR_CUT * self.best.between(pair)
        ]
        partitions = []
        for cut in pair_cuts:
            classes = self.best.classes.copy()
            classes[inside] = np.array(pair)[cut.classes]
            partitions.append(classes)
        return partitions

    def _pays(self, cut: _Cut, pair: tuple[int, int]) -> bool:
        """Whether a split lowers the cut by much and still agrees with Poisson learning (H4)."""
        best = self.best
        return (
            cut.between(pair) <= _PAIR_CUT * best.between(pair)
            and cut.mixing.cut_ratio(best.mixing) <= _WHOLE_CUT
            and self._fit(cut.classes) >= _FIT
            and (self.bounds is not None or cut.mixing.improves(best.mixing))
        )

    def _fit(self, classes: Int64Array) -> float:
        """The potentials of a partition, as a share of the most possible (H4)."""
        weight = np.where(self.nodes.reachable, self.graph.degree, 0)
        return agreement(self.potential, classes, weight)
