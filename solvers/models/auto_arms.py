"""Arms of `auto` that say more than potentials: density of personalized PageRank, and walks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, Int64Array, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Stopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto_potentials import Potentials
from peewit.solvers.models.auto_preparation import LARGEST, PreparedAuto, indicators
from peewit.solvers.models.centring import CentredLabels
from peewit.solvers.models.class_mixing import Mixing, agreement
from peewit.solvers.models.harmonic_mbo import HarmonicMBO, WalkStart
from peewit.solvers.models.label_groups import LabelGroups
from peewit.solvers.models.poisson_mbo import PoissonMBO
from peewit.solvers.models.stacking import StackedArm
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.status import Status

TELEPORT: Final = 0.05
"""Teleport probability of the density: walks of about 20 steps."""

DENSITY_RTOL: Final = 1e-4
_EVERYWHERE: Final = 0.3
"""Added to densities, in units of what a walk finds anywhere: less than that says nothing."""

CLEARLY: Final = 3.0
"""Standard errors by which densities must predict more left-out labels than walks from potentials
for walks to begin once more, from densities."""

BY_FAR: Final = 6.0
"""Those by which they must predict more than potentials for walks to begin from densities at once:
of fewer labels what is worse at first may lead further."""

_SHARE: Final = 0.05
_FEW_PER_CLASS: Final = 5
"""Up to so many labels a class, a cut of nearly even sizes is tried beside that of free ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Densities:
    """How much more often walks from a class come by than walks from anywhere.

    q_k(i) = vol / n_k sum_{j in k} P_ij / sqrt(d_i d_j) (K6); its mean over long walks is 1.

    Attributes
    ----------
    groups : LabelGroups
    component : (n_nodes,) int32
    columns : (n_groups, n_nodes) float32
        n_k q_k of every group.
    scores : (n_nodes, n_classes) float32
        Log odds with all labels.
    """

    groups: LabelGroups
    component: Int32Array
    columns: Float32Array
    scores: Float32Array

    @classmethod
    def of(cls, prepared: PreparedAuto, groups: LabelGroups, watch: Watch) -> "Densities":
        """Those of ``groups``; raises `Stopped`."""
        columns = prepared.densities.of(groups, density_maker(prepared, watch))
        return cls(
            groups=groups,
            component=prepared.graph.component,
            columns=columns,
            scores=_densities(columns, groups.class_sums(), _counts(groups.labels)),
        )

    def without(self, fold: int) -> tuple[CentredLabels, Float32Array]:
        """The labels of the other folds, and the scores that they give."""
        others = self.groups.without(fold)
        sums = self.groups.class_sums(self.groups.fold != fold)
        task = CentredLabels.of(others, self.component)
        return task, _densities(self.columns, sums, np.maximum(_counts(others), 1))

    def arm(self) -> StackedArm:
        """The densities as an arm."""
        groups, labels, columns = self.groups, self.groups.labels, self.columns
        left_out = np.zeros((labels.n_labeled, labels.n_classes))
        if groups.is_single:
            others = columns[:, labels.nodes].astype(np.float64)
            np.fill_diagonal(others, 0.0)
            remaining = np.maximum(_counts(labels) - labels.targets(), 1.0)
            left_out = (others.T @ labels.targets()) / remaining
        for fold in range(0 if groups.is_single else groups.n_folds):
            at = np.flatnonzero(groups.fold == fold)
            kept = groups.fold != fold
            remaining = np.bincount(labels.classes[kept], minlength=labels.n_classes)
            own = columns[:, labels.nodes[at]].astype(np.float64)
            left_out[at] = (groups.class_sums(kept) @ own).T / remaining
        return StackedArm(values=self.scores, left_out=_log_odds(left_out, _EVERYWHERE))


def _counts(labels: Labels) -> Int64Array:
    """(n_classes,) labels of each class."""
    return np.bincount(labels.classes, minlength=labels.n_classes)


def _densities(columns: Float32Array, sums: FloatArray, counts: Int64Array) -> Float32Array:
    """(n_nodes, n_classes) log odds of the densities of classes."""
    single = sums.astype(np.float32)
    values = np.empty((columns.shape[1], len(sums)), np.float32)
    for rows in row_blocks(len(values)):
        values[rows] = _log_odds((single @ columns[:, rows]).T / counts, _EVERYWHERE)
    return values


def density_maker(
    prepared: PreparedAuto, watch: Watch
) -> Callable[[list[Int64Array]], Float32Array]:
    """From the nodes of some groups to the columns of their densities."""
    pagerank = prepared.pagerank
    root = pagerank.inverse_root / np.median(pagerank.inverse_root)  # weights have any unit
    volume = float((1.0 / np.square(root)).sum())

    def make(members: list[Int64Array]) -> Float32Array:
        columns = np.empty((len(members), pagerank.n_nodes), np.float32)
        for first in range(0, len(members), prepared.width):
            some = members[first : first + prepared.width]
            block = indicators(some, pagerank.n_nodes, np.float32)
            block *= root[:, None]
            found = pagerank.filtered(block, TELEPORT, rtol=DENSITY_RTOL, watch=watch)
            columns[first : first + len(some)] = np.minimum(found.T * (volume * root), LARGEST)
        return columns

    return make


def walk_shares(
    prepared: PreparedAuto, poisson: Potentials, begun: Potentials | Densities, watch: Watch
) -> tuple[StackedArm, str]:
    """Threshold dynamics from the classes that ``begun`` gives, as an arm; raises `Stopped`.

    Of few labels also from a cut of nearly even sizes, by the potentials of ``poisson``, where that
    is better; which one, is told.
    """
    groups, base = begun.groups, prepared.base
    labels, task, potential = groups.labels, poisson.task, poisson.scores
    starts = []
    for fold in range(groups.n_folds):
        others, scores = begun.without(fold)
        left = labels.nodes[groups.fold == fold]
        starts.append(_start(others, groups.without(fold), scores, left))
    starts.append(_start(task, labels, begun.scores))
    tries_even = labels.n_labeled <= _FEW_PER_CLASS * labels.n_classes
    if tries_even:
        even = PoissonMBO().nearly_even(base, task, labels, potential, watch)
        starts.append(WalkStart(task=task, labels=labels, first=even))
    outcome, found = HarmonicMBO().walked(base, starts, watch)
    if outcome.status is Status.CANCELLED:
        raise Stopped
    for start, shares in zip(starts, found, strict=True):
        reachable = start.task.reachable
        shares[~(reachable if start.asked is None else reachable[start.asked])] = 1.0
    left_out = np.ones((labels.n_labeled, labels.n_classes))
    for fold in range(groups.n_folds):
        left_out[groups.fold == fold] = found[fold]
    values, sizes = found[groups.n_folds], "free"
    if tries_even and _is_better_cut(prepared.graph, poisson, found[-1], values):
        values, sizes = found[-1], "nearly even"
    arm = np.empty(values.shape, np.float32)
    for rows in row_blocks(len(values)):
        arm[rows] = _log_odds(values[rows], _SHARE)
    return StackedArm(values=arm, left_out=_log_odds(left_out, _SHARE)), sizes


def is_better(arm: StackedArm, other: StackedArm, groups: LabelGroups, *, n_errors: float) -> bool:
    """Whether an arm predicts more left-out labels than another, by so many standard errors."""
    used, classes = groups.usable, groups.labels.classes
    right, other_right = (
        each.left_out[used].argmax(axis=1) == classes[used] for each in (arm, other)
    )
    alone, other_alone = (right & ~other_right).sum(), (other_right & ~right).sum()
    return bool(alone - other_alone > n_errors * np.sqrt(alone + other_alone))


def _start(
    task: CentredLabels, labels: Labels, scores: RealArray, asked: Int64Array | None = None
) -> WalkStart:
    """Walks from the classes of the largest scores, of which some nodes' shares are asked for."""
    first = np.empty(len(scores), np.min_scalar_type(labels.n_classes))
    for rows in row_blocks(first.size):
        absent = task.lacks[task.component[rows]]
        first[rows] = np.where(absent, -np.inf, scores[rows]).argmax(axis=1)
    return WalkStart(task=task, labels=labels, first=first, asked=asked)


def _is_better_cut(graph: Graph, poisson: Potentials, found: FloatArray, best: FloatArray) -> bool:
    """Whether the classes of some shares cut a graph better than those of others (H4)."""
    asked = poisson.task.reachable
    weight = np.where(asked, graph.degree, 0.0)
    told = []
    for shares in (found, best):
        classes = shares.argmax(axis=1)
        mixing = Mixing.of(graph, classes, asked, shares.shape[1])
        told.append((mixing, agreement(poisson.scores, classes, weight)))
    (mixing, fit), (best_mixing, best_fit) = told
    return mixing.beats(best_mixing, fit, best_fit)


def _log_odds(values: RealArray, added: float) -> FloatArray:
    """Rows of log(values + added), with mean 0."""
    logs = np.log(np.maximum(values, 0.0) + added)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))
