"""Threshold dynamics: walks from a partition of the nodes, cut into classes of bounded sizes.

One step of Merriman-Bence-Osher dynamics is a walk and a cut: it shortens the border between the
classes at the scale of the walk. With bounds on the sizes of classes long walks are safe. Without,
the largest class could take all, so rounds are judged: one that makes the edges less likely is
undone (H6).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, IntArray, RealArray
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.neighbor_means import MeansByPasses, NeighborMeans
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.classes.class_balance import class_offsets
from peewit.solvers.status import Status

_TIE = 1e-5
"""Shares closer than this are equal: walks run in float32."""

_SETTLED = 0.002
"""With free sizes, a round that moves at most this share of the nodes ends the rounds of its
length."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeBounds:
    """(n_classes,) least and greatest share of the nodes that each class may have."""

    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Walk:
    """Where shares come from: walks of ``n_steps`` that end in ``classes``, (n_nodes,).

    0 steps stand for the first partition.
    """

    classes: IntArray
    n_steps: int


@dataclass(slots=True, kw_only=True, eq=False)
class CutState:
    """The last cut, and where the walks of the present round are.

    Where rounds are judged (H6), the first step from the new classes decides: until then the shares
    of a round wait in ``ended``, and ``n_moved`` counts the nodes that left their first class.
    """

    shares: Float32Array  # (n_nodes, n_classes) of walks of ``n_walked`` steps by their ends
    spare: Float32Array  # (n_nodes, n_classes) room for one step more
    classes: IntArray  # (n_nodes,) that the round began with
    offsets: FloatArray  # (n_classes,) balance the sizes
    least_stay_share: float  # the round ends early once a smaller share would keep their class
    n_moved: int  # nodes whose class the last round changed
    before: IntArray  # (n_nodes,) the last classes that stood
    n_walked: int = 0
    place: int = 0  # of the round among the lengths
    n_rounds: int = 0
    best_shares: Float32Array | None = None  # (n_some, n_classes) of the last round that stood
    ended: Float32Array | None = None  # (n_some, n_classes) of a round still to be judged
    evidence: float = -np.inf  # how likely ``before`` makes the edges
    n_undone: int = 0  # rounds
    best_walk: Walk | None = None  # what ``best_shares`` are shares of
    ended_walk: Walk | None = None  # what ``ended`` are shares of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """What is cut: the nodes of a graph, and those with a label."""

    walk: NeighborMeans | MeansByPasses
    labeled: IntArray  # (n_labeled,) nodes whose class is kept
    classes: IntArray  # (n_labeled,) that class
    reachable: BoolArray  # (n_nodes,) nodes that count: those that a label reaches
    sized: BoolArray  # (n_nodes,) those of them that sizes of classes are about
    n_classes: int
    absent: BoolArray | None  # (n_nodes, n_classes) class without label in reach; None: nowhere

    @classmethod
    def of(
        cls,
        order: IntArray,
        rank: IntArray,
        task: CenteredLabels,
        labels: Labels,
        walk: NeighborMeans | MeansByPasses,
    ) -> "Nodes":
        """All nodes, numbered by their place in ``order``.

        ``order`` is the node at each place, as ``task`` and ``labels`` number it; ``rank`` is its
        inverse.
        """
        lacks = task.lacks
        return cls(
            walk=walk,
            labeled=rank[labels.nodes],
            classes=labels.classes,
            reachable=task.reachable[order],
            sized=labels.asked_of(task.reachable)[order],
            n_classes=lacks.shape[1],
            absent=task.absent[order] if lacks[task.counts > 0].any() else None,
        )

    def balance(
        self, scores: RealArray, bounds: SizeBounds | None, first: FloatArray | None = None
    ) -> FloatArray:
        """(n_classes,) offsets that keep the classes of the nodes that count within bounds (H3)."""
        if bounds is None:
            return np.zeros(self.n_classes)
        present = scores if self.absent is None else np.where(self.absent, -np.inf, scores)
        return class_offsets(present[self.sized], bounds.lower, bounds.upper, first)

    def balanced(self, scores: RealArray, offsets: FloatArray) -> RealArray:
        """Scores plus offsets where a label reaches; absent classes stay below all others."""
        if self.absent is None and not offsets.any():
            return scores
        shifted = np.where(self.reachable[:, None], scores + offsets.astype(scores.dtype), scores)
        if self.absent is not None:
            least = shifted.min(initial=0.0)
            shifted[self.absent & self.reachable[:, None]] = least - 1.0
        return shifted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThresholdDynamics:
    """Steps of walks that labels stop, and a cut at the end of each round, for `iterate`.

    With ``degree`` rounds are judged by the edges (H6) between nodes that count; None undoes no
    round.
    """

    nodes: Nodes
    first: IntArray  # (n_nodes,) the partition to start from
    bounds: SizeBounds | None  # None leaves sizes free
    lengths: tuple[int, ...]  # most steps of the walks of every round
    min_kept: float  # a walk ends early once fewer keep their class, beyond chance
    degree: FloatArray | None = None  # (n_nodes,)
    shares_at: IntArray | None = None  # (n_some,) nodes whose shares are kept; None: all

    def init(self) -> CutState:
        """The first partition."""
        shares, spare = np.empty((2, self.first.size, self.nodes.n_classes), np.float32)
        return self.begun(shares, spare)

    def begun(self, shares: Float32Array, spare: Float32Array) -> CutState:
        """The first partition, in given memory: (n_nodes, n_classes) each, of any values."""
        return CutState(
            shares=shares,
            spare=spare,
            classes=self.first,
            offsets=np.zeros(self.nodes.n_classes),
            least_stay_share=self._least_stay_share(self.first),
            n_moved=int(np.count_nonzero(self.nodes.reachable)),
            before=self.first,
        )

    def step(self, state: CutState) -> CutState:
        """One step of every walk, stopped at labels; at the end of a round, a cut."""
        known = self.depart(state)
        self.nodes.walk.step(state.shares, state.spare)
        self.arrive(state, known)
        return state

    def depart(self, state: CutState) -> Float32Array:
        """Prepare ``shares`` for a step; (n_labeled, n_classes) shares of the labels."""
        if state.n_walked == 0:
            state.shares[...] = self._one_hot(state.classes)
        known: Float32Array = state.shares[self.nodes.labeled]
        return known

    def arrive(self, state: CutState, known: Float32Array) -> None:
        """Take the shares after a step from ``spare``, and those of the labels from ``known``."""
        state.shares, state.spare = state.spare, state.shares
        if state.n_walked == 0 and self.degree is not None:
            self._judge(state, np.where(self.nodes.reachable, self.degree, 0.0))
            if state.place == len(self.lengths) or state.classes is not state.before:
                state.classes = state.before
                return
        state.shares[self.nodes.labeled] = known
        state.n_walked += 1
        is_over = state.n_walked == self.lengths[state.place]
        if is_over or (self.min_kept > 0 and self._stay_share(state) < state.least_stay_share):
            self._end_round(state)

    def terminate(self, state: CutState) -> Status | None:
        """Converged after the last round, once it is judged."""
        is_over = state.place == len(self.lengths) and state.ended is None
        return Status.CONVERGED if is_over else None

    def fraction(self, state: CutState) -> float:
        """Share of the rounds that are done."""
        return state.place / len(self.lengths)

    def _end_round(self, state: CutState) -> None:
        """Cut; a round that moves hardly a node ends the rounds of its length."""
        state.offsets = self.nodes.balance(state.shares, self.bounds, state.offsets)
        classes = _winners(self.nodes.balanced(state.shares, state.offsets), state.classes)
        classes[self.nodes.labeled] = self.nodes.classes
        state.n_moved = int(np.count_nonzero((classes != state.classes)[self.nodes.reachable]))
        state.place += 1
        settled = 0.0 if self.bounds is not None else _SETTLED
        if state.n_moved <= settled * np.count_nonzero(self.nodes.reachable):
            self._pass_over(state)
        if self.degree is not None:
            state.ended = state.shares[self._shares_index].copy()
            state.ended_walk = Walk(classes=state.classes, n_steps=state.n_walked)
        state.classes, state.n_walked = classes, 0
        state.n_rounds += 1
        state.least_stay_share = self._least_stay_share(classes)

    def _pass_over(self, state: CutState) -> None:
        """Skip the next rounds of the length of the last one."""
        length = self.lengths[state.place - 1]
        while state.place < len(self.lengths) and self.lengths[state.place] == length:
            state.place += 1

    def _judge(self, state: CutState, degree: FloatArray) -> None:
        """Keep the classes by the first step from them, unless those before were better (H6).

        An undone round ends the rounds of its length.
        """
        evidence = self._evidence(state, degree)
        if evidence < state.evidence - _TIE:
            self._pass_over(state)
            state.n_undone += 1
            state.least_stay_share = self._least_stay_share(state.before)
        else:
            state.before, state.evidence = state.classes, evidence
            state.best_shares, state.best_walk = state.ended, state.ended_walk
            if state.best_shares is None:
                state.best_shares = self._of_first(state)
                state.best_walk = Walk(classes=state.classes, n_steps=0)
        state.ended, state.ended_walk = None, None
        state.n_moved = int(np.count_nonzero((state.before != self.first)[self.nodes.reachable]))

    @property
    def _shares_index(self) -> IntArray | slice:
        """Index of the shares that are kept."""
        return slice(None) if self.shares_at is None else self.shares_at

    def _of_first(self, state: CutState) -> Float32Array:
        """Shares of the first partition: of walks that stay where they are two times of three."""
        shares_at = self._shares_index
        there = self._one_hot(state.classes[shares_at])
        is_labeled = np.zeros(state.classes.size, bool)
        is_labeled[self.nodes.labeled] = True
        shares = (2.0 * there + state.shares[shares_at]) / np.float32(3.0)
        return np.where(is_labeled[shares_at, None], there, shares)

    def _evidence(self, state: CutState, degree: FloatArray) -> float:
        """How likely the edges are given the classes, relative to edges that ignore them (H6)."""
        total = float(degree.sum())
        if total == 0:
            return 0.0
        part = np.bincount(state.classes, degree) / total  # a_k
        apart = float(part @ (1.0 - part))  # 1 - q
        stays = min(float(degree @ _own(state)) / total, 1.0)  # p
        if apart <= _TIE:
            return 0.0
        return float(rel_entr(stays, 1.0 - apart) + rel_entr(1.0 - stays, apart))

    def _stay_share(self, state: CutState) -> float:
        """Mean share of the walks that end in the class they began in."""
        return float(_own(state)[self.nodes.reachable].mean(dtype=np.float64))

    def _least_stay_share(self, classes: IntArray) -> float:
        """``min_kept`` of the nodes beyond those that chance keeps."""
        counts = np.bincount(classes[self.nodes.reachable])
        by_chance = float(((counts / counts.sum()) ** 2).sum())
        return by_chance + self.min_kept * (1.0 - by_chance)

    def _one_hot(self, classes: IntArray) -> Float32Array:
        return np.eye(self.nodes.n_classes, dtype=np.float32)[classes]


def _own(state: CutState) -> Float32Array:
    """(n_nodes,) share of the walks from each node that end in its class."""
    return state.shares[np.arange(state.classes.size), state.classes]


def _winners(scores: RealArray, present: IntArray) -> IntArray:
    """Class of the largest score of each row; the present one if none is larger."""
    rows = np.arange(present.size)
    best = scores.argmax(axis=1).astype(present.dtype)
    return np.where(scores[rows, best] > scores[rows, present] + _TIE, best, present)
