"""The incremental spectral sparsifier: pure functions from state and edges to state.

A *record* is a stored edge ``(u, v, weight, keep_probability)``. It has one coin, and weighs
``weight / keep_probability`` in the sparsifier, hence is unbiased (section B.6); with dependent
coins nearly so (`kernels.dependent_rounding`). Edges arrive scored by the last resistance
embedding, without a solve (section B.5). A buffer at its cap is resparsified: a new embedding,
``p' = min(p, ...)``, one more coin. No files and no clock in here.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from peewit.solvers.arrays import Float32Array, frozen
from peewit.solvers.graph import Graph
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.kernels.coins import degree_variance
from peewit.streaming.sparsifier.arrivals import ARRIVAL_LANES, score
from peewit.streaming.sparsifier.degrees import is_whole, sum_degrees
from peewit.streaming.sparsifier.parallel_records import merged_records, n_merged
from peewit.streaming.sparsifier.sample_size import (
    expected_size,
    local_factor,
    present_constant,
    sampling_constant,
)
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.survivor_estimate import survivor_share
from peewit.streaming.sparsifier.thinning import Survivors, Thinning, packed, thin

BUFFER_FACTOR = 8.0
"""Multiple of what the last resparsification kept to which the buffer may grow: each one then takes
the stream seven times as far, and arrivals are thrown for more than they will need."""

LEANING_FACTOR = 2.0
"""Multiple of what the last resparsification kept up to which arriving coins lean: beyond it the
next one has room to even out degrees (B22)."""

BUDGET_FACTOR = 2.0
"""Multiple of the budget to which the buffer may grow where no epsilon is asked."""

THIN_FACTOR = 1.1
"""A snapshot is thinned where the buffer holds this multiple of what is expected."""

WORTHWHILE_SHARE = 2.0 / 3.0
"""A snapshot is not thinned where degrees alone would keep more than this of its edges (B20)."""


def buffer_cap(state: SparsifierState, settings: SparsifierSettings) -> float:
    """Number of records at which the buffer is resparsified: O(n log n), whatever has passed.

    Without an epsilon it is twice the budget, and as much more as ``room`` asks.
    """
    published = expected_size(settings, state.n_nodes) / settings.room
    if settings.epsilon is None:
        cap = (settings.room - 1.0 + BUDGET_FACTOR) * published
    else:
        cap = BUFFER_FACTOR * max(published, state.n_kept_last)
    return cap if settings.buffer_edges is None else min(cap, float(settings.buffer_edges))


def is_full(state: SparsifierState, settings: SparsifierSettings) -> bool:
    """Whether the buffer has reached its cap."""
    return state.n_records > buffer_cap(state, settings)


def absorb(
    state: SparsifierState,
    settings: SparsifierSettings,
    blocks: Iterable[EdgeBlock],
    *,
    n_nodes: int,
    run: str = "",
    parallel: Parallel = map,
) -> SparsifierState:
    """State after a group of blocks, all scored by the cards of ``state``.

    ``n_nodes`` are known after the group; a smaller number stands for those of ``state``. ``run``
    names the run that the records belong to, where runs are counted.
    """
    if state.n_records > state.n_leaning > 0:
        # what is published as it is must be even by itself
        goes_on = _keeps_most(state, settings)
        n_leaning = int(LEANING_FACTOR * state.n_records) if goes_on else 0
        state = replace(state, n_leaning=n_leaning)
    arrivals = score(state, settings, blocks, parallel=parallel)
    constant = present_constant(state, settings)
    runs = state.runs
    if runs is not None:
        counts = [records.n_records for records in arrivals.records]
        runs = runs.grown(run, counts, arrivals.buckets)
    return replace(
        state,
        chunks=(*state.chunks, *(records for records in arrivals.records if records.n_records)),
        surplus=arrivals.surplus,
        degree=sum_degrees(state.degree, arrivals.degree),
        runs=runs,
        n_nodes=max(state.n_nodes, n_nodes),
        n_blocks=state.n_blocks + len(arrivals.records),
        n_rows_seen=state.n_rows_seen + arrivals.n_edges,
        left_out=state.left_out + arrivals.left_out,
        smallest_constant=min(state.smallest_constant, constant)
        if arrivals.was_tossed
        else state.smallest_constant,
    )


def resparsify(
    state: SparsifierState,
    settings: SparsifierSettings,
    *,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> SparsifierState:
    """State with a new embedding and every record thinned to ``p' = min(p, c * leverage)`` (B14).

    A maximum spanning forest keeps its probabilities, so the components of the graph never change.
    When the embedding does not converge every record stays and ``n_failed_embeddings`` counts it.
    The old buffer is freed part by part when nobody else holds ``state``.

    Without an epsilon, records of one pair merge before any coin is thrown. Not where runs are
    counted: a record must be able to leave with the file that brought it.
    """
    if settings.epsilon is None and is_whole(state) and state.runs is None:
        chunks = state.chunks
        state = replace(state, chunks=())
        last_block = state.n_blocks - 1
        merged = merged_records(chunks, n_nodes=state.n_nodes, last_block=last_block)
        state = replace(state, chunks=merged)
        del chunks, merged
        if state.n_records <= expected_size(settings, state.n_nodes):
            return state
    thinning = _thinning(state, settings, cancelled, parallel)
    if thinning is None:
        return replace(
            state, n_kept_last=state.n_records, n_failed_embeddings=state.n_failed_embeddings + 1
        )
    chunks = state.chunks
    runs = None if state.runs is None else state.runs.kept(thinning.lowered)
    state = replace(_after(state, settings, thinning), chunks=(), runs=runs)
    survivors = packed(chunks, thinning.lowered)
    del chunks, thinning
    return replace(state, chunks=tuple(survivors))


def thinned(
    state: SparsifierState,
    settings: SparsifierSettings,
    *,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> SparsifierState:
    """State to publish: resparsified when the buffer holds noticeably more than it has to.

    It stays as it is, without an embedding, where that would hardly drop an edge: on graphs of low
    degree, or of parallel records, which a snapshot merges. Keeping more only makes it more exact.
    Without an epsilon it stays while its edges are within the budget.

    The stream goes on from ``state``, so publishing changes nothing. Records are not copied but
    selected from those of ``state``, chunk by chunk, whenever they are read.
    """
    if _is_fit(state, settings):
        return state
    thinning = _thinning(state, settings, cancelled, parallel)
    if thinning is None:
        return replace(state, n_failed_embeddings=state.n_failed_embeddings + 1)
    survivors = Survivors(chunks=state.chunks, lowered=thinning.lowered)
    return replace(_after(state, settings, thinning), chunks=survivors)


def _is_fit(state: SparsifierState, settings: SparsifierSettings) -> bool:
    """Whether a state may be published as it is."""
    bound = math.inf if settings.max_edges is None else settings.max_edges
    if settings.epsilon is None:
        return state.n_records <= bound or (
            is_whole(state) and n_merged(state.chunks, n_nodes=state.n_nodes) <= bound
        )
    target = state.n_kept_last or 0.5 * expected_size(settings, state.n_nodes)
    if state.n_records <= min(THIN_FACTOR * target, bound):
        return True
    return state.n_records <= bound and _keeps_most(state, settings)


def sparsifier_graph(state: SparsifierState) -> Graph:
    """Sparsifier as a graph: parallel records summed, each ``weight / keep_probability`` (B14)."""
    return Graph.from_records(state.chunks, n_nodes=state.n_nodes)


def expected_epsilon(state: SparsifierState, settings: SparsifierSettings) -> float:
    """Spectral error to expect from what was kept; zero while every edge is.

    Let v be the largest relative variance of a node's weighted degree, were its coins independent.
    Coins that even out degrees err by ``2 sqrt(v)`` (B19), independent ones by
    ``sqrt(2 ln n * v)``, as those of arrivals that no resparsification has evened out. Where
    records were struck, what was even is the sum of two parts; the square of the error grows by
    ``2 ln n * v_s v / (v_s + v)``, v_s the variance of what was struck (B23). For independent
    coins, and where ``max_edges`` has lowered the constant, no less than ``2 / sqrt(c)``, c the
    smallest constant any record saw (B10').
    """
    if math.isinf(state.smallest_constant):
        return 0.0
    degree = np.zeros(state.n_nodes)
    variance = np.zeros(state.n_nodes)
    for chunk in state.chunks:
        degree_variance(*chunk.columns[:4], degree, variance)
    is_even = settings.coins == "dependent" and not state.is_uneven
    uneven_factor = 2.0 * math.log(max(state.n_nodes, 2))
    squared = (4.0 if is_even else uneven_factor) * variance
    if is_even and state.struck_variance is not None:
        struck = np.zeros(state.n_nodes)
        struck[: state.struck_variance.size] = state.struck_variance
        both = struck + variance
        squared += uneven_factor * np.divide(struck * variance, both, out=both, where=both > 0.0)
    touched = degree > 0.0
    fluctuation = math.sqrt(float((squared[touched] / degree[touched] ** 2).max(initial=0.0)))
    is_lowered = math.isfinite(state.constant)
    if settings.epsilon is None:  # what degrees tell was counted for the budget
        is_lowered = state.smallest_constant < sampling_constant(settings, state.n_nodes)
    if is_even and not is_lowered:
        return fluctuation
    return max(2.0 / math.sqrt(settings.oversampling * state.smallest_constant), fluctuation)


def _keeps_most(state: SparsifierState, settings: SparsifierSettings) -> bool:
    """Whether degrees alone would keep most edges in a resparsification."""
    copies = settings.oversampling * present_constant(state, settings)
    copies *= local_factor(settings, state.n_nodes)
    return survivor_share(state.chunks, n_nodes=state.n_nodes, copies=copies) > WORTHWHILE_SHARE


def _thinning(
    state: SparsifierState,
    settings: SparsifierSettings,
    cancelled: Callable[[], bool] | None,
    parallel: Parallel,
) -> Thinning | None:
    return thin(
        state.chunks,
        state.cards,
        settings,
        n_nodes=state.n_nodes,
        constant=present_constant(state, settings),
        coin_stream=2 * state.n_resparsifications + 1,
        most=state.constant if settings.epsilon is None else None,
        arrived=state.degree,
        is_whole=is_whole(state),
        was_struck=state.n_struck_since_cards > 0,
        surplus=None if state.degree is not None else _surplus_weight(state, settings),
        cancelled=cancelled,
        parallel=parallel,
    )


def _surplus_weight(state: SparsifierState, settings: SparsifierSettings) -> Float32Array | None:
    """(n_embedded,) surplus of all lanes in units of weight, so that other cards can count it."""
    if state.surplus is None:
        return None
    copies = np.float32(settings.oversampling * present_constant(state, settings))
    shares = copies * state.cards.local_resistance  # of a unit of weight
    weight = np.zeros_like(shares)
    np.divide(state.surplus.sum(axis=0), shares, out=weight, where=shares > 0.0)
    return weight


def _in_first_lane(surplus: Float32Array) -> Float32Array:
    """Surpluses of arriving coins, all in one lane."""
    lanes = np.zeros((ARRIVAL_LANES, surplus.size), np.float32)
    lanes[0] = surplus
    return frozen(lanes)


def _after(
    state: SparsifierState, settings: SparsifierSettings, thinning: Thinning
) -> SparsifierState:
    """State with the counters and embedding of a resparsification, and the records before it."""
    dropped = thinning.n_survivors < state.n_records
    capped = settings.epsilon is None or thinning.constant < present_constant(state, settings)
    return replace(
        state,
        cards=thinning.cards,
        degree=thinning.arrived,
        surplus=None if thinning.surplus is None else _in_first_lane(thinning.surplus),
        n_resparsifications=state.n_resparsifications + 1,
        n_struck_since_cards=0,
        lost=None,
        n_kept_last=int(thinning.n_survivors / settings.room),
        n_leaning=0 if thinning.surplus is None else int(LEANING_FACTOR * thinning.n_survivors),
        constant=thinning.constant if capped else state.constant,
        smallest_constant=min(state.smallest_constant, thinning.constant)
        if dropped
        else state.smallest_constant,
    )
