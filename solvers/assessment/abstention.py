"""Abstention: the certainty that keeps errors few among the answers given, by left-out labels."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, RealArray
from peewit.solvers.late_modules import LateModule

special = LateModule("scipy.special")

_STARTS: Final = (1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RiskCurve:
    """Errors among the surest answers, the surest first."""

    certainty: FloatArray  # (n_points,) distinct, decreasing: answers at least as sure are given
    n_answered: Int64Array  # (n_points,)
    n_wrong: Int64Array  # (n_points,)

    @classmethod
    def of(cls, is_right: BoolArray, certainty: RealArray) -> "RiskCurve":
        """The curve of (n,) answers; one sort."""
        order = np.argsort(-certainty, kind="stable")
        ranked = certainty[order].astype(np.float64)
        is_last = np.append(ranked[1:] != ranked[:-1], True)[: ranked.size]
        n_wrong = np.cumsum(~is_right[order])[is_last]
        return cls(
            certainty=ranked[is_last], n_answered=np.flatnonzero(is_last) + 1, n_wrong=n_wrong
        )

    @property
    def error(self) -> FloatArray:
        """(n_points,) share of the given answers that is wrong."""
        return np.asarray(self.n_wrong / self.n_answered)

    def greatest_error(self, confidence: float) -> FloatArray:
        """(n_points,) errors that are exceeded with a chance of at most 1 - confidence (J14)."""
        rest = self.n_answered - self.n_wrong
        error = np.ones(rest.size)
        is_some = rest > 0
        error[is_some] = special.betaincinv(self.n_wrong[is_some] + 1, rest[is_some], confidence)
        return error

    def threshold_place(self, max_error: float, confidence: float) -> int | None:
        """Place of the lowest threshold known to keep errors to ``max_error``, or None (J14).

        Thresholds are tested from a high one to lower ones, up to the first that fails. One mistake
        among the surest answers would end a single search too early, so there are three, each with
        a third of the chance to be wrong: from as many labels as could pass at all, twice and four
        times as many. Raises ValueError unless both arguments lie in (0, 1).
        """
        for name, value in (("max_error", max_error), ("confidence", confidence)):
            if not 0.0 < value < 1.0:
                raise BadArgument(name, f"must lie in (0, 1), got {value}")
        chance = (1.0 - confidence) / len(_STARTS)
        least = math.log(chance) / math.log(1.0 - max_error)  # if all of so many are right
        passes = self.greatest_error(1.0 - chance) <= max_error
        place = -1
        for start in _STARTS:
            first = int(np.searchsorted(self.n_answered, start * least))
            n_passed = int(np.argmin(np.append(passes[first:], False)))
            if n_passed:
                place = max(place, first + n_passed - 1)
        return place if place >= 0 else None
