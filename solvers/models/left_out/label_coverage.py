"""Label coverage: whether left-out labels lie as near to other labels as nodes do to labels.

Labels that were spread out, one for each community, do not. Left out they lie where no other label
is, and what they say of an arm holds for such places only.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammaln

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.models.left_out.label_sample import DOUBT, rank_deviate
from peewit.solvers.row_ranges import row_blocks

_LEAST_EXCESS: Final = 0.05
"""Near nodes must exceed near left-out labels by this share; less gains nothing."""

_LEAST_LABELS: Final = 20
"""Fewest left-out labels that judge near nodes: fewer are far ones that came nearest by chance."""

_LEAST_RATIO: Final = 2.0
"""Near nodes must be nearer by this factor: labels that are nearly as near still judge them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelCoverage:
    """Nodes that are nearer to labels than left-out labels are to others."""

    p_value: float  # that labels drawn at random would be as far apart (K12)
    is_near: BoolArray  # (n_nodes,) nearer than nearly all left-out labels; none if not spread
    is_left_near: BoolArray  # (n_used,) left-out labels as near, if enough to judge
    nearness: float = 0.0  # deviate of left-out labels' ranks among nodes, by nearness (K16)

    @classmethod
    def of(cls, columns: Float32Array, groups: LabelGroups) -> "LabelCoverage":
        """From the densities around groups of labels, (n_groups, n_nodes).

        Stand-in nodes are without one fold, as the left-out labels are.
        """
        n_nodes, used, n_labeled = columns.shape[1], groups.usable, groups.labels.n_labeled
        is_near, is_left_near = np.zeros(n_nodes, bool), np.zeros(used.size, bool)
        nodes, folds = groups.left_out_nodes, groups.left_out_folds
        coverage = np.zeros(nodes.size)
        for fold in range(groups.n_folds):
            own = folds == fold
            in_others = groups.class_sums(groups.fold != fold).sum(axis=0)
            coverage[own] = in_others @ columns[:, nodes[own]]
        of_labels = coverage[used]
        of_nodes = coverage[n_labeled:][groups.stand_in_fold >= 0]
        if of_labels.size == 0 or of_nodes.size == 0:
            return cls(p_value=1.0, is_near=is_near, is_left_near=is_left_near)
        p_value, cut = _least_likely(of_labels, of_nodes)
        nearness = rank_deviate(of_labels, of_nodes)
        if p_value >= DOUBT:
            return cls(
                p_value=p_value, is_near=is_near, is_left_near=is_left_near, nearness=nearness
            )
        of_all = cut * n_labeled / (n_labeled - used.size / groups.n_folds)  # no fold is missing
        for rows in row_blocks(n_nodes):
            is_near[rows] = columns[:, rows].sum(axis=0, dtype=np.float64) > of_all
        if np.count_nonzero(of_labels > cut) >= _LEAST_LABELS:
            is_left_near = of_labels > cut
        return cls(p_value=p_value, is_near=is_near, is_left_near=is_left_near, nearness=nearness)

    @property
    def is_spread(self) -> bool:
        """Whether the labels are spread out."""
        return self.p_value < DOUBT

    @property
    def near_share(self) -> float:
        """The share of the nodes that are near."""
        return float(self.is_near.mean())


def _least_likely(of_labels: FloatArray, of_nodes: FloatArray) -> tuple[float, float]:
    """The smallest p-value, and the coverage t above which labels are as rare as that (K12).

    A lower cut would have more nodes above it, and labels whose arms err as those of far ones do.
    """
    n_labels, n_nodes = of_labels.size, of_nodes.size
    least, best = 1.0, np.inf
    ranked = np.sort(of_labels)[::-1]
    looks = 2 ** np.arange(n_labels.bit_length()) - 1
    for cut in ranked[looks]:
        near = of_nodes[of_nodes > cut]
        n_left, n_others = int((of_labels > cut).sum()), near.size
        if n_others / n_nodes - n_left / n_labels < _LEAST_EXCESS:
            continue
        if np.median(near) < _LEAST_RATIO * np.median(of_labels[of_labels <= cut]):
            continue
        chance = chance_of_at_most(
            n_left, n_all=n_labels + n_nodes, n_near=n_left + n_others, n_drawn=n_labels
        )
        # (K12): distances are symmetric, so half of them say nothing new
        p_value = float(np.sqrt(chance)) * looks.size
        if p_value < least:
            least, best = p_value, float(cut)
    return least, best


def chance_of_at_most(n_left: int, *, n_all: int, n_near: int, n_drawn: int) -> float:
    """Chance that of ``n_drawn`` drawn without replacement at most ``n_left`` are near.

    The hypergeometric distribution; scipy.stats, which has it, takes half a second to import.
    """
    near = np.arange(max(0, n_drawn - n_all + n_near), n_left + 1)
    ways = _log_choose(n_near, near) + _log_choose(n_all - n_near, n_drawn - near)
    return min(1.0, float(np.exp(ways - _log_choose(n_all, n_drawn)).sum()))


def _log_choose(n: int, k: Int64Array | int) -> FloatArray:
    """Logarithm of n over k."""
    log_choose: FloatArray = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return log_choose
