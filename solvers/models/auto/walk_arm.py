"""Walks that sharpen a first partition, an arm of `auto`."""

from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.density_arm import Densities
from peewit.solvers.models.auto.poisson_arm import Potentials
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.solvers.models.auto.stacked_arm import StackedArm, is_better, share_arm
from peewit.solvers.models.auto.walk_cache import WalkCache
from peewit.solvers.models.classes.centering import CenteredLabels
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


def walk_arm(
    prepared: PreparedAuto,
    poisson: Potentials,
    densities: Densities,
    arms: dict[str, StackedArm],
    watch: Watch,
) -> tuple[StackedArm, dict[str, str]]:
    """The arm of walks and its stats; repeated where few labels have changed (K13).

    ``arms`` has at least ``poisson`` and ``density``; raises `RunStopped`.
    """
    cache, all_edges = prepared.walk_cache, prepared.all_edges
    if all_edges is not None and all_edges.walked is not None:
        return all_edges.walked
    groups, walks_from = poisson.groups, "poisson"
    if cache is not None and cache.serve(groups) and not _tries_even(groups):
        from_density = cache.walks_from == "density"
        arm = _repeat(prepared, cache, poisson, densities if from_density else poisson, watch)
        if from_density or not is_better(arms["density"], arm, groups, n_errors=CLEARLY):
            return arm, {"class_sizes": "free", "walks_from": cache.walks_from, "walks": "repeated"}
    prepared.walk_cache, found = None, None
    if not is_better(arms["density"], arms["poisson"], groups, n_errors=BY_FAR):
        found = walk_shares(prepared, poisson, poisson, watch)
        if is_better(arms["density"], found[0], groups, n_errors=CLEARLY):
            found = None  # not both in memory
    if found is None:
        found, walks_from = walk_shares(prepared, poisson, densities, watch), "density"
    arm, sizes, prepared.walk_cache = found
    stats = {"class_sizes": sizes, "walks_from": walks_from, "walks": "anew"}
    if all_edges is not None:
        all_edges.walked = arm, stats
    return arm, stats


def walk_shares(
    prepared: PreparedAuto, poisson: Potentials, begun: Potentials | Densities, watch: Watch
) -> tuple[StackedArm, str, WalkCache | None]:
    """The arm of threshold dynamics from the classes of ``begun``; raises `RunStopped`.

    With few labels walks also start from a cut of nearly even sizes, by the potentials of
    ``poisson``; the better one (H4) is taken and named. With more labels the last walk is returned
    if it can be kept for other labels.
    """
    groups, base = begun.groups, prepared.base
    labels, task, potential = groups.labels, poisson.task, poisson.scores
    nodes, folds = groups.left_out_nodes, groups.left_out_folds
    starts = []
    for fold in range(groups.n_folds):
        others, scores = begun.without(fold)
        left = nodes[folds == fold]
        starts.append(_start(others, groups.without(fold), scores, left))
    starts.append(_start(task, labels, begun.scores))
    tries_even = _tries_even(groups)
    if tries_even:
        even = PoissonMBO().nearly_even(base, task, labels, potential, watch)
        starts.append(WalkStart(task=task, labels=labels, first=even))
    by_passes = None if prepared.all_edges is None else prepared.all_edges.means
    outcome, shares_of_starts = HarmonicMBO().walked(base, starts, watch, by_passes)
    if outcome.status is Status.CANCELLED:
        raise RunStopped
    for start, shares in zip(starts, shares_of_starts, strict=True):
        reachable = start.task.reachable
        shares[~(reachable if start.nodes is None else reachable[start.nodes])] = 1.0
    left_out = np.ones((nodes.size, labels.n_classes))
    for fold in range(groups.n_folds):
        left_out[folds == fold] = shares_of_starts[fold]
    values, sizes = shares_of_starts[groups.n_folds], "free"
    if tries_even and _is_better_cut(prepared.graph, poisson, shares_of_starts[-1], values):
        values, sizes = shares_of_starts[-1], "nearly even"
    cache, walk = None, outcome.state.parts[-1].best_walk
    if walk is not None and not tries_even and by_passes is None:
        _, order = base.near_in_memory()
        classes = np.empty_like(walk.classes)
        classes[order] = walk.classes
        walk = Walk(classes=classes, n_steps=walk.n_steps)
        walks_from = "density" if isinstance(begun, Densities) else "poisson"
        cache = WalkCache.of(groups, walks_from, starts[-1], walk, left_out, values)
        if cache.nbytes > prepared.max_kept_bytes:
            cache = None
    return share_arm(values, left_out), sizes, cache


def _repeat(
    prepared: PreparedAuto,
    cache: WalkCache,
    poisson: Potentials,
    begun: Potentials | Densities,
    watch: Watch,
) -> StackedArm:
    """The arm of the last walk, repeated (K13); raises `RunStopped`."""
    groups, task = poisson.groups, poisson.task
    values = cache.repeated(prepared.base, _start(task, groups.labels, begun.scores), watch)
    values[~task.reachable] = 1.0
    return share_arm(values, cache.left_out_of(groups))


def _tries_even(groups: LabelGroups) -> bool:
    return groups.labels.n_labeled <= _FEW_PER_CLASS * groups.labels.n_classes


def _start(
    task: CenteredLabels, labels: Labels, scores: RealArray, nodes: Int64Array | None = None
) -> WalkStart:
    """Walks from the classes of the largest scores; ``nodes`` are those whose shares are needed."""
    first = np.empty(len(scores), np.min_scalar_type(labels.n_classes))
    for rows in row_blocks(first.size):
        absent = task.lacks[task.component[rows]]
        first[rows] = np.where(absent, -np.inf, scores[rows]).argmax(axis=1)
    return WalkStart(task=task, labels=labels, first=first, nodes=nodes)


def _is_better_cut(graph: Graph, poisson: Potentials, other: FloatArray, best: FloatArray) -> bool:
    """Whether the classes of shares ``other`` cut the graph better than those of ``best`` (H4)."""
    reachable = poisson.task.reachable
    weight = np.where(reachable, graph.degree, 0.0)
    cuts = []
    for shares in (other, best):
        classes = shares.argmax(axis=1)
        mixing = Mixing.of(graph, classes, reachable, shares.shape[1])
        cuts.append((mixing, agreement(poisson.scores, classes, weight)))
    (mixing, fit), (best_mixing, best_fit) = cuts
    return mixing.beats(best_mixing, fit, best_fit)
