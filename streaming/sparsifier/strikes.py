"""Strikes: records leave the sparsifier when their edges are deleted from the graph.

The mean is right at once: who is deleted was chosen without sight of the coins. Two things are
worse than before. What stays was thrown for the resistances of a graph that had more edges; and
leaning coins had made the error of each node's degree that of about one record, as the sum of what
was struck and what stays, each of which errs by more (B23). Where a sparsifier comes apart, nothing
tells whether the graph has: the edges that would have kept it together may have been thrown away.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from peewit.solvers.arrays import BoolArray, Int32Array, frozen, frozen_all
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.kernels.coins import degree_variance
from peewit.streaming.kernels.edge_passes import join_ends
from peewit.streaming.kernels.pair_set import fill_pair_set, mark_pairs
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierState


def strike(
    state: SparsifierState, u: Int32Array, v: Int32Array, *, parallel: Parallel = map
) -> SparsifierState:
    """State without the records of some pairs of nodes.

    Parameters
    ----------
    state : SparsifierState
    u, v : (n_pairs,) int32
        Ends in any order, below ``state.n_nodes``; a pair may stand twice, or have no record.
    parallel : callable
        Runs independent tasks.
    """
    if not (u.size and state.chunks):
        return state
    is_touched = np.zeros(state.n_nodes, np.uint8)
    table = np.zeros(1 << (2 * u.size - 1).bit_length(), np.uint64)
    with np.errstate(over="ignore"):  # hashes count modulo 2^64
        fill_pair_set(u, v, table, is_touched)

    def mark(chunk: Records) -> BoolArray:
        is_struck = np.empty(chunk.n_records, bool)
        with np.errstate(over="ignore"):  # as above
            mark_pairs(chunk.u, chunk.v, table, is_touched, is_struck)
        return is_struck

    everything = range(len(state.chunks))
    return _without(state, list(parallel(lambda place: mark(state.chunks[place]), everything)))


def retract(state: SparsifierState, key: str) -> SparsifierState:
    """State without the records of a run."""
    if state.runs is None:
        raise ValueError("runs of the buffer must be counted to retract one, they are not")
    places, marks, first = state.runs.places(key), [], 0
    for chunk in state.chunks:
        is_struck = np.zeros(chunk.n_records, bool)
        is_struck[max(places.start - first, 0) : max(places.stop - first, 0)] = True
        marks.append(is_struck)
        first += chunk.n_records
    return _without(state, marks)


def _without(state: SparsifierState, marks: Sequence[BoolArray]) -> SparsifierState:
    """State without the records that are marked, chunk by chunk; others keep their memory."""
    counts = [int(np.count_nonzero(is_struck)) for is_struck in marks]
    if not any(counts):
        return state
    variance, degree = np.zeros(state.n_nodes), np.zeros(state.n_nodes)
    chunks: list[Records] = []
    gone: list[Records] = []
    for chunk, is_struck, count in zip(state.chunks, marks, counts, strict=True):
        if count == 0:
            chunks.append(chunk)
            continue
        gone.append(chunk.where(is_struck))
        degree_variance(*gone[-1].columns[:4], degree, variance)
        if count < chunk.n_records:
            chunks.append(chunk.where(~is_struck))
    # where every edge is kept, what comes apart does so in the graph, too
    n_split = 0 if is_whole(state) else _n_joins(chunks, gone, state.n_nodes)
    if state.struck_variance is not None:
        variance[: state.struck_variance.size] += state.struck_variance
    return replace(
        state,
        chunks=tuple(chunks),
        runs=None if state.runs is None else state.runs.kept([~is_struck for is_struck in marks]),
        struck_variance=frozen(variance.astype(np.float32)),
        degree=None if state.degree is None else frozen(state.degree - degree[: state.degree.size]),
        n_split=state.n_split + n_split,
        n_struck=state.n_struck + sum(counts),
        n_struck_since_cards=state.n_struck_since_cards + sum(counts),
    )


def _n_joins(kept: Sequence[Records], gone: Sequence[Records], n_nodes: int) -> int:
    """How many components of the records that are kept were one by those that are gone."""
    parent = np.arange(n_nodes, dtype=np.int32)

    def join(chunk: Records) -> int:
        u, v = frozen_all(chunk.u, chunk.v)
        return int(join_ends(u, v, parent))

    for chunk in kept:
        join(chunk)
    return sum(map(join, gone))
