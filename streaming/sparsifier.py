"""The incremental spectral sparsifier: pure functions from state and edges to state.

A *record* is a stored edge ``(u, v, weight, keep_probability)``: one independent coin per edge,
weight ``weight / keep_probability`` in the sparsifier, hence unbiased (ALGORITHMS B.6). Records
arrive scored by the last resistance embedding, without a solve (B.5); when the buffer reaches its
cap they are resparsified: a new embedding, ``p' = min(p, ...)``, one more coin. No files and no
clock in here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from solvers.graph import Graph
from solvers.laplacian.parallel import Parallel
from streaming.blocks import EdgeBlock
from streaming.kernels.sampling import degree_variance, sample_arrivals
from streaming.records import Records, SparsifierSettings, SparsifierState
from streaming.thinning import Survivors, Thinning, packed, thin

BUFFER_FACTOR = 3.0
"""The buffer may grow to this multiple of what the last resparsification kept."""

EVENED_OUT = 0.8
"""What dependent coins leave of a degree's fluctuation, where arrivals were thrown independently:
of 30 runs of ``python -m tests.benchmarks.quality --quick`` one needed .78, the others .67 at most.
"""

THIN_FACTOR = 1.1
"""A snapshot is thinned when the buffer holds this multiple of what is to be expected."""


def sampling_constant(settings: SparsifierSettings, n_nodes: int) -> float:
    """Copies per unit of leverage that ``epsilon`` asks for: ``ln(n) / epsilon^2`` (B.6)."""
    return math.log(max(settings.expected_nodes, n_nodes, 2)) / settings.epsilon**2


def expected_size(settings: SparsifierSettings, n_nodes: int) -> float:
    """Upper estimate of the records kept: slack times constant times the sum of leverages (B3)."""
    size = settings.oversampling * sampling_constant(settings, n_nodes) * max(n_nodes, 1)
    return size if settings.max_edges is None else min(size, float(settings.max_edges))


def buffer_cap(state: SparsifierState, settings: SparsifierSettings) -> float:
    """Number of records at which the buffer is resparsified: O(n log n), whatever has passed."""
    cap = BUFFER_FACTOR * max(expected_size(settings, state.n_nodes), state.n_kept_last)
    return cap if settings.buffer_edges is None else min(cap, float(settings.buffer_edges))


def is_full(state: SparsifierState, settings: SparsifierSettings) -> bool:
    """Tell whether the buffer has reached its cap."""
    return state.n_records > buffer_cap(state, settings)


def score(
    state: SparsifierState, settings: SparsifierSettings, block: EdgeBlock, block_number: int
) -> Records:
    """Records of one arriving block that win their coin (B13).

    Reads ``state`` only, so that the blocks of a group may be scored at the same time.
    """
    size = block.u.size
    kept = Records.uninitialized(size)
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        n_kept = sample_arrivals(
            block.u,
            block.v,
            block.weight,
            *state.cards.views,
            state.cards.squared_scale,
            settings.oversampling * _present_constant(state, settings),
            np.uint64(settings.seed),
            np.uint64(2 * block_number),
            kept.u,
            kept.v,
            kept.weight,
            kept.keep_probability,
            kept.key,
        )
    return kept if n_kept == size else kept.part(0, n_kept).copy()


def absorb(
    state: SparsifierState,
    settings: SparsifierSettings,
    blocks: Sequence[EdgeBlock],
    scored: Sequence[Records],
    *,
    n_nodes: int,
) -> SparsifierState:
    """State after a group of blocks, all scored against the embedding of ``state``.

    Parameters
    ----------
    state, settings
        As they were when ``score`` was called.
    blocks : sequence of EdgeBlock
        The group, in order; the first one has the number ``state.n_blocks``.
    scored : sequence of Records
        ``score`` of each block.
    n_nodes : int
        Nodes known after the group.
    """
    new_records = tuple(records for records in scored if records.n_records)
    tossed = any(bool(np.any(records.keep_probability < 1.0)) for records in new_records) or any(
        records.n_records < block.u.size for records, block in zip(scored, blocks, strict=True)
    )
    constant = _present_constant(state, settings)
    return replace(
        state,
        chunks=(*state.chunks, *new_records),
        n_nodes=max(state.n_nodes, n_nodes),
        n_blocks=state.n_blocks + len(blocks),
        n_edges=state.n_edges + sum(block.n_rows for block in blocks),
        n_self_loops=state.n_self_loops + sum(block.n_self_loops for block in blocks),
        smallest_constant=min(state.smallest_constant, constant)
        if tossed
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
    The old buffer is let go part by part when nobody else holds ``state``.
    """
    thinning = _thinning(state, settings, cancelled, parallel)
    if thinning is None:
        return replace(
            state,
            n_kept_last=state.n_records,
            n_failed_embeddings=state.n_failed_embeddings + 1,
        )
    chunks = state.chunks
    state = replace(_after(state, settings, thinning), chunks=())
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

    The stream goes on from ``state``, so publishing changes nothing. The records are not copied
    but selected from those of ``state``, chunk by chunk, whenever they are asked for.
    """
    target = state.n_kept_last or 0.5 * expected_size(settings, state.n_nodes)
    bound = math.inf if settings.max_edges is None else settings.max_edges
    if state.n_records <= min(THIN_FACTOR * target, bound):
        return state
    thinning = _thinning(state, settings, cancelled, parallel)
    if thinning is None:
        return replace(state, n_failed_embeddings=state.n_failed_embeddings + 1)
    survivors = Survivors(chunks=state.chunks, lowered=thinning.lowered)
    return replace(_after(state, settings, thinning), chunks=survivors)


def sparsifier_graph(state: SparsifierState) -> Graph:
    """Sparsifier as a graph: parallel records summed, each ``weight / keep_probability`` (B14)."""
    return Graph.from_records(state.chunks, n_nodes=state.n_nodes)


def expected_epsilon(state: SparsifierState, settings: SparsifierSettings) -> float:
    """Spectral error to expect from what was kept (B10').

    The larger of ``2 / sqrt(c)``, with c the smallest constant any record saw, and
    ``sqrt(2 ln n * v)``, with v the largest relative variance of a node's weighted degree, which is
    ``sqrt(2 ln n / dmin)`` where all keep-probabilities are small; dependent coins take the part
    ``EVENED_OUT`` of it. Zero while every edge is kept.
    """
    if math.isinf(state.smallest_constant):
        return 0.0
    degree = np.zeros(state.n_nodes)
    variance = np.zeros(state.n_nodes)
    for chunk in state.chunks:
        degree_variance(chunk.u, chunk.v, chunk.weight, chunk.keep_probability, degree, variance)
    touched = degree > 0.0
    relative = variance[touched] / degree[touched] ** 2
    spread = float(relative.max(initial=0.0))
    fluctuation = math.sqrt(2.0 * math.log(max(state.n_nodes, 2)) * spread)
    if settings.coins == "dependent":
        fluctuation *= EVENED_OUT
    return max(2.0 / math.sqrt(settings.oversampling * state.smallest_constant), fluctuation)


def _present_constant(state: SparsifierState, settings: SparsifierSettings) -> float:
    """Constant for the next edges: what epsilon asks, unless ``max_edges`` has lowered it."""
    return min(state.constant, sampling_constant(settings, state.n_nodes))


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
        constant=_present_constant(state, settings),
        coin_stream=2 * state.n_resparsifications + 1,
        cancelled=cancelled,
        parallel=parallel,
    )


def _after(
    state: SparsifierState, settings: SparsifierSettings, thinning: Thinning
) -> SparsifierState:
    """Counters and embedding after a resparsification; the records are still those before."""
    dropped = thinning.n_survivors < state.n_records
    capped = thinning.constant < _present_constant(state, settings)
    return replace(
        state,
        cards=thinning.cards,
        n_resparsifications=state.n_resparsifications + 1,
        n_kept_last=thinning.n_survivors,
        constant=thinning.constant if capped else state.constant,
        smallest_constant=min(state.smallest_constant, thinning.constant)
        if dropped
        else state.smallest_constant,
    )
