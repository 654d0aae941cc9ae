"""Walks of the labels before, repeated where few labels have changed.

Threshold dynamics from potentials take many walks, and one label more would begin them all anew.
What they end with is the shares of one walk, from classes that the rounds before it found: with a
label more that walk is repeated, from the same classes but where the first ones, of potentials or
densities, are others than they were. What left-out labels were predicted stays.

So an answer depends on the labels, and on those of the last solve whose walks began anew: by no
more than walks of so many other labels.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, IntArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO, WalkStart
from peewit.solvers.models.harmonic.threshold_dynamics import Walk
from peewit.solvers.models.left_out.kept_left_out import KeptLeftOut, in_parts
from peewit.solvers.models.left_out.label_groups import LabelGroups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptWalks(KeptLeftOut):
    """Walks as they ended with some labels.

    Attributes
    ----------
    walks_from : str
        Whose classes walks began from.
    first : (n_nodes,) int
        These classes.
    walk : Walk
        The last one that was kept.
    """

    walks_from: str
    first: IntArray
    walk: Walk

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
        return cls(
            labels=groups.labels,
            was_left_out=groups.asked_fold >= 0,
            walks_from=walks_from,
            first=start.first,
            walk=walk,
            left_out=left_out,
            shares=in_parts(shares),
        )

    @property
    def nbytes(self) -> int:
        """What they take."""
        return self.first.nbytes + self.walk.classes.nbytes + self.shares.nbytes

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
