"""Macro-F1: the rule by which probabilities choose classes of the largest mean F-measure (J21)."""

from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.decision import DecisionRule, decided
from peewit.solvers.labels import Labels
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.solution import Solution

_STEPS: Final = 30
_LEAST_GAIN: Final = 1e-6
_LEAST_SUM: Final = 1e-9


def macro_f1_rule(probabilities: FloatArray) -> DecisionRule:
    """The plug-in rule (J21) for (n_nodes, n_classes) probabilities.

    The step is repeated while the expected macro-F1 grows, from the most probable classes and from
    those of which a node is the largest part; the better end is no worse than either start.
    """
    sums = np.maximum(probabilities.sum(axis=0), _LEAST_SUM)
    nothing = np.zeros(sums.size)
    starts = (np.ones(sums.size), sums.min() / sums)
    best, best_f1 = DecisionRule(weight=starts[0], cut=nothing), -np.inf
    for weight in starts:
        rule, last = DecisionRule(weight=weight, cut=nothing), -np.inf
        for _ in range(_STEPS):
            f1, n_said = expected_f1(probabilities, rule)
            mean = float(f1.mean())
            if mean > best_f1:
                best, best_f1 = rule, mean
            if mean <= last + _LEAST_GAIN:
                break
            last, whole = mean, n_said + sums
            # (2 p - F) / (n + S), times a number that all classes share
            rule = DecisionRule(weight=whole.min() / whole, cut=f1 / 2.0)
    return best


def expected_f1(
    probabilities: FloatArray, rule: DecisionRule | None
) -> tuple[FloatArray, FloatArray]:
    """(n_classes,) F-measures to expect of the classes a rule chooses, and nodes of each."""
    n_classes = probabilities.shape[1]
    n_said, hits = np.zeros(n_classes), np.zeros(n_classes)
    for rows in row_blocks(len(probabilities)):
        some = probabilities[rows]
        said = decided(some, rule)
        n_said += np.bincount(said, minlength=n_classes)
        hits += np.bincount(said, some[np.arange(said.size), said], minlength=n_classes)
    sums = np.maximum(probabilities.sum(axis=0), _LEAST_SUM)
    return 2.0 * hits / (n_said + sums), n_said


def macro_f1_decision(solution: Solution, labels: Labels) -> DecisionRule:
    """The rule for nodes that labels reach and that have none; for all reached, where all have."""
    is_asked = labels.others(solution.reachable)
    if not is_asked.any():
        is_asked = solution.reachable
    return macro_f1_rule(solution.scores[is_asked])
