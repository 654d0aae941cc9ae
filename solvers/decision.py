"""Decision: which class the scores of a node choose, and how near another one was.

Decision: a rule of two numbers a class, kept beside the scores, instead of labels of their own.
Context: what an answer aims at may ask for other classes than the most probable ones, and every
door decides anew: nodes, labels left out, points that come later. Consequence: labels follow from
scores and rule wherever there are scores, and these stay what they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray

Objective: TypeAlias = Literal["accuracy", "macro-f1"]
"""What labels aim at: most nodes right, or the largest mean of the classes' F-measures."""

OBJECTIVES: Final[tuple[Objective, ...]] = ("accuracy", "macro-f1")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecisionRule:
    """Node i goes to the class k of the largest ``weight_k (score_ik - cut_k)`` (J21)."""

    weight: FloatArray  # (n_classes,) > 0, the largest 1
    cut: FloatArray  # (n_classes,)

    @classmethod
    def restored(cls, stored: Mapping[str, Any] | None) -> "DecisionRule | None":
        """The rule that `stored` gave; None of None, by which the largest score decides."""
        if stored is None:
            return None
        return cls(weight=np.array(stored["weight"]), cut=np.array(stored["cut"]))

    @property
    def stored(self) -> dict[str, list[float]]:
        """The rule as JSON values."""
        return {"weight": self.weight.tolist(), "cut": self.cut.tolist()}

    def values(self, scores: RealArray) -> FloatArray:
        """(n_rows, n_classes) values, the largest of which decides."""
        values: FloatArray = self.weight * (scores - self.cut)
        return values

    def margin(self, scores: RealArray, classes: Int64Array) -> FloatArray:
        """(n_rows,) twice the probability that must move to another class for it to win, at most 1.

        With equal weights and cuts this is the class's probability minus the best other one.
        """
        values, rows = self.values(scores), np.arange(len(scores))
        behind = values[rows, classes][:, None] - values
        behind *= 2.0 / (self.weight[classes][:, None] + self.weight)
        behind[rows, classes] = np.inf
        margin: FloatArray = np.minimum(behind.min(axis=1), 1.0)
        return margin


def decided(scores: RealArray, rule: DecisionRule | None) -> Int64Array:
    """(n_rows,) classes by a rule, or of the largest score; of equal ones the first."""
    values = scores if rule is None else rule.values(scores)
    return np.asarray(values.argmax(axis=1), np.int64)
