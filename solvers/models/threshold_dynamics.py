"""Threshold dynamics: walks from a partition of the nodes, cut into classes of bounded sizes.

One step of Merriman-Bence-Osher dynamics is a walk and a cut: it shortens the border between the
classes at the scale of the walk. With bounds on the sizes of classes long walks are safe; without,
the largest class could take all.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int64Array,
    IntArray,
    RealArray,
)
from peewit.solvers.laplacian.residual_sweep import Sweep
from peewit.solvers.models.class_balance import class_offsets
from peewit.solvers.status import Status

_TIE = 1e-5
"""Shares closer than this are equal: walks run in float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeBounds:
    """(n_classes,) least and greatest share of the nodes that each class may have."""

    lower: FloatArray
    upper: FloatArray


@dataclass(slots=True, kw_only=True, eq=False)
class CutState:
    """The last cut, and where the walks of the present round are.

    ``shares`` are those of walks of ``n_walked`` steps that end in each class, ``spare`` is room
    for one step more; ``classes`` are those the round began with, ``offsets`` what balances them,
    ``place`` the round's place among the lengths. ``n_moved`` counts the nodes whose class the last
    round changed. A round ends early once fewer than ``least_kept`` would keep their class.
    """

    shares: Float32Array
    spare: Float32Array
    classes: Int64Array
    offsets: FloatArray
    least_kept: float
    n_moved: int
    n_walked: int = 0
    place: int = 0
    n_rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nodes:
    """What is to be cut: a graph's nodes, and those with a label.

    Attributes
    ----------
    walk : Sweep
        One step of the walk.
    labeled, classes : (n_labeled,) int
        Nodes whose class is kept, and it.
    asked : (n_nodes,) bool
        Nodes that count: those that a label reaches.
    absent : (n_nodes, n_classes) bool
        Whether no label of the class reaches the node.
    """

    walk: Sweep
    labeled: IntArray
    classes: IntArray
    asked: BoolArray
    absent: BoolArray

    @property
    def n_classes(self) -> int:
        """Columns of shares and scores."""
        return int(self.absent.shape[1])

    def balance(
        self, scores: RealArray, bounds: SizeBounds | None, first: FloatArray | None = None
    ) -> FloatArray:
        """(n_classes,) offsets that keep the classes of the nodes that count within bounds."""
        if bounds is None:
            return np.zeros(self.n_classes)
        present = np.where(self.absent, -np.inf, scores)[self.asked]
        return class_offsets(present, bounds.lower, bounds.upper, first)

    def balanced(self, scores: RealArray, offsets: FloatArray) -> RealArray:
        """Scores plus offsets where a label reaches; absent classes stay below all others."""
        shifted = np.where(self.asked[:, None], scores + offsets.astype(scores.dtype), scores)
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
    first : (n_nodes,) int64
        The partition to start from.
    bounds : SizeBounds or None
        None leaves sizes free.
    lengths : tuple of int
        Most steps of the walks of every round.
    min_kept : float
        A walk ends early where fewer would keep their class, beyond those that chance keeps.
    no_source : (n_nodes, n_classes) float32
        Zeros.
    """

    nodes: Nodes
    first: Int64Array
    bounds: SizeBounds | None
    lengths: tuple[int, ...]
    min_kept: float
    no_source: Float32Array

    def init(self) -> CutState:
        """The first partition."""
        shares = self._one_hot(self.first)
        return CutState(
            shares=shares,
            spare=np.empty_like(shares),
            classes=self.first,
            offsets=np.zeros(self.nodes.n_classes),
            least_kept=self._least_kept(self.first),
            n_moved=int(np.count_nonzero(self.nodes.asked)),
        )

    def step(self, state: CutState) -> CutState:
        """One step of every walk, stopped at labels; at the end of a round, a cut."""
        if state.n_walked == 0:
            state.shares[...] = self._one_hot(state.classes)
        known = state.shares[self.nodes.labeled]
        self.nodes.walk.relaxed(state.shares, self.no_source, state.spare)
        state.shares, state.spare = state.spare, state.shares
        state.shares[self.nodes.labeled] = known
        state.n_walked += 1
        is_over = state.n_walked == self.lengths[state.place]
        if is_over or (self.min_kept > 0 and self._kept(state) < state.least_kept):
            self._end_round(state)
        return state

    def terminate(self, state: CutState) -> Status | None:
        """Converged after the last round."""
        return Status.CONVERGED if state.place == len(self.lengths) else None

    def fraction(self, state: CutState) -> float:
        """Share of the rounds that are done."""
        return state.place / len(self.lengths)

    def _end_round(self, state: CutState) -> None:
        """Cut; a round that moves no node stands for those of the same length that follow."""
        state.offsets = self.nodes.balance(state.shares, self.bounds, state.offsets)
        classes = _winners(self.nodes.balanced(state.shares, state.offsets), state.classes)
        classes[self.nodes.labeled] = self.nodes.classes
        state.n_moved = int(np.count_nonzero((classes != state.classes)[self.nodes.asked]))
        length = self.lengths[state.place]
        state.place += 1
        while (
            state.n_moved == 0
            and state.place < len(self.lengths)
            and self.lengths[state.place] == length
        ):
            state.place += 1
        state.classes, state.n_walked = classes, 0
        state.n_rounds += 1
        state.least_kept = self._least_kept(classes)

    def _kept(self, state: CutState) -> float:
        """Mean share of the walks that end in the class they began in."""
        own = state.shares[np.arange(state.classes.size), state.classes]
        return float(own[self.nodes.asked].mean(dtype=np.float64))

    def _least_kept(self, classes: Int64Array) -> float:
        """``min_kept`` of the nodes beyond those that chance keeps."""
        counts = np.bincount(classes[self.nodes.asked])
        by_chance = float(((counts / counts.sum()) ** 2).sum())
        return by_chance + self.min_kept * (1.0 - by_chance)

    def _one_hot(self, classes: Int64Array) -> Float32Array:
        return np.eye(self.nodes.n_classes, dtype=np.float32)[classes]


def _winners(scores: RealArray, present: Int64Array) -> Int64Array:
    """Class of the largest score of each row; the present one where none is larger."""
    rows = np.arange(present.size)
    best = scores.argmax(axis=1)
    return np.where(scores[rows, best] > scores[rows, present] + _TIE, best, present)
