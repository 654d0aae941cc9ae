"""Repair: live edges are sampled anew where deletes have spoiled the sample (B24).

A strike leaves the mean right, but what stays was thrown for edges that are gone. Nodes that have
lost much of their weight have all their edges sampled anew, from the log; where that would be most
of them, or a cut has lost its edges, everything is. *What* is sampled anew follows from the stream
alone. Chosen by what was kept, it would be biased: a cut with one record would be replaced by
itself, and one with none never looked for. *When* everything is may depend on what was kept.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import Final, Literal, TypeAlias

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int32Array, frozen
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.kernels.edge_passes import all_roots
from peewit.streaming.sparsifier.arrivals import MOST_DAMAGE
from peewit.streaming.sparsifier.buffer_resistances import counted_resistances
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.sample_size import (
    ROOM,
    local_factor,
    present_constant,
    target_epsilon,
)
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import (
    LEANING_FACTOR,
    absorb,
    expected_epsilon,
    is_full,
    resparsify,
)
from peewit.streaming.sparsifier.strikes import components, without_records
from peewit.streaming.sparsifier.thinning import counted_leverages, survey

MOST_SHARE: Final = 0.25
"""Everything is rebuilt where damaged nodes hold more than this share of the weight."""

LEAST_ROOM: Final = 2.0
"""Everything is rebuilt where the buffer holds less than this multiple of what is published."""

MOST_THIN: Final = 2.0
"""Records may be thrown for less than is due by up to this factor."""

MOST_ERROR: Final = 1.0
"""All records thrown for less than that may err together as much as so many thrown for what is
due."""

LiveEdges: TypeAlias = Callable[[BoolArray | None], Iterable[tuple[str, EdgeBlock]]]
"""Run and edges of each block, in the order of the stream; only edges at marked nodes, if given."""

ThrowAll: TypeAlias = Callable[[SparsifierState, SparsifierSettings], SparsifierState]
"""State with all live edges added, thrown as arrivals are."""

Kind: TypeAlias = Literal["none", "part", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What was sampled anew."""

    kind: Kind = "none"  # nothing, the edges of damaged nodes, or everything
    n_damaged: int = 0  # nodes that had lost more than they may
    n_edges: int = 0  # edges that were thrown again
    has_failed: bool = False  # resistances did not converge, so nothing could be repaired


def resolved(
    state: SparsifierState, *, degree: FloatArray | None, killed: FloatArray
) -> SparsifierState:
    """State that knows the exact degrees of what lives, and how much each node had at most.

    Everything that was deleted must be struck from ``state``.

    Parameters
    ----------
    degree : (n_nodes,) float64 or None
        Weight that lives at each node; None where every edge is kept.
    killed : (n_nodes,) float64
        Weight that died at each node since the resolution before.
    """
    if degree is None or is_whole(state):  # the records are what lives
        return replace(state, struck_variance=None, lost=None, peak=None, torn=None)
    peak = degree + killed
    if state.peak is not None:
        known = state.peak.size
        np.maximum(peak[:known], state.peak, out=peak[:known])
    peak[degree == 0.0] = 0.0  # whoever lost everything has no edge to sample anew
    return replace(state, degree=frozen(degree), peak=frozen(peak))


def repair(
    state: SparsifierState,
    settings: SparsifierSettings,
    live_edges: LiveEdges,
    *,
    component: Int32Array | None,
    group_blocks: int,
    throw_all: ThrowAll | None = None,
    everything: bool = False,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> tuple[SparsifierState, Repair]:
    """State whose edges were all thrown for a graph much like the one that lives, and the repair.

    ``state`` is as `resolved` returns it, and is freed part by part where nobody else holds it.

    Parameters
    ----------
    component : (n_nodes,) int32 or None
        Component of each node, of what lives; None where it is that of the records.
    group_blocks : int
        Most blocks that are scored together.
    throw_all : callable, optional
        Throws all live edges into a state where other processes do that.
    everything : bool
        Whether all edges are thrown again even if that is not necessary.
    """
    if is_whole(state) or state.degree is None:
        return state, Repair()
    if component is None:
        component = _roots(state)
    make = partial(_cards, settings=settings, cancelled=cancelled, parallel=parallel)
    cards = make(state)
    if cards is None:
        n_failed = state.n_failed_embeddings + 1
        return replace(state, n_failed_embeddings=n_failed), Repair(has_failed=True)
    degree, n_seen, is_damaged = state.degree, state.n_rows_seen, _damaged_nodes(state)
    n_damaged = int(np.count_nonzero(is_damaged))
    at_damaged = float(degree[: is_damaged.size][is_damaged].sum())
    state = replace(state, cards=cards, surplus=None, lost=None, torn=None, n_struck_since_cards=0)
    throw = partial(thrown, group_blocks=group_blocks, cancelled=cancelled, parallel=parallel)
    roomy = settings.with_room(ROOM)
    is_spoiled = everything or 2.0 * at_damaged > MOST_SHARE * float(degree.sum())
    # without room what stays cannot be thinned with even degrees
    is_spoiled |= n_damaged > 0 and state.n_records < LEAST_ROOM * state.n_kept_last
    if not is_spoiled and _is_thin(state, cards, settings, is_damaged):
        # bounds tell of other records from one sample to the next
        exact_cards = cards if cards.has_vectors else make(state, embeds=True)
        is_spoiled = exact_cards is None or _is_thin(state, exact_cards, settings, is_damaged)
    if n_damaged and not is_spoiled:
        state = throw(_without_nodes(state, is_damaged), roomy, live_edges(is_damaged))
    n_thrown = state.n_rows_seen - n_seen
    if is_spoiled or _is_uneven(state, settings) or _is_apart(state, component):
        state = replace(_emptied(state, settings), n_rows_seen=n_seen)
        state = throw_all(state, roomy) if throw_all else throw(state, roomy, live_edges(None))
        n_thrown = state.n_rows_seen - n_seen
        state = replace(state, degree=None if is_whole(state) else degree)
        if _is_apart(state, component):
            state = _add_joins(state, settings, live_edges, component)
        kind: Kind = "all"
    else:
        kind = "part" if n_damaged else "none"
        state = replace(state, degree=degree, n_repairs=state.n_repairs + min(n_damaged, 1))
    # they are no news: the graph has had them before
    state = replace(state, n_rows_seen=n_seen)
    return state, Repair(kind=kind, n_damaged=n_damaged, n_edges=n_thrown)


def thrown(
    state: SparsifierState,
    settings: SparsifierSettings,
    edges: Iterable[tuple[str, EdgeBlock]],
    *,
    group_blocks: int,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> SparsifierState:
    """State with ``edges`` thrown as arrivals are, scored by its cards."""
    for run, blocks in groupby(edges, lambda item: item[0]):
        remaining = (block for _, block in blocks)
        while group := list(islice(remaining, group_blocks)):
            if is_full(state, settings):
                state = resparsify(state, settings, cancelled=cancelled, parallel=parallel)
            state = absorb(state, settings, group, n_nodes=0, run=run, parallel=parallel)
    return state


def _damaged_nodes(state: SparsifierState) -> BoolArray:
    """Mask of the nodes that lost more than they may since their edges were sampled (B24)."""
    if state.peak is None or state.degree is None:
        return np.zeros(0, bool)
    left = state.degree[: state.peak.size]
    return np.asarray(left < (1.0 - MOST_DAMAGE) * state.peak[: left.size])


def _is_uneven(state: SparsifierState, settings: SparsifierSettings) -> bool:
    """Whether the error exceeds what is asked only for want of struck records (B23)."""
    if state.struck_variance is None:
        return False
    even = replace(state, struck_variance=None)
    epsilon = target_epsilon(settings, state.n_nodes)
    return expected_epsilon(state, settings) > epsilon >= expected_epsilon(even, settings)


def _cards(
    state: SparsifierState,
    settings: SparsifierSettings,
    *,
    embeds: bool = False,
    cancelled: Callable[[], bool] | None,
    parallel: Parallel,
) -> NodeCards | None:
    """Cards of what was not struck, by the degrees of what lives; with vectors if it ``embeds``."""
    if not state.chunks:  # nothing is known, and every edge of what lives is kept
        return NodeCards.empty()
    degree, on_forest = survey(state.chunks, state.n_nodes, parallel)
    if state.degree is not None:
        degree[: state.degree.size] = state.degree
    return counted_resistances(
        state.chunks,
        on_forest,
        state.cards,
        degree,
        settings,
        present_constant(state, settings),
        local_factor(settings, state.n_nodes),
        was_struck=embeds or state.n_struck_since_cards > 0,
        embeds=embeds,
        cancelled=cancelled,
        parallel=parallel,
    )


def _is_thin(
    state: SparsifierState, cards: NodeCards, settings: SparsifierSettings, is_damaged: BoolArray
) -> bool:
    """Whether records thrown for far less than is due err too much, but at damaged nodes (B24)."""
    is_out = np.zeros(state.n_nodes, bool)
    is_out[: is_damaged.size] = is_damaged
    factor = local_factor(settings, state.n_nodes)
    copies = np.float32(settings.oversampling * present_constant(state, settings))
    error = 0.0
    for chunk in state.chunks:
        due = counted_leverages(chunk, cards=cards, settings=settings, factor=factor)
        due[np.isinf(due)] = 0.0  # the cards know nothing of these
        due[is_out[chunk.u] | is_out[chunk.v]] = 0.0
        due *= copies
        due /= chunk.keep_probability
        due *= due > MOST_THIN
        due *= 1.0 - chunk.keep_probability
        error += float(due.sum(dtype=np.float64))
    return error > MOST_ERROR


def _is_apart(state: SparsifierState, component: Int32Array) -> bool:
    """Whether the sparsifier has more components than the graph."""
    n_components = np.count_nonzero(component == np.arange(component.size))
    root = components(state.chunks, state.n_nodes)
    return bool(np.count_nonzero(root == np.arange(root.size)) > n_components)


def _roots(state: SparsifierState) -> Int32Array:
    """Smallest node of each node's component, by the records."""
    root = components(state.chunks, state.n_nodes)
    all_roots(root, root)
    return root


def _without_nodes(state: SparsifierState, is_damaged: BoolArray) -> SparsifierState:
    """State without the records at some nodes; the degrees of their neighbors are uneven now."""
    is_gone = np.zeros(state.n_nodes, bool)
    is_gone[: is_damaged.size] = is_damaged
    struck = without_records(state, [is_gone[chunk.u] | is_gone[chunk.v] for chunk in state.chunks])
    variance, peak = struck.struck_variance, struck.peak
    if variance is not None:
        variance = np.where(is_gone[: variance.size], np.float32(0.0), variance)
    if peak is not None:
        peak = np.where(is_gone[: peak.size], 0.0, peak)
    return replace(
        struck,
        struck_variance=variance,
        peak=peak,
        cards=state.cards,  # which know of what comes again
        lost=None,
        torn=None,
        n_struck=state.n_struck,
        n_struck_since_cards=0,
    )


def _emptied(state: SparsifierState, settings: SparsifierSettings) -> SparsifierState:
    """State without records, to which all edges are to come again.

    Without an epsilon it is that of a new stream, as edges that left have made room. The constant
    that ``max_edges`` lowered is reset; where the budget still binds it is lowered again.
    """
    if settings.epsilon is None:
        state = replace(state, cards=NodeCards.empty(), n_kept_last=0)
    return replace(
        state,
        constant=math.inf,
        chunks=(),
        runs=None if state.runs is None else EMPTY_RUNS,
        degree=None if settings.epsilon is None else np.zeros(0),
        peak=None,
        struck_variance=None,
        smallest_constant=math.inf,
        n_leaning=int(LEANING_FACTOR * state.n_kept_last),
        n_rebuilds=state.n_rebuilds + 1,
    )


def _add_joins(
    state: SparsifierState,
    settings: SparsifierSettings,
    live_edges: LiveEdges,
    component: Int32Array,
) -> SparsifierState:
    """State with, in addition, all edges between those of its components that the graph joins."""
    root = _roots(state)
    keeping = replace(state, cards=NodeCards.empty(), degree=None)
    # at least one end of such an edge lies outside the part with the component's first node
    for run, block in live_edges(root != component):
        is_join = root[block.u] != root[block.v]
        if is_join.any():
            joins = block.where(is_join)
            keeping = absorb(keeping, settings, [joins], n_nodes=0, run=run)
    return replace(
        keeping,
        cards=state.cards,
        degree=state.degree,
        surplus=state.surplus,
        n_rows_seen=state.n_rows_seen,
        n_leaning=state.n_leaning,
    )
