"""Walks that sharpen a first partition, an arm of `auto`."""

from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Stopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.arms import Densities, is_better, share_arm
from peewit.solvers.models.auto.kept_walks import KeptWalks
from peewit.solvers.models.auto.potentials import Potentials
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.solvers.models.auto.stacking import StackedArm
from peewit.solvers.models.classes.centring import CentredLabels
from peewit.solvers.models.classes.class_mixing import Mixing, agreement
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO, WalkStart
from peewit.solvers.models.harmonic.threshold_dynamics import Walk
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.models.poisson.poisson_mbo import PoissonMBO
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.status import Status

CLEARLY: Final = 3.0
"""Restart walks from densities when these predict left-out labels better than walks from potentials
by this many standard errors."""

BY_FAR: Final = 6.0
"""Begin walks from densities when these predict left-out labels better than potentials by this many
standard errors: by less, what is worse at first may lead further."""

_FEW_PER_CLASS: Final = 5
"""Up to this many labels a class, a cut of nearly even sizes is tried beside that of free ones."""


def walks(
    prepared: PreparedAuto,
    poisson: Potentials,
    densities: Densities,
    arms: dict[str, StackedArm],
    watch: Watch,
) -> tuple[StackedArm, dict[str, str]]:
    """The arm of walks and its stats; repeated where few labels have changed (K13).

    ``arms`` are those of potentials and densities; raises `Stopped`.
    """
    kept = prepared.walks
    groups, walks_from = poisson.groups, "poisson"
    if kept is not None and kept.serve(groups) and not _tries_even(groups):
        from_density = kept.walks_from == "density"
        arm = _repeated(prepared, kept, poisson, densities if from_density else poisson, watch)
        if from_density or not is_better(arms["density"], arm, groups, n_errors=CLEARLY):
            return arm, {"class_sizes": "free", "walks_from": kept.walks_from, "walks": "repeated"}
    prepared.walks = None
    if is_better(arms["density"], arms["poisson"], groups, n_errors=BY_FAR):
        walks_from = "density"
    else:
        arm, sizes, prepared.walks = walk_shares(prepared, poisson, poisson, watch)
        if is_better(arms["density"], arm, groups, n_errors=CLEARLY):
            walks_from = "density"
    if walks_from == "density":
        arm, sizes, prepared.walks = walk_shares(prepared, poisson, densities, watch)
    return arm, {"class_sizes": sizes, "walks_from": walks_from, "walks": "anew"}


def walk_shares(
    prepared: PreparedAuto, poisson: Potentials, begun: Potentials | Densities, watch: Watch
) -> tuple[StackedArm, str, KeptWalks | None]:
    """The arm of threshold dynamics from the classes of ``begun``; raises `Stopped`.

    With few labels walks also start from a cut of nearly even sizes, by the potentials of
    ``poisson``; the better one (H4) is taken and named. With more labels the last walk is returned
    if it can be kept for other labels.
    """
    groups, base = begun.groups, prepared.base
    labels, task, potential = groups.labels, poisson.task, poisson.scores
    asked, asked_fold = groups.asked, groups.asked_fold
    starts = []
    for fold in range(groups.n_folds):
        others, scores = begun.without(fold)
        left = asked[asked_fold == fold]
        starts.append(_start(others, groups.without(fold), scores, left))
    starts.append(_start(task, labels, begun.scores))
    tries_even = _tries_even(groups)
    if tries_even:
        even = PoissonMBO().nearly_even(base, task, labels, potential, watch)
        starts.append(WalkStart(task=task, labels=labels, first=even))
    outcome, found = HarmonicMBO().walked(base, starts, watch)
    if outcome.status is Status.CANCELLED:
        raise Stopped
    for start, shares in zip(starts, found, strict=True):
        reachable = start.task.reachable
        shares[~(reachable if start.asked is None else reachable[start.asked])] = 1.0
    left_out = np.ones((asked.size, labels.n_classes))
    for fold in range(groups.n_folds):
        left_out[asked_fold == fold] = found[fold]
    values, sizes = found[groups.n_folds], "free"
    if tries_even and _is_better_cut(prepared.graph, poisson, found[-1], values):
        values, sizes = found[-1], "nearly even"
    kept, walk = None, outcome.state.parts[-1].kept_walk
    if walk is not None and not tries_even:
        _, order = base.near_in_memory()
        classes = np.empty_like(walk.classes)
        classes[order] = walk.classes
        walk = Walk(classes=classes, n_steps=walk.n_steps)
        walks_from = "density" if isinstance(begun, Densities) else "poisson"
        kept = KeptWalks.of(groups, walks_from, starts[-1], walk, left_out, values)
        if kept.nbytes > prepared.densities.kept_bytes:
            kept = None
    return share_arm(values, left_out), sizes, kept


def _repeated(
    prepared: PreparedAuto,
    kept: KeptWalks,
    poisson: Potentials,
    begun: Potentials | Densities,
    watch: Watch,
) -> StackedArm:
    """The arm of the last walk, repeated (K13); raises `Stopped`."""
    groups, task = poisson.groups, poisson.task
    values = kept.repeated(prepared.base, _start(task, groups.labels, begun.scores), watch)
    values[~task.reachable] = 1.0
    return share_arm(values, kept.left_out_of(groups))


def _tries_even(groups: LabelGroups) -> bool:
    return groups.labels.n_labeled <= _FEW_PER_CLASS * groups.labels.n_classes


def _start(
    task: CentredLabels, labels: Labels, scores: RealArray, asked: Int64Array | None = None
) -> WalkStart:
    """Walks from the classes of the largest scores; ``asked`` are nodes whose shares are needed."""
    first = np.empty(len(scores), np.min_scalar_type(labels.n_classes))
    for rows in row_blocks(first.size):
        absent = task.lacks[task.component[rows]]
        first[rows] = np.where(absent, -np.inf, scores[rows]).argmax(axis=1)
    return WalkStart(task=task, labels=labels, first=first, asked=asked)


def _is_better_cut(graph: Graph, poisson: Potentials, found: FloatArray, best: FloatArray) -> bool:
    """Whether the classes of shares ``found`` cut the graph better than those of ``best`` (H4)."""
    asked = poisson.task.reachable
    weight = np.where(asked, graph.degree, 0.0)
    told = []
    for shares in (found, best):
        classes = shares.argmax(axis=1)
        mixing = Mixing.of(graph, classes, asked, shares.shape[1])
        told.append((mixing, agreement(poisson.scores, classes, weight)))
    (mixing, fit), (best_mixing, best_fit) = told
    return mixing.beats(best_mixing, fit, best_fit)
