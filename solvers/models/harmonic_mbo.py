"""Harmonic MBO: a harmonic function for where the classes lie, short walks for their borders.

Decision: this is the model to use when nothing is known of the classes. Context: at one label per
class a harmonic function is nearly flat and Poisson learning nearly as good as it gets without
known class sizes; with more labels Poisson learning falls behind. Consequence: one hard harmonic
solve, contrasts in place of values (`solvers.models.class_mass`), then threshold dynamics.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from solvers.arrays import BoolArray, Float32Array, Int64Array
from solvers.graph import Graph
from solvers.iterate import Cancelled, Progress, iterate
from solvers.labels import Labels
from solvers.models.base import Rule, check_labels, hyperparameter
from solvers.models.class_mass import contrasts
from solvers.models.harmonic import HFS
from solvers.models.prepared_graph import GraphModel, PreparedGraph
from solvers.solution import Solution, Status

_TIE = 1e-5
"""Shares closer than this are equal: walks run in float32, in half the time of float64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HarmonicMBO(GraphModel):
    """Hard harmonic functions, then threshold dynamics with walks that get shorter.

    The class that wins `solvers.models.class_mass.contrasts` of the hard HFS solution (D1) makes a
    first partition of the nodes. Each round then replaces the class of a node by the one that a
    random walk from it, stopped at labels, most often ends in. A round is one step of
    Merriman-Bence-Osher dynamics: it shortens the border between the classes at the scale of its
    walks. Walks start at ``walk_length`` steps, which moves whole borders, and shrink to a half
    and a third of it, which settles single nodes. No class size is asked for or kept.

    Scores are the shares of the last round's walks that end in each class: they lie in [0, 1] and
    sum to 1. They are those of a very local walk, so most are near 0 or 1.

    Notes
    -----
    One hard HFS solve and at most ``n_rounds`` times ``walk_length`` products with the adjacency
    matrix. A walk ends early once fewer than ``min_kept`` of the nodes would keep their class,
    beyond those that chance keeps: on graphs whose classes mix fast (many hubs, no dimension)
    long walks would let the largest class take all.

    References
    ----------
    Zhu, Ghahramani and Lafferty (2003); Merriman, Bence and Osher (1992); Calder, Cook, Thorpe and
    Slepcev (2020), whose PoissonMBO fixes class sizes instead.
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

    def solve(
        self,
        prepared: PreparedGraph,
        labels: Labels,
        *,
        start: Solution | None = None,  # noqa: ARG002 - shares of walks start no linear solve
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """Scores of every node; see `solvers.models.base.Model.solve`.

        A start is not used: its scores say which class won, not what the harmonic function was.
        The harmonic solve starts from that of the labels before, which ``prepared`` keeps.
        """
        check_labels(labels, prepared.graph)
        harmonic = self._harmonic.solve(
            prepared, labels, start=prepared.last, progress=progress, cancelled=cancelled
        )
        if harmonic.status is Status.CANCELLED:
            return harmonic
        prepared.last = harmonic
        dynamics = _Dynamics(
            walk=_transitions(prepared.graph),
            labels=labels,
            reachable=harmonic.reachable,
            first=contrasts(harmonic.scores, labels, prepared.graph).argmax(axis=1),
            lengths=self._lengths(),
            min_kept=self.min_kept,
        )
        outcome = iterate(
            dynamics,
            max_iter=self.n_rounds,
            phase="walks",
            progress=progress,
            cancelled=cancelled,
        )
        state = outcome.state
        scores = state.shares.astype(np.float64)
        scores /= scores.sum(axis=1, keepdims=True)
        scores[~harmonic.reachable] = labels.class_prior()
        stopped = outcome.status is Status.CANCELLED
        return Solution(
            scores=scores,
            reachable=harmonic.reachable,
            status=outcome.status if stopped else harmonic.status,
            stats={
                **harmonic.stats,
                "n_rounds": outcome.n_iter,
                "n_steps": state.n_steps,
                "n_moved": state.n_moved,
            },
        )

    @property
    def _harmonic(self) -> HFS:
        """The model of the first partition."""
        return HFS(graph_penalty=0.0, rtol=self.rtol, max_iter=self.max_iter)

    def _lengths(self) -> tuple[int, ...]:
        """Most steps of the walks of every round: a third of the rounds whole, half, a third."""
        thirds = (3 * np.arange(self.n_rounds)) // self.n_rounds
        return tuple(-(-self.walk_length // int(part + 1)) for part in thirds)


@dataclass(slots=True, kw_only=True, eq=False)
class _State:
    """After a round: the shares of the walks, the classes they say, rounds and steps so far.

    ``n_moved`` counts the nodes whose class differs from that of the first partition.
    """

    shares: Float32Array
    classes: Int64Array
    n_rounds: int
    n_steps: int
    n_moved: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Dynamics:
    """Rounds of walks and thresholds, for `iterate`."""

    walk: Any
    labels: Labels
    reachable: BoolArray
    first: Int64Array
    lengths: tuple[int, ...]
    min_kept: float

    def init(self) -> _State:
        """The first partition, with the labels as given."""
        classes = self.first.astype(np.int64)
        classes[self.labels.nodes] = self.labels.classes
        return _State(
            shares=self._one_hot(classes), classes=classes, n_rounds=0, n_steps=0, n_moved=0
        )

    def step(self, state: _State) -> _State:
        """Walk from every node, then let each take the class its walks end in most often.

        A round that moves no node would be followed by equal ones of the same length: those are
        counted as done.
        """
        shares, n_steps = self._walked(state)
        classes = _winners(shares, state.classes)
        length = self.lengths[state.n_rounds]
        n_rounds = state.n_rounds + 1
        if np.array_equal(classes, state.classes):
            while n_rounds < len(self.lengths) and self.lengths[n_rounds] == length:
                n_rounds += 1
        return _State(
            shares=shares,
            classes=classes,
            n_rounds=n_rounds,
            n_steps=state.n_steps + n_steps,
            n_moved=int(np.count_nonzero((classes != self.first)[self.reachable])),
        )

    def terminate(self, state: _State) -> Status | None:
        """Converged after the last round."""
        return Status.CONVERGED if state.n_rounds == len(self.lengths) else None

    def fraction(self, state: _State) -> float:
        """Share of the rounds that are done."""
        return state.n_rounds / len(self.lengths)

    def _walked(self, state: _State) -> tuple[Float32Array, int]:
        """Where walks end, stopped at labels, and the steps they were given."""
        start = self._one_hot(state.classes)
        known = start[self.labels.nodes]
        kept = self._kept_by_chance(state.classes)
        shares, n_steps, limit = start, 0, kept + self.min_kept * (1.0 - kept)
        rows = np.flatnonzero(self.reachable)
        while n_steps < self.lengths[state.n_rounds]:
            shares = self.walk @ shares
            shares[self.labels.nodes] = known
            n_steps += 1
            if shares[rows, state.classes[rows]].mean(dtype=np.float64) < limit:
                break
        return shares, n_steps

    def _kept_by_chance(self, classes: Int64Array) -> float:
        """Chance that two reachable nodes are of one class."""
        counts = np.bincount(classes[self.reachable])
        return float(((counts / counts.sum()) ** 2).sum())

    def _one_hot(self, classes: Int64Array) -> Float32Array:
        rows: Float32Array = np.eye(self.labels.n_classes, dtype=np.float32)[classes]
        return rows


def _winners(shares: Float32Array, present: Int64Array) -> Int64Array:
    """Class of the largest share of each row; the present one where none is larger.

    Ties thus do not depend on the order of classes or nodes.
    """
    rows = np.arange(present.size)
    best = shares.argmax(axis=1)
    is_better = shares[rows, best] > shares[rows, present] + _TIE
    return np.where(is_better, best, present)


def _transitions(graph: Graph) -> Any:
    """D^-1 A in float32; an isolated node stays where it is."""
    is_isolated = graph.degree == 0
    inverse = 1.0 / np.where(is_isolated, 1.0, graph.degree)
    steps = sp.diags_array(inverse) @ graph.adjacency + sp.diags_array(is_isolated.astype(float))
    return sp.csr_array(steps).astype(np.float32)
