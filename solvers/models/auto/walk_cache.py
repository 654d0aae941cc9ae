"""Walks of earlier labels, repeated while few labels have changed (K13).

Threshold dynamics take many walks, and one more label would begin them all anew. They end with the
shares of one walk, from classes that earlier rounds found. With one more label that last walk is
repeated from the same classes, except at nodes whose first class, by potentials or densities, has
changed. Predictions of left-out labels stay.

So an answer also depends on the labels that walks last began anew with: by no more than walks of so
many other labels differ.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, IntArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO, WalkStart
from peewit.solvers.models.harmonic.threshold_dynamics import Walk
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.models.left_out.left_out_cache import LeftOutCache, in_parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WalkCache(LeftOutCache):
    """Walks as they ended with some labels."""

    walks_from: str  # "poisson" or "density": whose classes walks began from
    first: IntArray  # (n_nodes,) these classes
    walk: Walk  # the last one of a round that was kept

    @classmethod
    def of(
        cls,
        groups: LabelGroups,
        walks_from: str,
        start: WalkStart,
        walk: Walk,
        left_out: FloatArray,
        shares: FloatArray,
    ) -> "WalkCache":
        """Walks that began with ``start`` and ended with ``walk``."""
        return cls(
            labels=groups.labels,
            was_left_out=groups.left_out_folds >= 0,
            walks_from=walks_from,
            first=start.first,
            walk=walk,
            left_out=left_out,
            shares=in_parts(shares),
        )

    @property
    def nbytes(self) -> int:
        """Memory of the classes and shares."""
        return self.first.nbytes + self.walk.classes.nbytes + self.shares.nbytes

    def repeated(self, prepared: PreparedGraph, start: WalkStart, watch: Watch) -> Float32Array:
        """(n_nodes, n_classes) shares of the last walk, with classes amended by ``start`` (K13)."""
        task = start.task
        classes = np.where(start.first == self.first, self.walk.classes, start.first)
        lacks = task.lacks
        if lacks[task.counts > 0].any():
            is_absent = lacks[task.component, classes]
            classes = np.where(is_absent, start.first, classes)
        walk = Walk(classes=classes, n_steps=self.walk.n_steps)
        return HarmonicMBO().repeated(prepared, start.labels, walk, watch)
