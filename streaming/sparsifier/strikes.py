"""Strikes: records leave the sparsifier when their edges are deleted from the graph.

The mean stays right: edges are deleted without sight of the coins. Two things get worse. What stays
was thrown for the resistances of a graph with more edges. And leaning coins had kept the error of a
node's degree at that of about one record; now what was struck and what stays each err by more
(B23). Where a sparsifier falls apart, it is unknown whether the graph does: the edges that would
keep it together may have been thrown away.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from peewit.solvers.arrays import BoolArray, Int32Array, frozen, frozen_all
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.kernels.coins import degree_variance
from peewit.streaming.kernels.edge_passes import all_roots, join_ends
from peewit.streaming.kernels.pair_set import fill_pair_set, mark_joins, mark_pairs
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierState


def strike(
    state: SparsifierState, u: Int32Array, v: Int32Array, *, parallel: Parallel = map
) -> SparsifierState:
    """State without the records of some pairs of nodes.

    Ends stand in any order, below ``state.n_nodes``; a pair may occur twice, or have no record.
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
    return without_records(
        state, list(parallel(lambda place: mark(state.chunks[place]), everything))
    )


def strike_nodes(
    state: SparsifierState, nodes: Int32Array, *, parallel: Parallel = map
) -> SparsifierState:
    """State without the records that have one of ``nodes`` as an end."""
    is_erased = np.zeros(state.n_nodes, bool)
    is_erased[nodes] = True

    def mark(chunk: Records) -> BoolArray:
        return is_erased[chunk.u] | is_erased[chunk.v]

    places = range(len(state.chunks))
    marks = parallel(lambda place: mark(state.chunks[place]), places)
    return without_records(state, list(marks), is_erased)


def retract(state: SparsifierState, key: str) -> SparsifierState:
    """State without the records of a run.

    The variance of struck records stays as it is: coins lean in the order of arrival, so the
    degrees of a run are even by themselves, and so is what stays.
    """
    if state.runs is None:
        raise ValueError("runs of the buffer must be counted to retract one, they are not")
    is_gone = np.array([run == key for run in state.runs.keys], bool)
    sizes = [chunk.n_records for chunk in state.chunks]
    rest = without_records(state, state.runs.marks(is_gone, sizes))
    return replace(rest, struck_variance=state.struck_variance)


def expire(
    state: SparsifierState, horizon: int, is_isolated: BoolArray | None = None
) -> SparsifierState:
    """State without the records of buckets before ``horizon``; the rest stays about as even (B25).

    ``is_isolated``, (n_nodes,) bool, marks the nodes without a live edge; None where there are
    none.
    """
    if state.runs is None:
        raise ValueError("runs of the buffer must be counted to expire some, they are not")
    sizes = [chunk.n_records for chunk in state.chunks]
    marks = state.runs.marks(state.runs.buckets < horizon, sizes)
    rest = without_records(state, marks, is_isolated)
    return replace(rest, struck_variance=state.struck_variance)


def n_split(state: SparsifierState) -> int:
    """Number of extra components that the sparsifier has for want of struck records."""
    if state.torn is None:
        return 0
    return int(mark_between(components(state.chunks, state.n_nodes), *state.torn).sum())


def without_records(
    state: SparsifierState, marks: Sequence[BoolArray], is_erased: BoolArray | None = None
) -> SparsifierState:
    """State without the records that are marked; untouched chunks are shared, not copied.

    ``marks`` has one (n_records,) mask per chunk. ``is_erased``, (n_nodes,) bool, marks the nodes
    that keep no edge: that they stand alone says nothing of the graph.
    """
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
    lost = degree.copy()
    for total, before in ((variance, state.struck_variance), (lost, state.lost)):
        if before is not None:
            total[: before.size] += before
    struck = replace(
        state,
        chunks=tuple(chunks),
        runs=None if state.runs is None else state.runs.kept([~is_struck for is_struck in marks]),
        struck_variance=frozen(variance.astype(np.float32)),
        lost=frozen(lost.astype(np.float32)),
        degree=None if state.degree is None else frozen(state.degree - degree[: state.degree.size]),
        n_struck=state.n_struck + sum(counts),
        n_struck_since_cards=state.n_struck_since_cards + sum(counts),
    )
    # where every edge is kept, what comes apart does so in the graph, too
    if is_whole(state):
        return struck
    u, v = (np.concatenate([getattr(chunk, end) for chunk in gone]) for end in ("u", "v"))
    return _torn(struck, *((u, v) if is_erased is None else _bridges(u, v, is_erased)))


def _bridges(u: Int32Array, v: Int32Array, is_erased: BoolArray) -> tuple[Int32Array, Int32Array]:
    """Pairs that reconnect those neighbors of erased nodes that records of these connected."""
    parent = np.arange(is_erased.size, dtype=np.int32)
    frozen_ends = frozen_all(u, v)
    join_ends(frozen_ends[0], frozen_ends[1], parent)
    part = np.empty_like(parent)
    all_roots(parent, part)
    ends = np.unique(np.concatenate([u, v]))
    ends = ends[~is_erased[ends]]
    ends = ends[np.argsort(part[ends], kind="stable")]
    is_next = part[ends[1:]] == part[ends[:-1]]
    return ends[:-1][is_next], ends[1:][is_next]


def _torn(state: SparsifierState, u: Int32Array, v: Int32Array) -> SparsifierState:
    """State with the pairs whose loss split it; its cards keep all edges between the parts."""
    parent = components(state.chunks, state.n_nodes)
    part = np.empty_like(parent)
    all_roots(parent, part)
    is_join = mark_between(parent, u, v)
    if not is_join.any():
        return state
    pairs = np.stack([u[is_join], v[is_join]])
    if state.torn is not None:
        pairs = np.concatenate([state.torn, pairs], axis=1)
    return replace(state, torn=frozen(pairs), cards=state.cards.parted(part))


def components(chunks: Sequence[Records], n_nodes: int) -> Int32Array:
    """(n_nodes,) union-find of the nodes that some records connect."""
    parent = np.arange(n_nodes, dtype=np.int32)
    for chunk in chunks:
        ends = frozen_all(chunk.u, chunk.v)
        join_ends(ends[0], ends[1], parent)
    return parent


def mark_between(parent: Int32Array, u: Int32Array, v: Int32Array) -> BoolArray:
    """Mask of the pairs that join two components of ``parent``, which every join updates."""
    is_join = np.zeros(u.size, bool)
    ends = frozen_all(u, v)
    mark_joins(ends[0], ends[1], parent, is_join)
    return is_join
