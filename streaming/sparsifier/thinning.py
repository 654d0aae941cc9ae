"""Resparsification: which records of a buffer survive, and with which probability.

A record is kept by its *counted* resistance: the part that degrees tell, times `local_factor`, and
the rest (see `sample_size`), both on the cards that `buffer_resistances` makes.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import overload

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, frozen
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.kernels.coins import (
    add_degrees,
    count_survivors,
    lower_probabilities,
    score_records,
    take_survivors,
    throw_coins,
)
from peewit.streaming.kernels.dependent_rounding import lower_and_throw, throw_leaning_coins
from peewit.streaming.kernels.spanning_forest import N_CLASSES, classify, mark_forest
from peewit.streaming.sparsifier.buffer_resistances import counted_resistances
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.sample_size import local_factor
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierSettings

LANE_RECORDS = 1 << 21
"""Least records of a lane of coins, which has surpluses of its own."""

MOST_LANES = 2
"""As many threads can throw coins, and degrees stray in proportion."""

CHUNK_RECORDS = 1 << 22
"""Survivors are packed into chunks of about this size."""

_LOWEST_LOG2 = -64.0
_BINS_PER_OCTAVE = 64.0
_N_BINS = 128 * 64
_BISECTION_STEPS = 60
_LEAST_CONSTANT = 2.0**-60


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivors(Sequence[Records]):
    """Surviving records of some chunks, selected whenever they are read.

    ``lowered`` has the new keep-probabilities of each chunk, (n_records,), zero where a record
    went.
    """

    chunks: Sequence[Records]
    lowered: Sequence[Float32Array]

    def __len__(self) -> int:
        return len(self.chunks)

    @overload
    def __getitem__(self, index: int) -> Records: ...
    @overload
    def __getitem__(self, index: slice) -> "Survivors": ...
    def __getitem__(self, index: int | slice) -> "Records | Survivors":
        if isinstance(index, slice):
            return Survivors(chunks=self.chunks[index], lowered=self.lowered[index])
        return selected(self.chunks[index], self.lowered[index])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Thinning:
    """Outcome of one resparsification.

    Attributes
    ----------
    lowered : list of (n_records,) float32
        New keep-probabilities of every chunk, zero where a record did not survive.
    surplus : (n_nodes,) float32 or None
        What dependent coins have left each node with, over what was expected, in shares by
        ``cards`` and ``constant``; None for independent ones.
    arrived : (n_reached,) float64 or None
        Weight that arrived at each node; None where that is unknown.
    """

    lowered: list[Float32Array]
    n_survivors: int
    cards: NodeCards  # the embedding that decided
    constant: float  # sampling constant that the records were thrown with
    surplus: Float32Array | None
    arrived: FloatArray | None


def thin(
    chunks: Sequence[Records],
    cards: NodeCards,
    settings: SparsifierSettings,
    *,
    n_nodes: int,
    constant: float,
    coin_stream: int,
    most: float | None = None,
    arrived: FloatArray | None = None,
    is_whole: bool = False,
    was_struck: bool = False,
    surplus: Float32Array | None = None,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> Thinning | None:
    """Probabilities lowered to ``p' = min(p, slack * constant * w R)``, and coins thrown (B14).

    R is the counted resistance. A maximum spanning forest keeps its probabilities, so the
    components of the graph never change. Where ``max_edges`` affords no more than the forest, no
    resistance is asked and the new cards are empty. None when the embedding did not converge or was
    cancelled.

    Parameters
    ----------
    cards : NodeCards
        The last embedding; decides what is sampled for the next.
    constant : float
        Sampling constant; lowered where ``max_edges`` asks for it.
    coin_stream : int
        Number of a stream of coins that was never used before for these records.
    most : float, optional
        Largest constant, taken where ``max_edges`` affords it; ``constant`` by default.
    arrived : (n_reached,) float64, optional
        Weight that arrived at the first nodes; dependent coins lean on what records have over it.
    is_whole : bool
        Whether the records are all that arrived, so that they tell this weight.
    was_struck : bool
        Whether records were struck since ``cards`` were made.
    surplus : (n_known,) float32, optional
        Where ``arrived`` is unknown: what dependent coins before have left the first nodes with, in
        units of weight.
    """
    degree, on_forest = survey(chunks, n_nodes, parallel)
    if is_whole and arrived is None:
        arrived = frozen(degree)
    n_on_forest = sum(int(np.count_nonzero(marked)) for marked in on_forest)
    if settings.max_edges is not None and n_on_forest >= _survivors_afforded(settings.max_edges):
        return Thinning(
            lowered=[
                np.where(marked, chunk.keep_probability, np.float32(0.0))
                for chunk, marked in zip(chunks, on_forest, strict=True)
            ],
            n_survivors=n_on_forest,
            cards=NodeCards.empty(),
            constant=min(constant, _LEAST_CONSTANT),
            surplus=None,
            arrived=arrived,
        )
    factor = local_factor(settings, n_nodes)
    new_cards = counted_resistances(
        chunks,
        on_forest,
        cards,
        degree,
        settings,
        constant,
        factor,
        was_struck=was_struck,
        cancelled=cancelled,
        parallel=parallel,
    )
    if new_cards is None:
        return None

    is_even = settings.coins == "dependent"
    is_at_once = (
        is_even
        and settings.max_edges is None
        and not new_cards.has_vectors
        and not _cuts_components(new_cards, on_forest)
    )
    if is_at_once:  # lowered while the coins are thrown
        lowered = [np.empty(chunk.n_records, np.float32) for chunk in chunks]
    else:
        most = constant if most is None else most
        lowered, constant = _lower(chunks, on_forest, new_cards, settings, most, factor, parallel)
    if is_even and arrived is not None:
        over = degree.copy()
        over[: arrived.size] -= arrived  # (B22)
        surplus = over.astype(np.float32)
    n_survivors, left = toss(
        chunks,
        lowered,
        new_cards,
        settings,
        copies=settings.oversampling * constant,
        coin_stream=coin_stream,
        surplus=surplus,
        on_forest=on_forest if is_at_once else None,
        parallel=parallel,
    )
    return Thinning(
        lowered=lowered,
        n_survivors=n_survivors,
        cards=new_cards,
        constant=constant,
        surplus=left,
        arrived=arrived,
    )


def toss(
    chunks: Sequence[Records],
    lowered: Sequence[Float32Array],
    cards: NodeCards,
    settings: SparsifierSettings,
    *,
    copies: float,
    coin_stream: int,
    surplus: Float32Array | None,
    on_forest: Sequence[BoolArray] | None = None,
    parallel: Parallel,
) -> tuple[int, Float32Array | None]:
    """Number of records that stay, and what coins left; ``lowered`` becomes zero where one goes.

    Parameters
    ----------
    lowered : sequence of (n_records,) float32
        New probabilities, changed in place; filled here where ``on_forest`` is given.
    copies : float
        Factor that makes probabilities of resistances.
    surplus : (n_known,) float32, optional
        Weight that records have at the first nodes over what is expected.
    on_forest : sequence of (n_records,) bool, optional
        Records without a coin, where local resistances tell the others' probabilities.

    Returns
    -------
    int
        How many stay.
    (n_nodes,) float32 or None
        What leaning coins have left each node with, in shares.
    """
    lanes = _lanes(chunks)
    is_even = settings.coins == "dependent"
    nodes = np.empty((len(lanes), 0, 2), np.float32)
    if is_even:
        nodes = _leaning_nodes(cards, copies, surplus, len(lanes))
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        coins = np.uint64(settings.seed), np.uint64(coin_stream)

    def toss_lane(lane: int) -> int:
        n_survivors = 0
        for number, rows in lanes[lane]:
            records = chunks[number].part(rows.start, rows.stop)
            ends, before, key = records.columns[:3], records.keep_probability, records.key
            after = lowered[number][rows]
            with np.errstate(over="ignore"):  # as above
                if on_forest is not None:
                    n_survivors += lower_and_throw(
                        *ends, before, on_forest[number][rows], after, key, nodes[lane], *coins
                    )
                elif is_even:
                    n_survivors += throw_leaning_coins(
                        *ends, before, after, key, nodes[lane], *coins
                    )
                else:
                    n_survivors += throw_coins(before, after, key, *coins)
        return n_survivors

    n_survivors = sum(parallel(toss_lane, range(len(lanes))))
    return n_survivors, nodes[:, :, 0].sum(axis=0) if is_even else None


def survey(
    chunks: Sequence[Records], n_nodes: int, parallel: Parallel
) -> tuple[FloatArray, list[BoolArray]]:
    """Weighted degrees, and the masks of a spanning forest; two threads compute them."""
    degree = np.zeros(n_nodes)

    def add_all_degrees() -> None:
        for chunk in chunks:
            add_degrees(*chunk.columns[:4], degree)

    tasks = add_all_degrees, partial(spanning_forest, chunks, n_nodes=n_nodes)
    _, on_forest = parallel(lambda number: tasks[number](), range(len(tasks)))
    return degree, on_forest


def _cuts_components(cards: NodeCards, on_forest: Sequence[BoolArray]) -> bool:
    """Whether edges join two components of the cards, which keeps these edges."""
    n_components = cards.n_nodes - sum(int(np.count_nonzero(marked)) for marked in on_forest)
    return cards.n_components > n_components


def counted_leverages(
    chunk: Records, *, cards: NodeCards, settings: SparsifierSettings, factor: float
) -> Float32Array:
    """(n_records,) counted leverage of every record, whatever its probability."""
    scores = np.empty(chunk.n_records, np.float32)
    exact_factor = factor if cards.has_vectors else 0.0
    is_shortable = cards.has_vectors and settings.ridge == 0.0
    score_records(
        *chunk.columns[:4], *cards.views, cards.squared_scale, exact_factor, is_shortable, scores
    )
    return scores


def _lower(
    chunks: Sequence[Records],
    on_forest: Sequence[BoolArray],
    cards: NodeCards,
    settings: SparsifierSettings,
    constant: float,
    factor: float,
    parallel: Parallel,
) -> tuple[list[Float32Array], float]:
    """New probabilities of every chunk, and the largest constant that ``max_edges`` affords."""
    everything = range(len(chunks))
    score = partial(counted_leverages, cards=cards, settings=settings, factor=factor)
    scores = list(parallel(lambda number: score(chunks[number]), everything))
    constant = _affordable(chunks, scores, on_forest, settings, constant)
    copies = settings.oversampling * constant

    def lower(number: int) -> None:
        before = chunks[number].keep_probability
        lower_probabilities(before, scores[number], on_forest[number], copies, scores[number])

    for _ in parallel(lower, everything):
        pass
    return scores, constant


def _lanes(chunks: Sequence[Records]) -> list[list[tuple[int, slice]]]:
    """Chunk numbers and rows of each lane: even parts of all records, one per `LANE_RECORDS`."""
    n_records = sum(chunk.n_records for chunk in chunks)
    n_lanes = min(max(n_records // LANE_RECORDS, 1), MOST_LANES)
    cuts = [n_records * lane // n_lanes for lane in range(n_lanes + 1)]
    lanes: list[list[tuple[int, slice]]] = [[] for _ in range(n_lanes)]
    first = 0
    for number, chunk in enumerate(chunks):
        for lane, pieces in enumerate(lanes):
            start, stop = max(cuts[lane] - first, 0), min(cuts[lane + 1] - first, chunk.n_records)
            if start < stop:
                pieces.append((number, slice(start, stop)))
        first += chunk.n_records
    return lanes


def _leaning_nodes(
    cards: NodeCards, copies: float, surplus: Float32Array | None, n_lanes: int
) -> Float32Array:
    """(n_lanes, n_nodes, 2) float32: surplus in shares, and shares per unit of weight.

    A record that its coin decides weighs ``1 / (copies * resistance)`` in the sparsifier, so its
    share in an end is that end's part of its resistance. Lanes divide the surplus evenly.
    """
    nodes = np.zeros((n_lanes, cards.n_nodes, 2), np.float32)
    shares = np.float32(copies) * cards.local_resistance
    nodes[:, :, 1] = shares
    if surplus is not None:
        known, lane = shares[: surplus.size], np.zeros_like(surplus)
        np.multiply(surplus, known / np.float32(n_lanes), out=lane, where=np.isfinite(known))
        nodes[:, : surplus.size, 0] = lane
    return nodes


def packed(chunks: Sequence[Records], lowered: Sequence[Float32Array]) -> Iterator[Records]:
    """Survivors in chunks of at least ``CHUNK_RECORDS``, the last one excepted.

    What was taken is freed where nobody else holds ``chunks``.
    """
    waiting = deque(zip(chunks, lowered, strict=True))
    del chunks, lowered
    parts: list[Records] = []
    while waiting:
        parts.append(selected(*waiting.popleft()))
        if sum(part.n_records for part in parts) >= CHUNK_RECORDS or not waiting:
            yield Records.concatenate(parts)
            parts.clear()


def selected(chunk: Records, lowered: Float32Array) -> Records:
    """Records whose new probability is not zero, with that probability."""
    n_survivors = int(np.count_nonzero(lowered))
    taken = Records.uninitialized(n_survivors + 1)
    take_survivors(chunk.u, chunk.v, chunk.weight, lowered, chunk.key, *taken.columns)
    return taken.part(0, n_survivors)


def spanning_forest(chunks: Sequence[Records], *, n_nodes: int) -> list[BoolArray]:
    """Mask of every chunk, True on a spanning forest that is maximum up to a factor of two.

    Conductances are compared by their power of two.
    """
    counts = np.zeros(N_CLASSES, np.int64)
    classes = [np.empty(chunk.n_records, np.uint8) for chunk in chunks]
    on_forest = [np.zeros(chunk.n_records, np.bool_) for chunk in chunks]
    for chunk, numbers in zip(chunks, classes, strict=True):
        classify(chunk.weight, chunk.keep_probability, numbers, counts)
    parent = np.arange(n_nodes, dtype=np.int32)
    n_marked = 0
    for number in np.flatnonzero(counts)[::-1]:
        for chunk, numbers, marked in zip(chunks, classes, on_forest, strict=True):
            if n_marked < n_nodes - 1:
                n_marked += mark_forest(chunk.u, chunk.v, numbers, number, parent, marked)
    return on_forest


def _survivors_afforded(max_edges: int) -> float:
    """Survivors to expect, so that coins seldom leave more than ``max_edges``."""
    return max_edges - 3.0 * math.sqrt(max_edges)


def _affordable(
    chunks: Sequence[Records],
    scores: Sequence[Float32Array],
    on_forest: Sequence[BoolArray],
    settings: SparsifierSettings,
    constant: float,
) -> float:
    """Largest constant up to ``constant`` that ``max_edges`` affords; a forest always survives."""
    if settings.max_edges is None:
        return constant
    budget = _survivors_afforded(settings.max_edges)
    counts, sums = np.zeros(_N_BINS), np.zeros(_N_BINS)
    n_certain = 0.0
    for chunk, score, forest in zip(chunks, scores, on_forest, strict=True):
        n_certain += count_survivors(
            chunk.keep_probability, score, forest, _LOWEST_LOG2, _BINS_PER_OCTAVE, counts, sums
        )
    occupied = counts > 0
    counts, sums = counts[occupied], sums[occupied]

    def expected(factor: float) -> float:
        return n_certain + float(np.minimum(counts, factor * sums).sum())

    if not counts.size or expected(settings.oversampling * constant) <= budget:
        return constant
    # beyond that every record that could be kept is
    low, high = 0.0, min(constant, float((counts / sums).max()) / settings.oversampling)
    for _ in range(_BISECTION_STEPS):
        middle = 0.5 * (low + high)
        if expected(settings.oversampling * middle) > budget:
            high = middle
        else:
            low = middle
    return low if low > 0.0 else high
