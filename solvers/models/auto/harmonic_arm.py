"""Harmonic functions of classes, an arm of `auto` for graphs on which labels hide one another.

Decision: labels are held for all folds alike. Context: a system for each fold would need a
preconditioner and class columns of its own. Consequence: one system with a column for each group of
labels; a left-out label is predicted by the walks from it that end at another fold (K15).

Decision: the arm is made where the potential at a label is largely that of others (K14). Context:
elsewhere harmonic functions are flat and say what Poisson learning does. Consequence: most graphs
do not pay for them.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.multigrid.amended_multigrid import MAX_AMENDED
from peewit.solvers.laplacian.unsparsified_system import LEAST_PASSES, FullSystem
from peewit.solvers.models.auto.harmonic_cache import HarmonicCache
from peewit.solvers.models.auto.poisson_arm import Potentials, mean_degree
from peewit.solvers.models.auto.preparation import (
    AllEdges,
    HarmonicOfAllEdges,
    PreparedAuto,
    tolerance,
)
from peewit.solvers.models.auto.stacked_arm import StackedArm, share_arm
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.contract.refinable_model import PassesSpent
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.models.left_out.left_out_cache import in_parts
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.status import Status

LEAST_SCREENING: Final = 0.1
"""Least squared potential of all labels at a node, relative to that of a label at itself (K14):
about a third of it."""

_OF_CHANGE: Final = 5.0
"""Residual on large graphs after a changed label, relative to that of a first solve: few nodes are
near it."""

_HOLD: Final = 1e8
"""Shift that holds labels, in largest degrees."""

_NOT_CONVERGED: Final = (
    "harmonic functions of the labels did not converge within max_iter steps: they are left out of "
    "the arms; raise max_iter"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HarmonicOutcome:
    """The arm of harmonic functions, or why there is none."""

    arm: StackedArm | None
    stats: dict[str, float | str]  # ``screening`` (K14), and ``harmonic``: how they were made
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    rtol: float
    max_iter: int


def screening(poisson: Potentials) -> float:
    """How much of the potential at a label is that of others: s of (K14)."""
    groups, columns = poisson.groups, poisson.columns
    own = columns[groups.group, groups.labels.nodes].astype(np.float64).mean()
    if own <= 0:
        return 0.0
    return float(sum(np.square(column, dtype=np.float64).mean() for column in columns) / own**2)


def harmonic_arm(
    prepared: PreparedAuto, poisson: Potentials, watch: Watch, *, rtol: float, max_iter: int
) -> HarmonicOutcome:
    """The arm of harmonic functions, where it is worth its solve; raises `RunStopped`.

    It is left out if no label can be left out to judge it, or if residuals are blind to its errors.
    """
    groups, base, cache = poisson.groups, prepared.base, prepared.harmonic_cache
    if prepared.all_edges is not None and prepared.all_edges.harmonic is not None:
        cache = prepared.all_edges.harmonic.cache
    if cache is not None and not cache.serve(groups):
        cache = None
    solver, share = base.kernel.solver, screening(poisson) if cache is None else cache.screening
    is_blind = solver.eliminates or solver.is_blind
    stats: dict[str, float | str] = {"screening": share, "harmonic": "left out"}
    if share < LEAST_SCREENING or groups.n_folds == 0 or is_blind:
        prepared.harmonic_cache = None
        return HarmonicOutcome(arm=None, stats=stats)
    prepared.harmonic_cache, built = None, "anew"
    fine = tolerance(rtol, base.graph.n_nodes)
    if cache is not None:
        looser = _OF_CHANGE * fine if fine > rtol else rtol
        limits = _Limits(rtol=looser, max_iter=max_iter)
        cache, built = _amend(base, cache, groups.labels, watch, limits), "repeated"
    if cache is None:
        limits = _Limits(rtol=fine, max_iter=max_iter)
        cache, built = _anew(prepared, groups, share, watch, limits), "anew"
        if cache is not None and prepared.all_edges is not None and prepared.all_edges.walks:
            cache = _of_all_edges(prepared, prepared.all_edges, groups, cache, fine)
    if cache is None:
        stats["harmonic"] = "not converged"
        return HarmonicOutcome(arm=None, stats=stats, warnings=(_NOT_CONVERGED,))
    if cache.nbytes <= prepared.max_kept_bytes:
        prepared.harmonic_cache = cache
    shares = _normalize(cache.last_shares)
    shares[~poisson.task.reachable] = 1.0
    arm = share_arm(shares, cache.left_out_of(groups))
    return HarmonicOutcome(arm=arm, stats={**stats, "harmonic": built})


def _anew(
    prepared: PreparedAuto, groups: LabelGroups, share: float, watch: Watch, limits: _Limits
) -> HarmonicCache | None:
    """From the columns of all groups; None if they did not converge."""
    base, labels = prepared.base, groups.labels
    shares = np.zeros((base.graph.n_nodes, labels.n_classes), np.float32)
    beside = np.empty((groups.left_out_nodes.size, groups.n_groups), np.float32)
    rows, sums = _neighbor_means(base.graph, labels.nodes), groups.class_sums()
    for first in range(0, groups.n_groups, prepared.width):
        some = slice(first, min(first + prepared.width, groups.n_groups))
        values = (groups.group[:, None] == np.arange(groups.n_groups)[some]).astype(np.float32)
        x = _harmonic(base, labels.nodes, labels.nodes, values, watch, limits)
        if x is None:
            return None
        beside[: labels.n_labeled, some] = rows @ x
        beside[labels.n_labeled :, some] = x[groups.stand_ins]
        shares += x @ sums[:, some].T.astype(np.float32)
    return HarmonicCache(
        labels=labels,
        was_left_out=groups.left_out_folds >= 0,
        left_out=_left_out(beside, groups),
        shares=in_parts(_normalize(shares)),
        last=labels,
        last_shares=shares,
        screening=share,
    )


def _of_all_edges(
    prepared: PreparedAuto,
    all_edges: AllEdges,
    groups: LabelGroups,
    begun: HarmonicCache,
    rtol: float,
) -> HarmonicCache:
    """From the columns of all groups on all edges; raises `RunStopped` and `PassesSpent`.

    ``begun`` is that of the edges kept.
    """
    labels, passes, degree = groups.labels, all_edges.passes, all_edges.degrees.weight
    if passes.left <= LEAST_PASSES:
        raise PassesSpent
    held = np.zeros(prepared.graph.n_nodes, bool)
    held[labels.nodes] = True
    known = np.zeros((held.size, groups.n_groups))
    known[labels.nodes, groups.group] = 1.0
    start = begun.last_shares.astype(np.float64)
    start[held] = 0.0
    system = FullSystem(
        sparsifier=prepared.graph,
        scale=1.0,
        shift=np.zeros(held.size),
        zero_mean=False,
        rhs=np.zeros_like(known),
        known=known,
        held=held,
        start=start,
        rtol=rtol,
        parallel=prepared.base.parallel,
    )
    solution = passes.solved(system, later=1)  # for the means of neighbors
    x = solution.x
    along = (degree[:, None] * x - passes.times(x))[labels.nodes]
    of_labels = degree[labels.nodes, None]
    np.divide(along, of_labels, out=along, where=of_labels > 0)
    shares = (x @ groups.class_sums().T).astype(np.float32)
    beside = np.concatenate([along, x[groups.stand_ins]]).astype(np.float32)
    cache = replace(
        begun,
        left_out=_left_out(beside, groups),
        shares=in_parts(_normalize(shares)),
        last_shares=shares,
    )
    all_edges.harmonic = HarmonicOfAllEdges(system, solution, cache)
    return cache


def _left_out(beside: Float32Array, groups: LabelGroups) -> FloatArray:
    """(n_left_out, n_classes) shares of the walks that end at another fold, or label (K15)."""
    folds = groups.left_out_folds
    left_out = np.zeros((folds.size, groups.labels.n_classes))
    ends = np.maximum(beside, 0.0)
    if groups.is_single:
        ends[np.arange(groups.n_groups), groups.group] = 0.0
        left_out = ends @ groups.class_sums().T
    for fold in range(0 if groups.is_single else groups.n_folds):
        is_out = folds == fold
        left_out[is_out] = ends[is_out] @ groups.class_sums(groups.fold != fold).T  # (K15)
    return _normalize(left_out).astype(np.float64, copy=False)


def _amend(
    base: PreparedGraph, cache: HarmonicCache, labels: Labels, watch: Watch, limits: _Limits
) -> HarmonicCache | None:
    """The functions of nearly the same labels (K15); None if too many changed, or it failed."""
    before, graph = cache.last, base.graph
    same = np.intersect1d(before.nodes, labels.nodes, assume_unique=True)
    is_same = (
        before.classes[np.isin(before.nodes, same)] == labels.classes[np.isin(labels.nodes, same)]
    )
    came = np.setdiff1d(labels.nodes, same[is_same], assume_unique=True)
    went = np.setdiff1d(before.nodes, same, assume_unique=True)
    if came.size + went.size == 0:
        return cache
    if came.size + went.size > MAX_AMENDED:
        return None
    changed = np.concatenate([came, went])
    shares, targets = cache.last_shares, labels.targets().astype(np.float32)
    growth = targets[np.searchsorted(labels.nodes, came)] - shares[came]
    # a label that goes was held against the mean of its neighbors
    pull = _neighbor_means(graph, went) @ shares - shares[went]
    values = np.eye(changed.size, dtype=np.float32)
    values[came.size :] *= (graph.degree[went, None] / mean_degree(graph)).astype(np.float32)
    x = _harmonic(base, labels.nodes, changed, values, watch, limits)
    if x is None:
        return None
    amended = shares + x @ np.concatenate([growth, pull])  # h' of (K15)
    amended[labels.nodes] = targets
    return replace(cache, last=labels, last_shares=amended)


def _harmonic(
    base: PreparedGraph,
    held: Int64Array,
    nodes: Int64Array,
    values: Float32Array,
    watch: Watch,
    limits: _Limits,
) -> Float32Array | None:
    """(n_nodes, k) harmonic functions; None if they did not converge; raises `RunStopped`.

    Functions are 0 at ``held`` nodes. ``values``, (n_some, k), are the value at each of ``nodes``
    that is held, and the source at the others.
    """
    graph = base.graph
    is_held = np.zeros(graph.n_nodes, bool)
    is_held[held] = True
    at, own = nodes[is_held[nodes]], values[is_held[nodes]]
    degree = graph.degree / mean_degree(graph)
    right = _neighbor_means(graph, at).T @ (own * degree[at, None].astype(np.float32))
    right[nodes] += np.where(is_held[nodes, None], 0.0, values)
    right[held] = 0.0
    solver = base.solver(
        scale=1.0 / mean_degree(graph),
        shift=np.where(is_held, _HOLD * float(degree.max(initial=1.0)), 0.0),
        rtol=limits.rtol,
        max_iter=limits.max_iter,
        dtype=np.float32,
    )
    solution = base.solved(solver, right, None, watch)
    watch.check()
    if solution.status is not Status.CONVERGED:
        return None
    function: Float32Array = solution.x
    function[held] = 0.0
    function[at] = own
    return function


def _neighbor_means(graph: Graph, nodes: Int64Array) -> sp.csr_array:
    """(n_some, n_nodes) float32 matrix that takes the means of neighbors."""
    rows = graph.adjacency[nodes]
    degree = graph.degree[nodes]
    share = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    return (sp.diags_array(share) @ rows).tocsr().astype(np.float32)


def _normalize(shares: RealArray) -> RealArray:
    """Rows of sum 1; even ones where all are 0."""
    normalized = np.empty_like(shares)
    for rows in row_blocks(len(shares)):
        some = np.maximum(shares[rows], 0.0)
        total = some.sum(axis=1, keepdims=True)
        some[total[:, 0] <= 0] = 1.0
        normalized[rows] = some / some.sum(axis=1, keepdims=True)
    return normalized
