"""Stop rules of conjugate gradients: at the optimum, or once predictions have settled."""

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, IntArray

StopName = Literal["optimal", "stability", "validation", "mixed"]
STOPS: tuple[StopName, ...] = get_args(StopName)

MeasureName = Literal["gradient", "preconditioned-gradient", "mixed-product", "objective"]
MEASURES: tuple[MeasureName, ...] = get_args(MeasureName)

RTOL = {"gradient": 1e-8, "preconditioned-gradient": 1e-8, "mixed-product": 1e-8, "objective": 1e-6}
"""Default limit of each measure, relative to its value at the zero function."""

STABLE_SHARE = 0.015
"""Share of unlabeled nodes below which changes of class count as stable."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Validation:
    """Nodes whose class is known but not trained on."""

    nodes: Int64Array  # (n_validation,)
    classes: Int64Array  # number of the largest function; of one function, 1 if positive

    def n_wrong(self, decided: IntArray) -> int:
        """Validation nodes whose class in ``decided``, (n_nodes,), is wrong."""
        return int(np.count_nonzero(decided[self.nodes] != self.classes))


@dataclass(slots=True, kw_only=True, eq=False)
class EarlyStop:
    """A rule that checks the predictions every few iterations (section E.2).

    'stability': few unlabeled nodes changed since the last check; 'validation': no more validation
    nodes are right than then; 'mixed': both.
    """

    rule: StopName
    unlabeled: BoolArray  # (n_nodes,) nodes that count for stability
    validation: Validation | None = None  # needed by the other two rules
    every: int = 0  # iterations between two checks: round(sqrt(n_nodes) / 2)
    share: float = STABLE_SHARE  # least share of changed nodes that is not stable
    _decide: IntArray | None = field(default=None, init=False)
    _n_wrong: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.rule in {"validation", "mixed"} and self.validation is None:
            raise ValueError(f"stop {self.rule!r} needs validation nodes, got none")
        if self.every == 0:
            self.every = max(1, round(np.sqrt(self.unlabeled.size) / 2))

    def is_met(self, n_iter: int, scores: FloatArray) -> bool:
        """Whether the run may end after ``n_iter`` iterations.

        The decisions of all functions count together: each alone would settle too early.
        """
        if n_iter % self.every:
            return False
        decided, earlier = decisions(scores), self._decide
        n_wrong = 0 if self.validation is None else self.validation.n_wrong(decided)
        met = earlier is not None and self._holds(decided, earlier, n_wrong)
        self._decide, self._n_wrong = decided, n_wrong
        return met

    def _holds(self, decided: IntArray, earlier: IntArray, n_wrong: int) -> bool:
        n_changed = np.count_nonzero((decided != earlier) & self.unlabeled)
        n_unlabeled = max(1, int(np.count_nonzero(self.unlabeled)))
        stable = n_changed < self.share * n_unlabeled  # section E.2
        settled = n_wrong > self._n_wrong - 1  # in counts: rates tie in floating point
        if self.rule == "mixed":
            return bool(stable and settled)
        return bool(stable if self.rule == "stability" else settled)


def decisions(scores: FloatArray) -> IntArray:
    """Class of each row: the largest column, or the sign of a single one."""
    if scores.shape[1] == 1:
        return np.asarray((scores[:, 0] > 0).astype(np.int64))
    return np.asarray(scores.argmax(axis=1))
