"""One resparsification: which records of a buffer survive it, and with which probability.

A record is kept by its *counted* resistance: the part that degrees tell, times `local_factor`, and
the rest (see `sample_size`). Resistances are taken in one of two ways, whichever serves.

*Bounds.* ``R_uv <= r_u + r_v`` with ``r_u = s_u / d_u`` and s_u not much more than 1: the
probabilities of returning to u in a few steps of a random walk, the last one divided by the
spectral gap (see `ResistanceSystem.local_bounds`). Where nodes have many edges and the gap is not
small this is tight; it costs no solve and has hardly any noise.

*Embedding.* Else the vectors of an embedding tell the rest beyond degrees.

Both are made from a *coarse* sample of the buffer (a sparsifier of it, by the cards before), so
their cost is O(n log n) whatever the buffer holds; degrees are those of the whole buffer.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, overload

import numpy as np

from solvers.arrays import AnyArray, BoolArray, Float32Array, FloatArray, Int32Array, UInt32Array
from solvers.laplacian.parallel import Parallel
from solvers.laplacian.resistance import ResistanceSystem
from solvers.solution import Status
from streaming.cards import NodeCards
from streaming.kernels.balancing import throw_leaning_coins
from streaming.kernels.sampling import (
    add_degrees,
    choose_coarse,
    count_survivors,
    lower_probabilities,
    score_records,
    stale_leverages,
    take_survivors,
    throw_coins,
)
from streaming.kernels.spanning_forest import N_CLASSES, classify, mark_forest
from streaming.records import Records, SparsifierSettings
from streaming.sample_size import local_factor

EMBEDDING_RTOL = 0.1
"""Relative error of the projected term allowed in every direction, the smallest cut's included."""

COARSE_CONSTANT = 16.0
"""Copies per unit of leverage in the sample that is embedded."""

MOST_GROWTH = 8.0
"""A leverage of the last embedding is taken to have fallen by at most this factor since."""

MOST_EXCESS = 0.6
"""Bounds serve while they keep at most this share more records than degrees alone would."""

CHUNK_RECORDS = 1 << 22
"""Survivors are packed into chunks of about this size."""

_COARSE_STREAM = 2**64 - 2
_LOWEST_LOG2 = -64.0
_BINS_PER_OCTAVE = 64.0
_N_BINS = 128 * 64
_BISECTION_STEPS = 60

_Sample: TypeAlias = tuple[Int32Array, Int32Array, Float32Array, Float32Array, UInt32Array]
"""Ends, conductances in the sample, conductances in the buffer, keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivors(Sequence[Records]):
    """The surviving records of some chunks, selected when they are asked for.

    Attributes
    ----------
    chunks : sequence of Records
        All records.
    lowered : sequence of (n_records,) float32
        Their new keep-probabilities, zero where a record did not survive.
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
        return _surviving(self.chunks[index], self.lowered[index])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Thinning:
    """Outcome of one resparsification.

    Attributes
    ----------
    lowered : list of (n_records,) float32
        New keep-probabilities of every chunk, zero where a record did not survive.
    n_survivors : int
        Records that did.
    cards : NodeCards
        The embedding that decided.
    constant : float
        Sampling constant the records were thrown with.
    surplus : (n_nodes,) float32 or None
        What dependent coins have left each node with, over what was expected, in shares by
        ``cards`` and ``constant``; None for independent ones.
    """

    lowered: list[Float32Array]
    n_survivors: int
    cards: NodeCards
    constant: float
    surplus: Float32Array | None


def thin(
    chunks: Sequence[Records],
    cards: NodeCards,
    settings: SparsifierSettings,
    *,
    n_nodes: int,
    constant: float,
    coin_stream: int,
    surplus: Float32Array | None = None,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> Thinning | None:
    """Lower every record to ``p' = min(p, slack * constant * w R)`` and throw its coin (B14).

    R is the counted resistance.

    A maximum spanning forest keeps its probabilities, so the components of the graph never change.

    Parameters
    ----------
    chunks : sequence of Records
        The buffer.
    cards : NodeCards
        The last embedding; decides what is sampled for the next.
    settings : SparsifierSettings
        Slack, seed, probes, ridge, ``max_edges``.
    n_nodes : int
        Nodes known.
    constant : float
        Sampling constant; lowered where ``max_edges`` asks for it.
    coin_stream : int
        Number of the stream of coins, never used before for these records.
    surplus : (n_known,) float32, optional
        What dependent coins before have left the first nodes with, in units of weight.
    cancelled, parallel
        As in `solvers.laplacian.resistance.resistance_embedding`.

    Returns
    -------
    Thinning or None
        None when the embedding did not converge or was cancelled.
    """
    everything = range(len(chunks))
    degree = np.zeros(n_nodes)
    for chunk in chunks:
        add_degrees(chunk.u, chunk.v, chunk.weight, chunk.keep_probability, degree)
    on_forest = spanning_forest(chunks, n_nodes=n_nodes)
    factor = local_factor(settings, n_nodes)
    new_cards = _new_cards(
        chunks,
        on_forest,
        cards,
        degree,
        settings,
        constant,
        factor,
        cancelled=cancelled,
        parallel=parallel,
    )
    if new_cards is None:
        return None

    def score(number: int) -> Float32Array:
        chunk = chunks[number]
        scores = np.empty(chunk.n_records, np.float32)
        ends = chunk.u, chunk.v, chunk.weight, chunk.keep_probability
        exact_factor = factor if new_cards.has_vectors else 0.0
        shortable = new_cards.has_vectors and settings.ridge == 0.0
        kinds = exact_factor, shortable
        score_records(*ends, *new_cards.views, new_cards.squared_scale, *kinds, scores)
        return scores

    def lower(number: int) -> Float32Array:
        chunk = chunks[number]
        scores = score(number) if scored is None else scored[number]
        lower_probabilities(chunk.keep_probability, scores, on_forest[number], copies, scores)
        return scores

    scored = None
    if settings.max_edges is not None:
        scored = list(parallel(score, everything))
        constant = _affordable(chunks, scored, on_forest, settings, constant)
    copies = settings.oversampling * constant
    in_order = zip(chunks, parallel(lower, everything), strict=True)
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        coins = np.uint64(settings.seed), np.uint64(coin_stream)
        if settings.coins == "dependent":
            node = _leaning_nodes(new_cards, copies, surplus)
            thrown = _lean(in_order, node, coins)
        else:
            node = None
            thrown = _toss(in_order, coins)
        lowered, n_survivors = [], 0
        for probabilities, n in thrown:
            lowered.append(probabilities)
            n_survivors += n
    return Thinning(
        lowered=lowered,
        n_survivors=n_survivors,
        cards=new_cards,
        constant=constant,
        surplus=None if node is None else node[:, 0],
    )


def _toss(
    in_order: Iterable[tuple[Records, Float32Array]], coins: tuple[np.uint64, np.uint64]
) -> Iterator[tuple[Float32Array, int]]:
    """Throw one coin for each record, with its new probability; zero where it does not survive.

    Yields the probabilities of every chunk, changed, and the number of its survivors.
    """
    for chunk, lowered in in_order:
        yield lowered, throw_coins(chunk.keep_probability, lowered, chunk.key, *coins)


def _lean(
    in_order: Iterable[tuple[Records, Float32Array]],
    node: Float32Array,
    coins: tuple[np.uint64, np.uint64],
) -> Iterator[tuple[Float32Array, int]]:
    """`_toss` with coins that even out the degrees of nodes (B.6); ``node`` as in the kernel."""
    for chunk, lowered in in_order:
        columns = chunk.u, chunk.v, chunk.weight, chunk.keep_probability
        yield lowered, throw_leaning_coins(*columns, lowered, chunk.key, node, *coins)


def _leaning_nodes(cards: NodeCards, copies: float, surplus: Float32Array | None) -> Float32Array:
    """(n_nodes, 2) float32: surplus in shares, and the shares that a unit of weight is.

    A record's share in its ends is their part of its resistance, where its own coins decide on its
    weight in the sparsifier, ``1 / (copies * resistance)``.
    """
    node = np.zeros((cards.n_nodes, 2), np.float32)
    np.multiply(cards.local_resistance, np.float32(copies), out=node[:, 1])
    if surplus is not None:
        known = node[: surplus.size]
        np.multiply(surplus, known[:, 1], out=known[:, 0], where=np.isfinite(known[:, 1]))
    return node


def packed(chunks: Sequence[Records], lowered: Sequence[Float32Array]) -> Iterator[Records]:
    """Survivors in chunks of at least ``CHUNK_RECORDS``, the last one excepted.

    What was taken is let go when the caller holds the only reference to ``chunks``.
    """
    waiting = deque(zip(chunks, lowered, strict=True))
    del chunks, lowered
    parts: list[Records] = []
    while waiting:
        parts.append(_surviving(*waiting.popleft()))
        if sum(part.n_records for part in parts) >= CHUNK_RECORDS or not waiting:
            yield Records.concatenate(parts)
            parts.clear()


def _surviving(chunk: Records, lowered: Float32Array) -> Records:
    n_survivors = int(np.count_nonzero(lowered))
    taken = Records.uninitialized(n_survivors + 1)
    take_survivors(
        chunk.u,
        chunk.v,
        chunk.weight,
        lowered,
        chunk.key,
        taken.u,
        taken.v,
        taken.weight,
        taken.keep_probability,
        taken.key,
    )
    return taken.part(0, n_survivors)


def spanning_forest(chunks: Sequence[Records], *, n_nodes: int) -> list[BoolArray]:
    """Mask of every chunk, True on a spanning forest that is maximum but for a factor of two.

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


def _new_cards(
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
    u, v, conductance, full, key = _joined(parts)
    system = ResistanceSystem.of(
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


def _joined(parts: list[_Sample]) -> list[AnyArray]:
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
    ends = chunk.u, chunk.v, chunk.weight, chunk.keep_probability
    copies = settings.oversampling * constant
    stale_leverages(*ends, *cards.views, cards.squared_scale, copies, leverage)
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


def _affordable(
    chunks: Sequence[Records],
    scores: Sequence[Float32Array],
    on_forest: Sequence[BoolArray],
    settings: SparsifierSettings,
    constant: float,
) -> float:
    """``constant``, or the largest below it with which ``max_edges`` is kept to.

    The forest survives whatever the constant, so a budget below its size is exceeded.
    """
    if settings.max_edges is None:
        return constant
    budget = settings.max_edges - 3.0 * math.sqrt(settings.max_edges)
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

    if expected(settings.oversampling * constant) <= budget:
        return constant
    low, high = 0.0, constant
    for _ in range(_BISECTION_STEPS):
        middle = 0.5 * (low + high)
        if expected(settings.oversampling * middle) > budget:
            high = middle
        else:
            low = middle
    return low if low > 0.0 else high
