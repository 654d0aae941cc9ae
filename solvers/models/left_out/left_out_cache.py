"""Predictions of left-out labels, kept for label sets that are nearly the same."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, IntArray, RealArray, UInt8Array
from peewit.solvers.labels import Labels
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.row_ranges import row_blocks

_MOST_CHANGED: Final = 0.05
"""Largest share of the labels that may have changed since (K13)."""

_STEPS: Final = 255
"""Shares are kept in this many parts, a byte each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutCache:
    """Class shares from some labels, and those of labels and stand-in nodes without a fold."""

    labels: Labels
    was_left_out: BoolArray  # (n_left_out,)
    left_out: FloatArray  # (n_left_out, n_classes), even where one was not left out
    shares: UInt8Array  # (n_nodes, n_classes), in 255ths

    def serve(self, groups: LabelGroups) -> bool:
        """Whether few labels have changed, and none is to be left out that was not (K13)."""
        labels, before = groups.labels, self.labels
        if labels.class_names != before.class_names:
            return False
        at, place = self._common(labels)
        n_same = np.count_nonzero(labels.classes[at] == before.classes[place])
        n_changed = labels.n_labeled + before.n_labeled - at.size - n_same
        is_left_out = self.was_left_out[place] | (groups.fold[at] < 0)
        return bool(n_changed <= _MOST_CHANGED * before.n_labeled and is_left_out.all())

    def left_out_of(self, groups: LabelGroups) -> FloatArray:
        """(n_left_out, n_classes) shares at labels and at stand-in nodes without their fold.

        With all labels where they were not left out.
        """
        shares = self.shares[groups.left_out_nodes] / _STEPS
        at, place = self._common(groups.labels)
        shares[at] = self.left_out[place]
        n_labeled, n_before = groups.labels.n_labeled, self.labels.n_labeled
        was_left_out = self.was_left_out[n_before:]  # the same nodes, as these depend on no label
        if was_left_out.size == groups.stand_ins.size:
            shares[n_labeled:][was_left_out] = self.left_out[n_before:][was_left_out]
        return shares

    def _common(self, labels: Labels) -> tuple[IntArray, IntArray]:
        """Places in ``labels`` and in the own labels of the nodes that have a label in both."""
        _, at, place = np.intersect1d(
            labels.nodes, self.labels.nodes, assume_unique=True, return_indices=True
        )
        return at, place


def in_parts(shares: RealArray) -> UInt8Array:
    """Shares in 255ths."""
    parts = np.empty(shares.shape, np.uint8)
    for rows in row_blocks(len(parts)):
        parts[rows] = np.rint(shares[rows] * _STEPS)
    return parts
