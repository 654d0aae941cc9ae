"""An arm of `auto`: scores of one predictor, for all nodes and for labels left out."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.models.auto.preparation import without_mean
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.row_ranges import row_blocks

SHARE: Final = 0.05
"""Added to shares: smaller ones differ by chance."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StackedArm:
    """Scores of one predictor, as log odds up to a scale."""

    values: RealArray  # (n_nodes, n_classes); rows sum to 0
    left_out: FloatArray  # (n_left_out, n_classes) of labels, then stand-in nodes, without a fold
    scale: float = 1.0  # of ``values``, for weights that fit ``left_out`` (K18)

    def with_scale_of(self, nodes: Int64Array, places: Int64Array) -> "StackedArm":
        """With the scale that makes ``values`` of some nodes as large as those left out (K18).

        ``places`` are those of the nodes in ``left_out``.
        """
        whole, part = (
            float(np.square(rows, dtype=np.float64).mean()) if rows.size else 0.0
            for rows in (self.values[nodes], self.left_out[places])
        )
        return replace(self, scale=float(np.sqrt(part / whole))) if whole and part else self


def is_better(arm: StackedArm, other: StackedArm, groups: LabelGroups, *, n_errors: float) -> bool:
    """Whether ``arm`` predicts clearly more left-out labels than ``other``.

    That is by more than ``n_errors`` McNemar standard errors: the root of the number of labels that
    only one of both predicts.
    """
    used, classes = groups.usable, groups.labels.classes
    right, other_right = (
        side.left_out[used].argmax(axis=1) == classes[used] for side in (arm, other)
    )
    alone, other_alone = (right & ~other_right).sum(), (other_right & ~right).sum()
    return bool(alone - other_alone > n_errors * np.sqrt(alone + other_alone))


def share_arm(values: RealArray, left_out: FloatArray) -> StackedArm:
    """Class shares as an arm."""
    arm = np.empty(values.shape, np.float32)
    for rows in row_blocks(len(values)):
        arm[rows] = log_odds(values[rows], SHARE)
    return StackedArm(values=arm, left_out=np.asarray(log_odds(left_out, SHARE)))


def log_odds(values: RealArray, added: float) -> RealArray:
    """Rows of log(values + added), with mean 0."""
    return without_mean(np.log(np.maximum(values, 0.0) + added))
