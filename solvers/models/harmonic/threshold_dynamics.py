"""Threshold dynamics: walks from a partition of the nodes, cut into classes of bounded sizes.

One step of Merriman-Bence-Osher dynamics is a walk and a cut: it shortens the border between the
classes at the scale of the walk. With bounds on the sizes of classes long walks are safe; without,
the largest class could take all, and rounds are judged: one that makes the edges less likely is
undone.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    IntArray,
    RealArray,
)
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.neighbor_means import NeighborMeans
from peewit.solvers.models.classes.centring import CentredLabels
from peewit.solvers.models.classes.class_balance import class_offsets
from peewit.solvers.status import Status

_TIE = 1e-5
"""Shares closer than this are equal: walks run in float32."""

_SETTLED = 0.002
"""Where sizes are free, a round that moves at most so much has done what its length can."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeBounds:
    """(n_classes,) least and greatest share of the nodes that each class may have."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """What shares are of: (n_nodes,) classes, and steps until a walk ends in one; 0: the first."""

    classes: IntArray
    n_steps: int


@dataclass(slots=True, kw_only=True, eq=False)
class CutState:
    """The last cut, and where the walks of the present round are.

    ``shares`` are those of walks of ``n_walked`` steps that end in each class, ``spare`` is room
    for one step more; ``classes`` are those the round began with, ``offsets`` what balances them,
    ``place`` the round's place among the lengths. ``n_moved`` counts the nodes whose class the last
    round changed. A round ends early once fewer than ``least_kept`` would keep their class.

    Where rounds are judged, the first step from the new classes does it: ``before`` are the last
    ones that stood, ``kept`` the shares that they won, of the nodes that are told of, and
    ``evidence`` how likely they made the edges; ``ended`` are the shares of a round that is still
    to be judged, ``kept_walk`` and ``ended_walk`` what both are shares of. ``n_moved`` then counts
    the nodes whose class differs from that of the first partition, ``n_undone`` the rounds that
    were undone.
    """

    shares: Float32Array
    spare: Float32Array
    classes: IntArray
    offsets: FloatArray
    least_kept: float
    n_moved: int
    before: IntArray
    n_walked: int = 0
    place: int = 0
    n_rounds: int = 0
    kept: Float32Array | None = None
    ended: Float32Array | None = None
    evidence: float = -np.inf
    n_undone: int = 0
    kept_walk: Walk | None = None
    ended_walk: Walk | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """What is to be cut: a graph's nodes, and those with a label.

    Attributes
    ----------
    walk : NeighborMeans
        On all nodes of the graph.
    labeled, classes : (n_labeled,) int
        Nodes whose class is kept, and it.
    asked : (n_nodes,) bool
        Nodes that count: those that a label reaches.
    n_classes : int
        Columns of shares and scores.
    absent : (n_nodes, n_classes) bool or None
        Whether no label of the class reaches the node; None where each reaches all that count.
    """

    walk: NeighborMeans
    labeled: IntArray
    classes: IntArray
    asked: BoolArray
    n_classes: int
    absent: BoolArray | None

    @classmethod
    def of(
        cls,
        order: IntArray,
        rank: IntArray,
        task: CentredLabels,
        labels: Labels,
        walk: NeighborMeans,
    ) -> "Nodes":
        """All nodes that are walked on.

        ``order`` names the node that each place was for ``task`` and ``labels``; ``rank`` is its
        inverse.
        """
        lacks = task.lacks
        return cls(
            walk=walk,
            labeled=rank[labels.nodes],
            classes=labels.classes,
            asked=task.reachable[order],
            n_classes=lacks.shape[1],
            absent=task.absent[order] if lacks[task.counts > 0].any() else None,
        )

    def balance(
        self, scores: RealArray, bounds: SizeBounds | None, first: FloatArray | None = None
    ) -> FloatArray:
        """(n_classes,) offsets that keep the classes of the nodes that count within bounds."""
        if bounds is None:
            return np.zeros(self.n_classes)
        present = scores if self.absent is None else np.where(self.absent, -np.inf, scores)
        return class_offsets(present[self.asked], bounds.lower, bounds.upper, first)

    def balanced(self, scores: RealArray, offsets: FloatArray) -> RealArray:
        """Scores plus offsets where a label reaches; absent classes stay below all others."""
        if self.absent is None and not offsets.any():
            return scores
        shifted = np.where(self.asked[:, None], scores + offsets.astype(scores.dtype), scores)
        if self.absent is not None:
            least = shifted.min(initial=0.0)
            shifted[self.absent & self.asked[:, None]] = least - 1.0
        return shifted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThresholdDynamics:
    """Steps of walks that labels stop, and a cut at the end of each round, for `iterate`.

    Attributes
    ----------
    nodes : Nodes
        What is cut.
    first : (n_nodes,) int
        The partition to start from.
    bounds : SizeBounds or None
        None leaves sizes free.
    lengths : tuple of int
        Most steps of the walks of every round.
    min_kept : float
        A walk ends early where fewer would keep their class, beyond those that chance keeps.
    degree : (n_nodes,) float64 or None
        Rounds are judged by the edges (H6) between nodes that count. None undoes none.
    told : (n_told,) int or None
        Nodes whose shares are kept of rounds that are judged; None: all.
    """

    nodes: Nodes
    first: IntArray
    bounds: SizeBounds | None
    lengths: tuple[int, ...]
    min_kept: float
    degree: FloatArray | None = None
    told: IntArray | None = None

    def init(self) -> CutState:
        """The first partition."""
        shares, spare = np.empty((2, self.first.size, self.nodes.n_classes), np.float32)
        return self.begun(shares, spare)

    def begun(self, shares: Float32Array, spare: Float32Array) -> CutState:
        """The first partition, in this memory: (n_nodes, n_classes) each, of any values."""
        return CutState(
            shares=shares,
            spare=spare,
            classes=self.first,
            offsets=np.zeros(self.nodes.n_classes),
            least_kept=self._least_kept(self.first),
            n_moved=int(np.count_nonzero(self.nodes.asked)),
            before=self.first,
        )

    def step(self, state: CutState) -> CutState:
        """One step of every walk, stopped at labels; at the end of a round, a cut."""
        known = self.depart(state)
        self.nodes.walk.step(state.shares, state.spare)
        self.arrive(state, known)
        return state

    def depart(self, state: CutState) -> Float32Array:
        """Make ``shares`` those before a step; (n_labeled, n_classes) of the labels."""
        if state.n_walked == 0:
            state.shares[...] = self._one_hot(state.classes)
        known: Float32Array = state.shares[self.nodes.labeled]
        return known

    def arrive(self, state: CutState, known: Float32Array) -> None:
        """Go on once ``spare`` has the shares after a step, and ``known`` those of the labels."""
        state.shares, state.spare = state.spare, state.shares
        if state.n_walked == 0 and self.degree is not None:
            self._judge(state, np.where(self.nodes.asked, self.degree, 0.0))
            if state.place == len(self.lengths) or state.classes is not state.before:
                state.classes = state.before
                return
        state.shares[self.nodes.labeled] = known
        state.n_walked += 1
        is_over = state.n_walked == self.lengths[state.place]
        if is_over or (self.min_kept > 0 and self._kept(state) < state.least_kept):
            self._end_round(state)

    def terminate(self, state: CutState) -> Status | None:
        """Converged after the last round, once it is judged."""
        is_over = state.place == len(self.lengths) and state.ended is None
        return Status.CONVERGED if is_over else None

    def fraction(self, state: CutState) -> float:
        """Share of the rounds that are done."""
        return state.place / len(self.lengths)

    def _end_round(self, state: CutState) -> None:
        """Cut; a round that moves hardly a node stands for those of its length that follow."""
        state.offsets = self.nodes.balance(state.shares, self.bounds, state.offsets)
        classes = _winners(self.nodes.balanced(state.shares, state.offsets), state.classes)
        classes[self.nodes.labeled] = self.nodes.classes
        state.n_moved = int(np.count_nonzero((classes != state.classes)[self.nodes.asked]))
        state.place += 1
        settled = 0.0 if self.bounds is not None else _SETTLED
        if state.n_moved <= settled * np.count_nonzero(self.nodes.asked):
            self._pass_over(state)
        if self.degree is not None:
            state.ended = state.shares[self._told].copy()
            state.ended_walk = Walk(classes=state.classes, n_steps=state.n_walked)
        state.classes, state.n_walked = classes, 0
        state.n_rounds += 1
        state.least_kept = self._least_kept(classes)

    def _pass_over(self, state: CutState) -> None:
        """Count the next rounds as done that have the length of the last one."""
        length = self.lengths[state.place - 1]
        while state.place < len(self.lengths) and self.lengths[state.place] == length:
            state.place += 1

    def _judge(self, state: CutState, degree: FloatArray) -> None:
        """Keep the classes by the first step from them, unless those before were better.

        Of a round that is undone the next ones of its length are counted as done.
        """
        evidence = self._evidence(state, degree)
        if evidence < state.evidence - _TIE:
            self._pass_over(state)
            state.n_undone += 1
            state.least_kept = self._least_kept(state.before)
        else:
            state.before, state.evidence = state.classes, evidence
            state.kept, state.kept_walk = state.ended, state.ended_walk
            if state.kept is None:
                state.kept = self._of_first(state)
                state.kept_walk = Walk(classes=state.classes, n_steps=0)
        state.ended, state.ended_walk = None, None
        state.n_moved = int(np.count_nonzero((state.before != self.first)[self.nodes.asked]))

    @property
    def _told(self) -> IntArray | slice:
        """Where the shares lie that are kept."""
        return slice(None) if self.told is None else self.told

    def _of_first(self, state: CutState) -> Float32Array:
        """Scores of the first partition: of walks that stay where they are two times of three."""
        told = self._told
        there = self._one_hot(state.classes[told])
        is_labeled = np.zeros(state.classes.size, bool)
        is_labeled[self.nodes.labeled] = True
        shares = (2.0 * there + state.shares[told]) / np.float32(3.0)
        return np.where(is_labeled[told, None], there, shares)

    def _evidence(self, state: CutState, degree: FloatArray) -> float:
        """How likely edges are that know the classes, of edges that do not (H6)."""
        total = float(degree.sum())
        if total == 0:
            return 0.0
        part = np.bincount(state.classes, degree) / total
        apart = float(part @ (1.0 - part))
        kept = min(float(degree @ _own(state)) / total, 1.0)
        if apart <= _TIE:
            return 0.0
        return float(rel_entr(kept, 1.0 - apart) + rel_entr(1.0 - kept, apart))

    def _kept(self, state: CutState) -> float:
        """Mean share of the walks that end in the class they began in."""
        return float(_own(state)[self.nodes.asked].mean(dtype=np.float64))

    def _least_kept(self, classes: IntArray) -> float:
        """``min_kept`` of the nodes beyond those that chance keeps."""
        counts = np.bincount(classes[self.nodes.asked])
        by_chance = float(((counts / counts.sum()) ** 2).sum())
        return by_chance + self.min_kept * (1.0 - by_chance)

    def _one_hot(self, classes: IntArray) -> Float32Array:
        return np.eye(self.nodes.n_classes, dtype=np.float32)[classes]


def _own(state: CutState) -> Float32Array:
    """(n_nodes,) share of the walks from each node that end in its class."""
    return state.shares[np.arange(state.classes.size), state.classes]


def _winners(scores: RealArray, present: IntArray) -> IntArray:
    """Class of the largest score of each row; the present one where none is larger."""
    rows = np.arange(present.size)
    best = scores.argmax(axis=1).astype(present.dtype)
    return np.where(scores[rows, best] > scores[rows, present] + _TIE, best, present)
