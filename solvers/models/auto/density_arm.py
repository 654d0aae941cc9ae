"""Density of personalized PageRank, an arm of `auto` that tells more than potentials."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, Int64Array
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.preparation import LARGEST, PreparedAuto, indicators
from peewit.solvers.models.auto.stacked_arm import StackedArm, log_odds
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.left_out.label_groups import LabelGroups, Maker, Starts
from peewit.solvers.row_ranges import row_blocks

TELEPORT: Final = 0.05
"""Teleport probability a of the density (K6): walks of about 20 steps."""

DENSITY_RTOL: Final = 1e-4
"""On large graphs, too: labels are spikes of the height n / n_k, beside which the 1 that a density
is elsewhere is small, and .3 of it decides."""

EVERYWHERE: Final = 0.3
"""Added to densities (K6), in units of a walk from anywhere: smaller values say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Densities:
    """How much more often walks from a class pass a node than walks from anywhere.

    q_k(i) = vol / n_k sum_{j in k} P_ij / sqrt(d_i d_j) (K6); its mean over long walks is 1.
    """

    groups: LabelGroups
    component: Int32Array
    columns: Float32Array  # (n_groups, n_nodes): n_k q_k of every group
    scores: Float32Array  # (n_nodes, n_classes): log odds with all labels

    @classmethod
    def of(cls, prepared: PreparedAuto, groups: LabelGroups, watch: Watch) -> "Densities":
        """Densities of ``groups``; raises `RunStopped`."""
        columns = prepared.density_columns.of(groups, density_maker(prepared, watch))
        return cls(
            groups=groups,
            component=prepared.graph.component,
            columns=columns,
            scores=_densities(columns, groups.class_sums(), _counts(groups.labels)),
        )

    def without(self, fold: int) -> tuple[CenteredLabels, Float32Array]:
        """The labels of the other folds, and their scores."""
        others = self.groups.without(fold)
        sums = self.groups.class_sums(self.groups.fold != fold)
        task = CenteredLabels.of(others, self.component)
        return task, _densities(self.columns, sums, np.maximum(_counts(others), 1))

    def of_classes(self) -> Float32Array:
        """(n_nodes, n_classes) q_k of every node, with all labels."""
        shares = self.groups.class_sums() / _counts(self.groups.labels)[:, None]
        return np.ascontiguousarray((shares.astype(np.float32) @ self.columns).T)

    def arm(self) -> StackedArm:
        """The densities as an arm."""
        groups, labels, columns = self.groups, self.groups.labels, self.columns
        nodes, folds = groups.left_out_nodes, groups.left_out_folds
        left_out = np.zeros((nodes.size, labels.n_classes))
        if groups.is_single:
            others = columns[:, nodes].astype(np.float64)
            np.fill_diagonal(others, 0.0)
            remaining = np.tile(_counts(labels), (nodes.size, 1))
            remaining[: labels.n_labeled] -= labels.classes[:, None] == np.arange(labels.n_classes)
            left_out = (others.T @ labels.targets()) / np.maximum(remaining, 1)
        for fold in range(0 if groups.is_single else groups.n_folds):
            at = np.flatnonzero(folds == fold)
            is_other = groups.fold != fold
            remaining = np.bincount(labels.classes[is_other], minlength=labels.n_classes)
            own = columns[:, nodes[at]].astype(np.float64)
            left_out[at] = (groups.class_sums(is_other) @ own).T / remaining
        return StackedArm(values=self.scores, left_out=np.asarray(log_odds(left_out, EVERYWHERE)))


def _counts(labels: Labels) -> Int64Array:
    return np.bincount(labels.classes, minlength=labels.n_classes)


def _densities(columns: Float32Array, sums: FloatArray, counts: Int64Array) -> Float32Array:
    """(n_nodes, n_classes) log odds of the densities of classes."""
    single = sums.astype(np.float32)
    values = np.empty((columns.shape[1], len(sums)), np.float32)
    for rows in row_blocks(len(values)):
        values[rows] = log_odds((single @ columns[:, rows]).T / counts, EVERYWHERE)
    return values


def density_maker(prepared: PreparedAuto, watch: Watch) -> Maker:
    """Makes the density columns of groups from their nodes."""
    pagerank = prepared.pagerank
    root = pagerank.inverse_root / np.median(pagerank.inverse_root)  # weights have any unit
    unit = float((1.0 / np.square(root)).sum()) * root  # vol D^-1/2 of (K6)

    def make(members: list[Int64Array], starts: Starts | None) -> Float32Array:
        columns = np.empty((len(members), pagerank.n_nodes), np.float32)
        for first in range(0, len(members), prepared.width):
            some = members[first : first + prepared.width]
            block = indicators(some, pagerank.n_nodes, np.float32)
            block *= root[:, None]
            begun, changed = None, None
            if starts is not None:
                begun = (starts.columns[first : first + len(some)] / unit).T
                changed = starts.changed[first : first + len(some)]
            filtered = pagerank.filtered(
                block, TELEPORT, rtol=DENSITY_RTOL, start=begun, changed=changed, watch=watch
            )
            columns[first : first + len(some)] = np.minimum(filtered.T * unit, LARGEST)
        return columns

    return make
