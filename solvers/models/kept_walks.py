"""Walks of the labels before, repeated where few labels have changed.

Threshold dynamics from potentials take many walks, and one label more would begin them all anew.
What they end with is the shares of one walk, from classes that the rounds before it found: with a
label more that walk is repeated, from the same classes but where the first ones, of potentials or
densities, are others than they were. What left-out labels were predicted stays.

So an answer depends on the labels, and on those of the last solve whose walks began anew: by no
more than walks of so many other labels.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, IntArray, UInt8Array
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.graph_model_base import PreparedGraph
from peewit.solvers.models.harmonic_mbo import HarmonicMBO, WalkStart
from peewit.solvers.models.label_groups import LabelGroups
from peewit.solvers.models.threshold_dynamics import Walk
from peewit.solvers.row_ranges import row_blocks

_MOST_CHANGED: Final = 0.05
"""Share of the labels that may have changed since walks began anew."""

_STEPS: Final = 255
"""Shares of walks are kept in so many parts, a byte each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptWalks:
    """Walks as they ended with some labels.

    Attributes
    ----------
    labels : Labels
    was_left_out : (n_labeled,) bool
        Which of them were.
    walks_from : str
        Whose classes walks began from.
    first : (n_nodes,) int
        These classes.
    walk : Walk
        The last one that was kept.
    left_out : (n_labeled, n_classes) float64
        Shares of every label, without its fold; ones where it was not left out.
    shares : (n_nodes, n_classes) uint8
        Shares of every node, in 255ths.
    """

    labels: Labels
    was_left_out: BoolArray
    walks_from: str
    first: IntArray
    walk: Walk
    left_out: FloatArray
    shares: UInt8Array

    @classmethod
    def of(
        cls,
        groups: LabelGroups,
        walks_from: str,
        start: WalkStart,
        walk: Walk,
        left_out: FloatArray,
        shares: FloatArray,
    ) -> "KeptWalks":
        """Those that began with ``start`` and ended with ``walk``."""
        parts = np.empty(shares.shape, np.uint8)
        for rows in row_blocks(len(parts)):
            parts[rows] = np.rint(shares[rows] * _STEPS)
        return cls(
            labels=groups.labels,
            was_left_out=groups.fold >= 0,
            walks_from=walks_from,
            first=start.first,
            walk=walk,
            left_out=left_out,
            shares=parts,
        )

    @property
    def nbytes(self) -> int:
        """What they take."""
        return self.first.nbytes + self.walk.classes.nbytes + self.shares.nbytes

    def serve(self, groups: LabelGroups) -> bool:
        """Whether few labels are others, and none is to be left out that was not."""
        labels, before = groups.labels, self.labels
        if labels.class_names != before.class_names:
            return False
        at, place = self._common(labels)
        n_same = np.count_nonzero(labels.classes[at] == before.classes[place])
        n_changed = labels.n_labeled + before.n_labeled - at.size - n_same
        is_left_out = self.was_left_out[place] | (groups.fold[at] < 0)
        return bool(n_changed <= _MOST_CHANGED * before.n_labeled and is_left_out.all())

    def repeated(self, prepared: PreparedGraph, start: WalkStart, watch: Watch) -> Float32Array:
        """(n_nodes, n_classes) shares of the last walk, from classes that ``start`` amends."""
        task = start.task
        classes = np.where(start.first == self.first, self.walk.classes, start.first)
        lacks = task.lacks
        if lacks[task.counts > 0].any():
            is_absent = lacks[task.component, classes]
            classes = np.where(is_absent, start.first, classes)
        walk = Walk(classes=classes, n_steps=self.walk.n_steps)
        return HarmonicMBO().repeated(prepared, start.labels, walk, watch)

    def left_out_of(self, labels: Labels) -> FloatArray:
        """(n_labeled, n_classes) shares at labels, each without itself."""
        shares = self.shares[labels.nodes] / _STEPS
        at, place = self._common(labels)
        shares[at] = self.left_out[place]
        return shares

    def _common(self, labels: Labels) -> tuple[IntArray, IntArray]:
        """Places of the nodes that have a label in both, in ``labels`` and in the own ones."""
        _, at, place = np.intersect1d(
            labels.nodes, self.labels.nodes, assume_unique=True, return_indices=True
        )
        return at, place
