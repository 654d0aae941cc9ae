"""Resistances between the nodes of a buffer, on cards: bounds or an embedding, whichever serves.

*Bounds.* ``R_uv <= r_u + r_v`` with ``r_u = s_u / d_u`` and s_u not much more than 1: the
probabilities of returning to u in a few steps of a random walk, the last one divided by the
spectral gap (see `ResistanceSystem.local_bounds`). Where nodes have many edges and the gap is not
small this is tight; it costs no solve and has hardly any noise.

*Embedding.* Else the vectors of an embedding tell the rest beyond degrees.

Both are made from a *coarse* sample of the buffer (a sparsifier of it, by the cards before), so
their cost is O(n log n) whatever the buffer holds; degrees are those of the whole buffer.
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
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierSettings

EMBEDDING_RTOL = 0.1
"""Relative error of the projected term allowed in every direction, the smallest cut's included."""

COARSE_CONSTANT = 16.0
"""Copies per unit of leverage in the sample that is embedded."""

MOST_GROWTH = 8.0
"""A leverage of the last embedding is taken to have fallen by at most this factor since."""

MOST_EXCESS = 0.6
"""Bounds serve while they keep at most this share more records than degrees alone would."""

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
    cancelled: Callable[[], bool] | None,
    parallel: Parallel,
) -> NodeCards | None:
    """Cards of the buffer; None when the solves did not converge.

    Bounds are tried while they served the last time, with half a sample: the first time a uniform
    one, forest included, as no leverage is known. Where they do not serve, that sample is embedded,
    and with what it says the sample is drawn that counts: the first may be wrong where few edges
    hold the graph together, but never by so much that the second has none of them.
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
        coarse_constant=COARSE_CONSTANT / (factor * growth),
    )
    if cards.has_vectors:
        return make(partial(fine, cards=cards))
    half = 0.5 * COARSE_CONSTANT  # enough to find the spectral gap
    n_records = sum(chunk.n_records for chunk in chunks)
    uniform = half * degree.size / max(n_records, 1)
    if cards.n_nodes == 0 and uniform < 1.0:
        first = make(partial(_uniform, settings=settings, chance=uniform))
    else:
        # most records have met a coin and count 1 / copies: then this many are half a sample
        enough = half * degree.size * settings.oversampling * constant / max(n_records, 1)
        rough = partial(fine, cards=cards, coarse_constant=min(half / (factor * growth), enough))
        first = make(rough)
    if first is None or not first.has_vectors:
        return first
    return make(partial(fine, cards=first, coarse_constant=COARSE_CONSTANT / factor))


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
) -> NodeCards | None:
    """Cards by the sample that ``choose`` makes of every chunk."""
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
    inverse = inverse.astype(np.float32)
    local = inverse * np.float32(factor)
    returns = system.local_bounds() if settings.ridge == 0.0 else None
    if returns is not None:
        bounds = local + inverse * (returns - 1.0).astype(np.float32)
        if _excess(u, v, conductance, full, local, bounds, copies) <= MOST_EXCESS:
            return NodeCards.of_bounds(bounds, system.component, total_degree=total)
    del u, v, conductance, full, key
    embedding = system.embedding(n_probes=settings.n_probes, rtol=EMBEDDING_RTOL)
    if embedding.status is not Status.CONVERGED:
        return None
    # what one record's degrees tell is told by the whole buffer, not by the sample
    return NodeCards.of_embedding(embedding, local_resistance=local, total_degree=total)


def _concatenate(parts: list[_Sample]) -> list[AnyArray]:
    """Columns of all parts, each let go once it is joined."""
    columns = [[part[column] for part in parts] for column in range(len(parts[0]))]
    parts.clear()
    joined = []
    while columns:
        joined.append(np.concatenate(columns.pop(0)))
    return joined


def _excess(
    u: Int32Array,
    v: Int32Array,
    conductance: Float32Array,
    full: Float32Array,
    local: Float32Array,
    bounds: Float32Array,
    copies: float,
) -> float:
    """How many more records bounds keep than degrees alone would, by a sample of the records.

    A record of conductance ``full`` is in the sample with ``conductance``.
    """
    kept = []
    for resistance in (local, bounds):
        leverage = resistance[u]
        leverage += resistance[v]
        leverage *= full
        leverage *= np.float32(copies)
        np.minimum(leverage, 1.0, out=leverage)
        leverage *= conductance
        leverage /= full
        kept.append(float(leverage.sum(dtype=np.float64)))
    return kept[1] / kept[0] - 1.0 if kept[0] > 0.0 else 0.0


def _uniform(
    chunk: Records, on_forest: BoolArray, *, settings: SparsifierSettings, chance: float
) -> _Sample:
    """Ends, conductances and keys of a uniform sample of one chunk, its forest included."""
    leverage = np.full(chunk.n_records, chance, np.float32)
    return _sample(chunk, leverage, on_forest, settings, constant=1.0)


def _coarse(
    chunk: Records,
    on_forest: BoolArray,
    *,
    cards: NodeCards,
    settings: SparsifierSettings,
    constant: float,
    coarse_constant: float,
) -> _Sample:
    """Sparsifier of one chunk with ``coarse_constant`` copies per unit of leverage by ``cards``."""
    leverage = np.empty(chunk.n_records, np.float32)
    copies = settings.oversampling * constant
    stale_leverages(*chunk.columns[:4], *cards.views, cards.squared_scale, copies, leverage)
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
