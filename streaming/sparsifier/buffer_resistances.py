"""Resistances between the nodes of a buffer, on cards: bounds or an embedding, whichever serves.

- *Bounds.* ``R_uv <= r_u + r_v`` with ``r_u = s_u / d_u``, s_u not much more than 1: the sum of the
  probabilities of a random walk's return to u in a few steps, the last one divided by the spectral
  gap (see `ResistanceSystem.local_bounds`). Tight where nodes have many edges and the gap is not
  small; no solve and hardly any noise.
- *Clusters.* Where the graph is made of small parts, their exact resistances bound those in the
  whole, and edges between parts stay (see `cluster_resistances`).
- *Embedding.* Else the vectors of an embedding tell the rest beyond degrees.

All are made from a *coarse* sample of the buffer, a sparsifier of it by the cards before, at a cost
of O(n log n) whatever it holds. Degrees, and resistances inside clusters, are of the whole buffer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from peewit.solvers.arrays import (
    AnyArray,
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    UInt32Array,
)
from peewit.solvers.laplacian.effective_resistance import ResistanceSystem
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status
from peewit.streaming.kernels.coins import choose_coarse, stale_leverages
from peewit.streaming.sparsifier.cluster_resistances import MOST_TOGETHER, bounds_inside
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierSettings

EMBEDDING_RTOL = 0.1
"""Relative error of the projected term allowed in every direction, the smallest cut's included."""

COARSE_CONSTANT = 16.0
"""Copies per unit of leverage in the sample that is embedded."""

MOST_GROWTH = 8.0
"""Most that a leverage is taken to have fallen by since the last embedding, as a factor."""

MOST_EXCESS = 0.6
"""Bounds serve while they keep at most this share more records than degrees alone would."""

MOST_CLUSTER_EXCESS = 0.25
"""The same for bounds of clusters, whose alternative is an embedding, which costs more."""

LEAST_NODES = 16 * MOST_TOGETHER
"""Clusters are tried in graphs of so many nodes; smaller ones are embedded in no time."""

CLUSTER_LOOKS = (3, 0.6), (3, 0.2)
"""Further rounds of label propagation, and the excess up to which the clusters then look promising:
larger at first, as some are not whole yet, smaller at last, as bounds inside add to it."""

_COARSE_STREAM = 2**64 - 2

_Sample: TypeAlias = tuple[Int32Array, Int32Array, Float32Array, Float32Array, UInt32Array]
"""Ends, conductances in the sample, conductances in the buffer, keys."""


def counted_resistances(
    chunks: Sequence[Records],
    on_forest: Sequence[BoolArray],
    cards: NodeCards,
    degree: FloatArray,
    settings: SparsifierSettings,
    constant: float,
    factor: float,
    *,
    was_struck: bool,
    embeds: bool = False,
    cancelled: Callable[[], bool] | None,
    parallel: Parallel,
) -> NodeCards | None:
    """Cards of the buffer; None when the solves did not converge.

    Bounds are tried on half a sample while they served the last time. The very first time that
    sample is uniform, forest included, as no leverage is known. Where bounds do not serve, it is
    embedded, and the sample that counts is drawn by that embedding: the first may be wrong where
    few edges hold the graph together, but never by so much that the second has none of them. There
    is no second where the first holds every record.

    Where records ``was_struck`` since ``cards``, these and the probabilities tell less than what is
    due, and the first sample is uniform, too. With ``embeds`` the cards have vectors for certain,
    and those given, which may be bounds, are of this buffer.
    """
    make = partial(
        _cards_of,
        chunks,
        on_forest,
        degree=degree,
        settings=settings,
        copies=settings.oversampling * constant,
        factor=factor,
        cancelled=cancelled,
        parallel=parallel,
    )
    # leverages have fallen since the last cards, about as much as degrees have grown
    total = float(degree.sum())
    growth = min(max(total / cards.total_degree, 1.0), MOST_GROWTH) if cards.total_degree else 1.0
    fine = partial(
        _coarse,
        settings=settings,
        constant=constant,
        was_struck=was_struck,
        coarse_constant=COARSE_CONSTANT / (factor * growth),
    )
    if embeds:
        return make(partial(fine, cards=cards), tries_bounds=False, tries_clusters=False)
    if cards.has_vectors and not was_struck:
        return make(partial(fine, cards=cards))
    half = 0.5 * COARSE_CONSTANT  # enough to find the spectral gap
    n_records = sum(chunk.n_records for chunk in chunks)
    uniform = half * degree.size / max(n_records, 1)
    knows_none = was_struck or cards.n_nodes == 0
    if was_struck or (knows_none and uniform < 1.0):
        first = make(partial(_uniform, settings=settings, chance=min(uniform, 1.0)))
    else:
        # most records have met a coin and count 1 / copies: then this many are half a sample
        enough = half * degree.size * settings.oversampling * constant / max(n_records, 1)
        rough = partial(fine, cards=cards, coarse_constant=min(half / (factor * growth), enough))
        first = make(rough)
    is_whole = knows_none and uniform >= 1.0
    if first is None or not first.has_vectors or is_whole:
        return first
    choose = partial(fine, cards=first, coarse_constant=COARSE_CONSTANT / factor)
    return make(choose, tries_clusters=False)


def _cards_of(
    chunks: Sequence[Records],
    on_forest: Sequence[BoolArray],
    choose: Callable[[Records, BoolArray], _Sample],
    *,
    degree: FloatArray,
    settings: SparsifierSettings,
    copies: float,
    factor: float,
    cancelled: Callable[[], bool] | None,
    parallel: Parallel,
    tries_bounds: bool = True,
    tries_clusters: bool = True,
) -> NodeCards | None:
    """Cards by the sample that ``choose`` makes of every chunk: bounds if they serve."""
    everything = range(len(chunks))
    parts = list(parallel(lambda number: choose(chunks[number], on_forest[number]), everything))
    u, v, conductance, full, key = _concatenate(parts)
    system = ResistanceSystem(
        u,
        v,
        conductance,
        key,
        n_nodes=degree.size,
        seed=settings.seed,
        ridge=settings.ridge,
        cancelled=cancelled,
        parallel=parallel,
    )
    total = float(degree.sum())
    inverse = np.divide(1.0, degree + settings.ridge, out=np.zeros_like(degree), where=degree > 0)
    local = (factor * inverse).astype(np.float32)
    n_kept = partial(_n_kept, u, v, conductance, full, copies)
    fewest = n_kept(local, system.component)
    of_bounds = partial(NodeCards.of_bounds, total_degree=total)
    returns = system.local_bounds() if tries_bounds and settings.ridge == 0.0 else None
    if returns is not None:
        bounds = local + (inverse * (returns - 1.0)).astype(np.float32)
        if n_kept(bounds, system.component) <= (1.0 + MOST_EXCESS) * fewest:
            return of_bounds(bounds, system.component)
    if tries_clusters and degree.size >= LEAST_NODES:
        cluster = _promising_clusters(system, partial(n_kept, local), fewest)
        if cluster is not None:
            bounds = bounds_inside(chunks, cluster, inverse, factor, parallel=parallel)
            most = (1.0 + MOST_CLUSTER_EXCESS) * fewest
            if settings.max_edges is not None:  # what lies between clusters stays, whatever it says
                most = min(most, settings.max_edges)
            if n_kept(bounds, cluster) <= most:
                return of_bounds(bounds, cluster)
    del u, v, conductance, full, key, n_kept
    embedding = system.embedding(n_probes=settings.n_probes, rtol=EMBEDDING_RTOL)
    if embedding.status is not Status.CONVERGED:
        return None
    # what one record's degrees tell is told by the whole buffer, not by the sample
    return NodeCards.of_embedding(embedding, local_resistance=local, total_degree=total)


def _promising_clusters(
    system: ResistanceSystem, n_kept: Callable[[Int32Array], float], fewest: float
) -> Int32Array | None:
    """Clusters of few nodes; None where what degrees keep inside, and all between, is too many."""
    cluster = None
    for n_rounds, excess in CLUSTER_LOOKS:
        cluster = system.clusters(MOST_TOGETHER, n_rounds=n_rounds, start=cluster)
        if n_kept(cluster) > (1.0 + excess) * fewest:
            return None
    return cluster


def _concatenate(parts: list[_Sample]) -> list[AnyArray]:
    """Columns of all parts, each let go once it is joined."""
    columns = [[part[column] for part in parts] for column in range(len(parts[0]))]
    parts.clear()
    joined = []
    while columns:
        joined.append(np.concatenate(columns.pop(0)))
    return joined


def _n_kept(
    u: Int32Array,
    v: Int32Array,
    conductance: Float32Array,
    full: Float32Array,
    copies: float,
    resistance: Float32Array,
    component: Int32Array,
) -> float:
    """Records of the buffer that local resistances keep, by a sample of them.

    A record of conductance ``full`` has ``conductance`` in the sample. Between components all are
    kept.
    """
    share = resistance[u]
    share += resistance[v]
    share *= full
    share *= np.float32(copies)
    np.minimum(share, 1.0, out=share)
    share[component[u] != component[v]] = 1.0
    share *= conductance
    share /= full
    return float(share.sum(dtype=np.float64))


def _uniform(
    chunk: Records, on_forest: BoolArray, *, settings: SparsifierSettings, chance: float
) -> _Sample:
    """Uniform sample of one chunk, its forest included."""
    leverage = np.full(chunk.n_records, chance, np.float32)
    return _sample(chunk, leverage, on_forest, settings, constant=1.0)


def _coarse(
    chunk: Records,
    on_forest: BoolArray,
    *,
    cards: NodeCards,
    settings: SparsifierSettings,
    constant: float,
    was_struck: bool,
    coarse_constant: float,
) -> _Sample:
    """Sparsifier of one chunk with ``coarse_constant`` copies per unit of leverage by ``cards``."""
    leverage = np.empty(chunk.n_records, np.float32)
    copies = settings.oversampling * constant
    views = *cards.views, cards.squared_scale
    stale_leverages(*chunk.columns[:4], *views, copies, was_struck, leverage)
    return _sample(chunk, leverage, on_forest, settings, constant=coarse_constant)


def _sample(
    chunk: Records,
    leverage: Float32Array,
    on_forest: BoolArray,
    settings: SparsifierSettings,
    *,
    constant: float,
) -> _Sample:
    row = np.empty(chunk.n_records, np.int32)
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        n_chosen = choose_coarse(
            chunk.weight,
            chunk.keep_probability,
            leverage,
            chunk.key,
            on_forest,
            constant,
            np.uint64(settings.seed),
            np.uint64(_COARSE_STREAM),
            row,
            leverage,
        )
    chosen = row[:n_chosen]
    full = chunk.weight[chosen] / chunk.keep_probability[chosen]
    return chunk.u[chosen], chunk.v[chosen], leverage[:n_chosen].copy(), full, chunk.key[chosen]
