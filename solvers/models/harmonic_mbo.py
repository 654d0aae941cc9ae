"""Harmonic MBO: a harmonic function for where the classes lie, short walks for their borders.

Decision: this is the model to use when nothing is known of the classes. Context: at one label per
class a harmonic function is nearly flat and Poisson learning nearly as good as it gets without
known class sizes; with more labels Poisson learning falls behind. Consequence: one harmonic solve,
contrasts in place of values (`peewit.solvers.models.class_mass`), then threshold dynamics.

Decision: labels are held by springs, and a round that makes the edges less likely is undone.
Context: what a label held firmly gives to its class grows with its degree, so that a hub among
the labels spoke for its class alone; and where classes mix fast each round made the largest class
larger. Of 20 labels a class on Facebook pages firm labels, all rounds kept, made 67.7 %, on
BlogCatalog 25.3; so they make 71.1 and 50.8, Poisson learning 71.8 and 45.8 (5 and 6 draws).
To move nothing where a walk ends at its first step would lose what rounds are worth on blocks with
hubs: 94.6 where contrasts alone have 89.7.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, IntArray
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Outcome, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.residual_sweep import Sweep
from peewit.solvers.models.base import check_labels
from peewit.solvers.models.certainty import uncertain
from peewit.solvers.models.class_mass import contrast_bounds, contrasts
from peewit.solvers.models.graph_model_base import GraphModel, PreparedGraph
from peewit.solvers.models.harmonic import HFS, even_penalty
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure

_TIE = 1e-5
"""Shares closer than this are equal: walks run in float32, in half the time of float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonicMBO(GraphModel):
    """Harmonic functions, then threshold dynamics with walks that get shorter.

    The class that wins `peewit.solvers.models.class_mass.contrasts` of the soft HFS solution (H5)
    makes a first partition of the nodes. Each round then replaces the class of a node by the one
    that a random walk from it, stopped at labels, most often ends in. A round is one step of
    Merriman-Bence-Osher dynamics: it shortens the border between the classes at the scale of its
    walks. Walks start at ``walk_length`` steps, which moves whole borders, and shrink to a half and
    a third of it, which settles single nodes. No class size is asked for or kept. A round that
    makes the edges less likely (H6) is undone, and the next walks are shorter.

    Scores are the shares of walks that end in each class, of the last round that was kept: they
    lie in [0, 1] and sum to 1. They are those of a very local walk, so most are near 0 or 1.

    Notes
    -----
    One HFS solve and at most ``n_rounds`` times ``walk_length + 1`` products with the adjacency
    matrix. A walk ends early once fewer than ``min_kept`` of the nodes would keep their class,
    beyond those that chance keeps: on graphs whose classes mix fast (many hubs, no dimension)
    long walks would let the largest class take all.

    References
    ----------
    Zhu, Ghahramani and Lafferty (2003); Merriman, Bence and Osher (1992); Newman (2016), whose
    planted partition says how likely edges are; Calder, Cook, Thorpe and Slepcev (2020), whose
    PoissonMBO fixes class sizes instead.
    """

    n_rounds: int = hyperparameter(
        9,
        Rule(doc="Rounds of walks, a third of them at each length.", kind=int, minimum=1),
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
        10_000,
        Rule(doc="Limit on the iterations of the harmonic solve.", kind=int, minimum=1),
    )

    def solve_watched(
        self,
        prepared: PreparedGraph,
        labels: Labels,
        start: Solution | None,  # noqa: ARG002 - shares of walks start no linear solve
        watch: Watch,
    ) -> Solution:
        """Scores of every node; see `peewit.solvers.models.base.Model.solve`.

        A start is not used: its scores say which class won, not what the harmonic function was.
        The harmonic solve starts from that of the labels before, which ``prepared`` keeps.
        """
        check_labels(labels, prepared.graph)
        held = HFS(
            graph_penalty=even_penalty(labels, prepared.graph),
            rtol=self.rtol,
            max_iter=self.max_iter,
        )
        harmonic = held.solve_watched(prepared, labels, prepared.last.get(HFS), watch)
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
            found = Status.ILL_CONDITIONED if is_uncertain.any() else Status.CONVERGED
            status = first_failure(ended, found)
        outcome, scores = self.walked(prepared, labels, first, harmonic.reachable, watch)
        state = outcome.state
        scores[~harmonic.reachable] = labels.class_prior()
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
        labels: Labels,
        first: Int64Array,
        reachable: BoolArray,
        watch: Watch,
    ) -> "tuple[Outcome[_State], FloatArray]":
        """Threshold dynamics from a partition: how they ended, and (n_nodes, n_classes) shares.

        Parameters
        ----------
        prepared : PreparedGraph
        labels : Labels
            Where walks stop.
        first : (n_nodes,) int64
            A class for each node; at labels it is overwritten with theirs.
        reachable : (n_nodes,) bool
            Nodes in the components of labels.
        watch : Watch
        """
        graph, order = prepared.near_in_memory()
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        first[labels.nodes] = labels.classes
        dynamics = _Dynamics(
            walk=Sweep.of_walk(graph, prepared.parallel),
            no_source=np.zeros((graph.n_nodes, labels.n_classes), np.float32),
            labeled=rank[labels.nodes],
            reachable=reachable[order],
            degree=np.where(reachable, prepared.graph.degree, 0.0)[order],
            first=first[order],
            lengths=self._lengths(),
            min_kept=self.min_kept,
        )
        most = self.n_rounds * (self.walk_length + 1)
        outcome = watch.run(dynamics, max_iter=most, phase="walks")
        state = outcome.state
        kept = state.shares if state.kept is None else state.kept
        shares = np.maximum(kept[rank].astype(np.float64), 0.0)  # rounding goes below
        shares /= shares.sum(axis=1, keepdims=True)
        return outcome, shares

    def _lengths(self) -> tuple[int, ...]:
        """Most steps of the walks of every round: a third of the rounds whole, half, a third."""
        thirds = (3 * np.arange(self.n_rounds)) // self.n_rounds
        return tuple(-(-self.walk_length // int(part + 1)) for part in thirds)


@dataclass(slots=True, kw_only=True, eq=False)
class _State:
    """Where the walks of the present round are, and what the rounds before it have made.

    ``shares`` are those of walks of ``n_walked`` steps, ``spare`` is room for one step more;
    ``classes`` are those the round began with, ``place`` is its place among the lengths. A round
    ends early once fewer than ``least_kept`` of the nodes would keep their class. The first step
    judges the classes: ``before`` are the last ones that stood, ``kept`` the shares that they won
    and ``evidence`` how likely they made the edges; ``ended`` are the shares of a round that is
    still to be judged. ``n_moved`` counts the nodes whose class differs from that of the first
    partition, ``n_undone`` the rounds that were undone.
    """

    shares: Float32Array
    spare: Float32Array
    classes: Int64Array
    least_kept: float
    before: Int64Array
    kept: Float32Array | None = None
    ended: Float32Array | None = None
    evidence: float = -np.inf
    n_walked: int = 0
    place: int = 0
    n_rounds: int = 0
    n_undone: int = 0
    n_moved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Dynamics:
    """Steps of walks, and a threshold at the end of each round, for `iterate`.

    ``degree`` is 0 where no label reaches.
    """

    walk: Sweep
    no_source: Float32Array
    labeled: IntArray
    reachable: BoolArray
    degree: FloatArray
    first: Int64Array
    lengths: tuple[int, ...]
    min_kept: float

    def init(self) -> _State:
        """The first partition."""
        shares = self._one_hot(self.first)
        return _State(
            shares=shares,
            spare=np.empty_like(shares),
            classes=self.first,
            before=self.first,
            least_kept=self._least_kept(self.first),
        )

    def step(self, state: _State) -> _State:
        """One step of every walk, stopped at labels; at the end of a round, each node's class."""
        if state.n_walked == 0:
            state.shares[...] = self._one_hot(state.classes)
        known = state.shares[self.labeled]
        self.walk.relaxed(state.shares, self.no_source, state.spare)
        state.shares, state.spare = state.spare, state.shares
        if state.n_walked == 0:
            self._judge(state)
        if state.place == len(self.lengths) or state.classes is not state.before:
            state.classes = state.before
            return state
        state.shares[self.labeled] = known
        state.n_walked += 1
        is_over = state.n_walked == self.lengths[state.place]
        kept = self._kept(state)[self.reachable]
        if is_over or kept.mean(dtype=np.float64) < state.least_kept:
            self._end_round(state)
        return state

    def terminate(self, state: _State) -> Status | None:
        """Converged once the last round is judged."""
        is_over = state.place == len(self.lengths) and state.ended is None
        return Status.CONVERGED if is_over else None

    def fraction(self, state: _State) -> float:
        """Share of the rounds that are done."""
        return state.place / len(self.lengths)

    def _judge(self, state: _State) -> None:
        """Keep the classes by the first step from them, unless those before were better.

        Of a round that is undone the next ones of its length are counted as done.
        """
        evidence = self._evidence(state)
        if evidence < state.evidence - _TIE:
            self._pass_over(state)
            state.n_undone += 1
            state.least_kept = self._least_kept(state.before)
        else:
            state.before, state.evidence = state.classes, evidence
            state.kept = self._of_first(state) if state.ended is None else state.ended
        state.ended = None
        state.n_moved = int(np.count_nonzero((state.before != self.first)[self.reachable]))

    def _of_first(self, state: _State) -> Float32Array:
        """Scores of the first partition: of walks that stay where they are two times of three."""
        there = self._one_hot(state.classes)
        shares = (2.0 * there + state.shares) / np.float32(3.0)
        shares[self.labeled] = there[self.labeled]
        return shares

    def _evidence(self, state: _State) -> float:
        """How likely edges are that know the classes, of edges that do not (H6)."""
        total = float(self.degree.sum())
        if total == 0:
            return 0.0
        part = np.bincount(state.classes, self.degree) / total
        apart = float(part @ (1.0 - part))
        kept = min(float(self.degree @ self._kept(state)) / total, 1.0)
        if apart <= _TIE:
            return 0.0
        return float(rel_entr(kept, 1.0 - apart) + rel_entr(1.0 - kept, apart))

    def _kept(self, state: _State) -> Float32Array:
        """(n_nodes,) share of the walks from each node that are in its class."""
        return state.shares[np.arange(state.classes.size), state.classes]

    def _end_round(self, state: _State) -> None:
        """Let each node take the class its walks end in most often.

        A round that moves no node would be followed by equal ones of the same length: those are
        counted as done.
        """
        classes = _winners(state.shares, state.classes)
        state.place += 1
        if np.array_equal(classes, state.classes):
            self._pass_over(state)
        state.classes, state.n_walked = classes, 0
        state.ended, state.shares = state.shares, np.empty_like(state.shares)
        state.n_rounds += 1
        state.least_kept = self._least_kept(classes)

    def _pass_over(self, state: _State) -> None:
        """Count the next rounds as done that have the length of the last one."""
        length = self.lengths[state.place - 1]
        while state.place < len(self.lengths) and self.lengths[state.place] == length:
            state.place += 1

    def _least_kept(self, classes: Int64Array) -> float:
        """``min_kept`` of the nodes beyond those that chance keeps."""
        counts = np.bincount(classes[self.reachable])
        by_chance = float(((counts / counts.sum()) ** 2).sum())
        return by_chance + self.min_kept * (1.0 - by_chance)

    def _one_hot(self, classes: Int64Array) -> Float32Array:
        return np.eye(self.no_source.shape[1], dtype=np.float32)[classes]


def _winners(shares: Float32Array, present: Int64Array) -> Int64Array:
    """Class of the largest share of each row; the present one where none is larger.

    Ties thus do not depend on the order of classes or nodes.
    """
    rows = np.arange(present.size)
    best = shares.argmax(axis=1)
    is_better = shares[rows, best] > shares[rows, present] + _TIE
    return np.where(is_better, best, present)
