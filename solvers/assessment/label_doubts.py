"""Label doubts: how much the other labels contradict each label, by its left-out prediction."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, Int64Array
from peewit.solvers.decision import DecisionRule, decided
from peewit.solvers.models.contract.model import ScoreKind


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelDoubts:
    """Labels ranked by how much the others contradict each.

    Attributes
    ----------
    classes : (n_labels,) int64
        As given.
    order : (n_reached,) int64
        Labels that others reach, the most doubtful first: by probabilities the one whose class was
        least probable, by class scores the one furthest behind.
    behind : (n_labels,) float32
        Score of the best other class minus that of the given one; -inf for labels that no other
        reaches, or that were never left out.
    contradicted : (n_labels,) bool
        Whether the others predict another class: by a rule, or where it scores more.
    """

    classes: Int64Array
    order: Int64Array
    behind: Float32Array
    contradicted: BoolArray

    @classmethod
    def of(
        cls,
        scores: Float32Array,
        classes: Int64Array,
        score_kind: ScoreKind,
        rule: DecisionRule | None = None,
    ) -> "LabelDoubts":
        """Doubts from (n_labels, n_classes) left-out scores, as of `CrossValidation.scores`."""
        reached = np.flatnonzero(np.isfinite(scores).all(axis=1))
        own = np.arange(reached.size), classes[reached]
        others = scores[reached]
        own_scores = others[own]
        others[own] = -np.inf
        behind = np.full(classes.size, -np.inf, np.float32)
        behind[reached] = others.max(axis=1) - own_scores
        rank_by = own_scores if score_kind == "probability" else -behind[reached]
        order = reached[np.argsort(rank_by, kind="stable")]
        contradicted: BoolArray = behind > 0.0
        if rule is not None:
            contradicted[reached] = decided(scores[reached], rule) != classes[reached]
        return cls(classes=classes, order=order, behind=behind, contradicted=contradicted)

    def dropped(self, n_most: int) -> BoolArray:
        """(n_labels,) the first ``n_most`` contradicted ones; a class keeps its last label."""
        n_left = np.bincount(self.classes)
        is_dropped = np.zeros(self.classes.size, bool)
        n_dropped = 0
        for row in self.order[self.contradicted[self.order]].tolist():
            if n_dropped == n_most:
                break
            if n_left[self.classes[row]] > 1:
                n_left[self.classes[row]] -= 1
                is_dropped[row] = True
                n_dropped += 1
        return is_dropped
