"""Coins and scores of the sparsifier: which records stay, and with which probability.

Randomness is counter-based: a coin is a hash of (seed, stream, counter), so it depends on the
record alone and never on the order of work or on the number of threads.

What the kernels know of a node is its *card*: coordinates of its resistance vector as int16 (28 of
them, or none), then its local resistance (float32) and its component (int32), 64 or 8 bytes in one
cache line. A card array is passed three times, as the int16, float32 and int32 views of one memory.
"""

from typing import Any

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int32Array,
    UInt8Array,
    UInt32Array,
)
from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.hash_signs import mix64

CARD_PROBES = 28
"""Coordinates that a card holds."""

CARD_HEADER = 4
"""Numbers of 16 bits behind the coordinates of a card."""

CARD_WIDTH = CARD_PROBES + CARD_HEADER
"""Numbers of 16 bits in a card that has coordinates."""

LEAN = np.float32(2.0)
"""How much a surplus of one share changes a share's coin; leaves a surplus of about half a share.

Twice as much would halve its variance once more, but probabilities would be cut too often.
"""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT_32 = np.uint64(32)
_UNIT = 1.0 / (1 << 32)
_BATCH = 64
_LEAST_AROUND = 1e-4


@njit(cache=True, nogil=True, inline="always")
def stream_key(seed: Any, stream: Any) -> Any:
    """Key of one stream of coins; streams of one seed are independent of each other."""
    return mix64(mix64(seed + _GOLDEN) ^ (stream * _GOLDEN))


@njit(cache=True, nogil=True, inline="always")
def hash_counter(key: Any, counter: Any) -> Any:
    """Hash number ``counter`` of a stream; its upper half is the coin, see `coin`."""
    return mix64(key + (counter + np.uint64(1)) * _GOLDEN)


@njit(cache=True, nogil=True, inline="always")
def coin(random_bits: Any) -> Any:
    """Uniform number in [0, 1) from the upper 32 bits of a hash."""
    return np.float64(random_bits >> _SHIFT_32) * _UNIT


@njit(cache=True, nogil=True, inline="always")
def card_distance(cards: Any, first: Any, second: Any) -> Any:
    """Squared distance between the coordinates of two cards, in units of the scale squared.

    The number of coordinates is taken from the array: a loop of constant length would be unrolled
    and not use vector registers, at a third of the speed.
    """
    total = np.float32(0.0)
    for probe in range(cards.shape[1] - CARD_HEADER):
        difference = np.float32(
            np.int32(cards[first, np.uintp(probe)]) - np.int32(cards[second, np.uintp(probe)])
        )
        total += difference * difference
    return total


@njit(cache=True, nogil=True)
def pack_cards(
    vectors: Float32Array,
    local_resistance: Float32Array,
    component: Int32Array,
    per_unit: float,
    cards: Any,
    card_floats: Any,
    card_ints: Any,
) -> None:
    """Fill cards with ``vectors * per_unit``, rounded; coordinates that are not there stay zero."""
    n_nodes, n_probes = vectors.shape
    for node in range(n_nodes):
        for probe in range(n_probes):
            cards[node, probe] = np.int16(np.rint(np.float64(vectors[node, probe]) * per_unit))
        card_floats[node, card_floats.shape[1] - 2] = local_resistance[node]
        card_ints[node, card_ints.shape[1] - 1] = component[node]


@njit(cache=True, nogil=True, inline="always")
def leaning(chance: Any, near: Any, far: Any, near_surplus: Any, far_surplus: Any) -> Any:
    """``chance`` lowered by a pull, the sum over both ends of share times surplus.

    See `dependent_rounding`. The pull is weaker where one share is nearly all, so that no single
    coin before makes it so strong that it must be cut: where a probability would leave [0, 1], on
    both sides alike.
    """
    other = np.float32(1.0) - chance
    most = np.float32(1.0) / max(chance, other)  # (B18): the bound of |f|
    pull = LEAN * (near * near_surplus + far * far_surplus)
    pull /= max(np.float32(1.0), np.float32(2.0) * (near * near + far * far))
    return chance - chance * other * max(min(pull, most), -most)  # (B18): p - p (1 - p) f


@njit(cache=True, nogil=True)
def take_arrivals(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    seed: np.uint64,
    stream: np.uint64,
    kept_u: Int32Array,
    kept_v: Int32Array,
    kept_weight: Float32Array,
    kept_probability: Float32Array,
    kept_key: UInt32Array,
) -> int:
    """Keep every arriving edge but self-loops, as records of probability 1; returns how many.

    Fills the five ``kept_*`` arrays as `sample_independent` does.
    """
    key = stream_key(seed, stream)
    n_kept = 0
    for row in range(u.size):
        if u[row] == v[row]:
            continue
        kept_u[n_kept] = u[row]
        kept_v[n_kept] = v[row]
        kept_weight[n_kept] = weight[row]
        kept_probability[n_kept] = 1.0
        kept_key[n_kept] = np.uint32(mix64(hash_counter(key, np.uint64(row))) >> _SHIFT_32)
        n_kept += 1
    return n_kept


@njit(cache=True, nogil=True, inline="always")
def _arrival_probabilities(
    u: Any,
    v: Any,
    weight: Any,
    cards: Any,
    card_ints: Any,
    constant: float,
    squared_scale: float,
    is_local: bool,
    start: int,
    size: int,
    chance: Any,
) -> None:
    """Turn ``chance``, the copies that local resistances ask for, into keep-probabilities (B13)."""
    one = np.float32(1.0)
    share = np.float32(1.0 / constant)
    if not is_local:
        scale = np.float32(constant * squared_scale)
        kind = np.uintp(card_ints.shape[1] - 1)
        for offset in range(size):
            if np.isinf(chance[offset]):
                continue
            i, j = np.uintp(u[start + offset]), np.uintp(v[start + offset])
            distance = card_distance(cards, i, j) * scale  # (B16): the projected term
            same = card_ints[i, kind] == card_ints[j, kind]
            chance[offset] += weight[start + offset] * distance if same else np.float32(np.inf)
    for offset in range(size):
        copies = chance[offset]  # expected, before the edge's own effect on its leverage
        # (B13): c l, l = a R / (1 + a R)
        chance[offset] = min(one, copies / (one + copies * share)) if copies < np.inf else one


# reassociation lets the sum over coordinates use vector registers: 2 times the speed
@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def sample_independent(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    node_class: UInt8Array,
    class_copies: Float32Array,
    degree: FloatArray,
    cards: Any,
    card_ints: Any,
    squared_scale: float,
    is_local: bool,
    constant: float,
    seed: np.uint64,
    stream: np.uint64,
    kept_u: Int32Array,
    kept_v: Int32Array,
    kept_weight: Float32Array,
    kept_probability: Float32Array,
    kept_key: UInt32Array,
) -> int:
    """Throw the coin of every arriving edge (B13), (B14), each independently.

    The leverage of an arriving edge is ``wR / (1 + wR)``, R the counted resistance on the cards.
    The edge stays with probability ``min(1, constant * leverage)``, and for certain unless both
    endpoints lay in one component of the embedded graph; a self-loop never stays.

    ``class_copies[node_class]`` is ``constant`` times the local resistance of a node or a little
    more, infinite for one without a card or without edges; ``node_class`` (n_nodes,) takes a byte a
    node, so that the cache holds it. Where ``is_local`` nothing else counts: no coordinates, and
    one component. ``degree`` (n_nodes,) grows by the weight of every edge at both ends. Fills the
    five ``kept_*`` arrays (each as long as ``u``), the columns of a record, and returns how many of
    their entries are used.

    Edges are taken in batches, whose nodes are fetched by a first pass that waits for none of them:
    2.3 times the speed of one pass at 200,000 nodes.
    """
    key = stream_key(seed, stream)
    chance = np.empty(_BATCH, np.float32)
    n_kept = 0
    for start in range(0, u.size, _BATCH):
        size = min(_BATCH, u.size - start)
        for offset in range(size):
            row = start + offset
            i, j = np.uintp(u[row]), np.uintp(v[row])
            copies = class_copies[node_class[i]] + class_copies[node_class[j]]
            chance[offset] = weight[row] * copies  # c a R, what degrees or bounds tell of R
            arrived = np.float64(weight[row]) if i != j else 0.0
            degree[i] += arrived
            degree[j] += arrived
        _arrival_probabilities(
            u, v, weight, cards, card_ints, constant, squared_scale, is_local, start, size, chance
        )
        for offset in range(size):
            row = start + offset
            random_bits = hash_counter(key, np.uint64(row))
            if coin(random_bits) >= chance[offset] or u[row] == v[row]:
                continue
            kept_u[n_kept] = u[row]
            kept_v[n_kept] = v[row]
            kept_weight[n_kept] = weight[row]
            kept_probability[n_kept] = chance[offset]
            # hashed again: later coins shall not know how small this one was
            kept_key[n_kept] = np.uint32(mix64(random_bits) >> _SHIFT_32)
            n_kept += 1
    return n_kept


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def sample_leaning(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    node: Any,
    node_floats: Any,
    cards: Any,
    card_ints: Any,
    squared_scale: float,
    is_local: bool,
    constant: float,
    seed: np.uint64,
    stream: np.uint64,
    kept_u: Int32Array,
    kept_v: Int32Array,
    kept_weight: Float32Array,
    kept_probability: Float32Array,
    kept_key: UInt32Array,
) -> int:
    """`sample_independent`, with coins that lean against what earlier ones have left at a node.

    ``node`` is one memory passed twice, 16 bytes a node: float64 (n_nodes, 2), whose first column
    is the degree, and float32 (n_nodes, 4), whose third column is the surplus, which is updated,
    and whose last is ``constant`` times the local resistance.
    """
    one = np.float32(1.0)
    key = stream_key(seed, stream)
    chance = np.empty(_BATCH, np.float32)
    n_kept = 0
    for start in range(0, u.size, _BATCH):
        size = min(_BATCH, u.size - start)
        for offset in range(size):
            row = start + offset
            i, j = np.uintp(u[row]), np.uintp(v[row])
            chance[offset] = weight[row] * (node_floats[i, 3] + node_floats[j, 3])
            arrived = np.float64(weight[row]) if i != j else 0.0
            node[i, 0] += arrived
            node[j, 0] += arrived
        _arrival_probabilities(
            u, v, weight, cards, card_ints, constant, squared_scale, is_local, start, size, chance
        )
        for offset in range(size):
            row = start + offset
            i, j = np.uintp(u[row]), np.uintp(v[row])
            if i == j:
                continue
            random_bits = hash_counter(key, np.uint64(row))
            probability = chance[offset]
            if probability < one:
                if probability <= 0.0:  # it may be too small for float32
                    continue
                scaled = weight[row] / probability
                near, far = (
                    min(scaled * node_floats[i, 3], one),
                    min(scaled * node_floats[j, 3], one),
                )
                leant = leaning(probability, near, far, node_floats[i, 2], node_floats[j, 2])
                stays = coin(random_bits) < leant  # the same coin, held against another chance
                surplus = np.float32(stays) - probability
                node_floats[i, 2] += near * surplus
                node_floats[j, 2] += far * surplus
                if not stays:
                    continue
            kept_u[n_kept] = u[row]
            kept_v[n_kept] = v[row]
            kept_weight[n_kept] = weight[row]
            kept_probability[n_kept] = probability
            kept_key[n_kept] = np.uint32(mix64(random_bits) >> _SHIFT_32)
            n_kept += 1
    return n_kept


@njit(cache=True, nogil=True)
def take_survivors(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    lowered: Float32Array,
    key: UInt32Array,
    taken_u: Int32Array,
    taken_v: Int32Array,
    taken_weight: Float32Array,
    taken_probability: Float32Array,
    taken_key: UInt32Array,
) -> None:
    """Fill the five ``taken_*`` arrays with the records whose ``lowered`` probability is not zero.

    The arrays must have one entry more than there are survivors: what is not taken is overwritten.
    """
    n_taken = 0
    for record in range(u.size):
        taken_u[n_taken] = u[record]
        taken_v[n_taken] = v[record]
        taken_weight[n_taken] = weight[record]
        taken_probability[n_taken] = lowered[record]
        taken_key[n_taken] = key[record]
        n_taken += lowered[record] > 0.0  # no branch, which coins would mispredict


@njit(cache=True, nogil=True)
def add_degrees(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    keep_probability: Float32Array,
    degree: FloatArray,
) -> None:
    """Add the conductance of every record to ``degree`` at both ends."""
    for record in range(u.size):
        conductance = np.float64(weight[record]) / np.float64(keep_probability[record])
        degree[u[record]] += conductance
        degree[v[record]] += conductance


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def stale_leverages(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    keep_probability: Float32Array,
    cards: Any,
    card_floats: Any,
    card_ints: Any,
    squared_scale: float,
    constant: float,
    was_struck: bool,
    leverage: Float32Array,
) -> None:
    """Fill ``leverage`` with leverages at the time of the cards, which are older than the records.

    A record of probability p < 1 was thrown for a leverage of ``p / constant`` times its weight in
    the sparsifier, ``1 / p``: its leverage is ``1 / constant`` and no card need be fetched. Others
    have ``weight * R``, infinite where the cards do not connect the ends.

    Where edges ``was_struck`` since coins were thrown, leverages may have grown: every card is
    fetched, and the larger of both leverages is taken.
    """
    n_embedded = np.uint32(cards.shape[0])
    local = np.uintp(card_floats.shape[1] - 2)
    kind = np.uintp(card_ints.shape[1] - 1)
    scale = np.float32(squared_scale)
    usual = np.float32(1.0 / constant)
    for start in range(0, u.size, _BATCH):
        stop = min(start + _BATCH, u.size)
        for record in range(start, stop):
            leverage[record] = usual
            if keep_probability[record] < 1.0 and not was_struck:
                continue
            first, second = np.uint32(u[record]), np.uint32(v[record])
            leverage[record] = np.inf
            if first < n_embedded and second < n_embedded:
                near = card_floats[first, local]
                leverage[record] = near + card_floats[second, local]
        for record in range(start, stop):
            is_certain = keep_probability[record] < 1.0 and not was_struck
            if is_certain or np.isinf(leverage[record]):
                continue
            i, j = np.uintp(u[record]), np.uintp(v[record])
            if card_ints[i, kind] == card_ints[j, kind]:
                resistance = leverage[record] + card_distance(cards, i, j) * scale
                conductance = weight[record] / keep_probability[record]
                leverage[record] = conductance * resistance
                if keep_probability[record] < 1.0:
                    leverage[record] = max(leverage[record], usual)
            else:
                leverage[record] = np.inf


@njit(cache=True, nogil=True)
def choose_coarse(
    weight: Float32Array,
    keep_probability: Float32Array,
    leverage: Float32Array,
    record_key: UInt32Array,
    on_forest: BoolArray,
    constant: float,
    seed: np.uint64,
    stream: np.uint64,
    chosen_row: Int32Array,
    chosen_conductance: Float32Array,
) -> int:
    """Choose each record with probability ``min(1, constant * leverage)``, forest records always.

    Fills the first entries of ``chosen_*``, ``conductance / probability`` among them, and returns
    how many.
    """
    key = stream_key(seed, stream)
    n_chosen = 0
    for record in range(leverage.size):
        current = np.float64(weight[record]) / np.float64(keep_probability[record])
        chance = 1.0 if on_forest[record] else constant * np.float64(leverage[record])
        if chance < 1.0:
            if coin(hash_counter(key, np.uint64(record_key[record]))) >= chance:
                continue
            current /= chance  # (B14) once more: the sample is unbiased for the buffer
        chosen_row[n_chosen] = record
        chosen_conductance[n_chosen] = current
        n_chosen += 1
    return n_chosen


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def score_records(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    keep_probability: Float32Array,
    cards: Any,
    card_floats: Any,
    card_ints: Any,
    squared_scale: float,
    local_factor: float,
    is_shortable: bool,
    score: Float32Array,
) -> None:
    """Fill ``score`` with ``weight * R``, R the counted resistance between the ends of a record.

    R is the sum of the local resistances and the distance on the cards; never more than 1/c, c the
    record's conductance, and infinite where the cards do not connect the ends. Where the local
    resistances are bounds, ``local_factor`` is 0. Where they are ``local_factor > 0`` times the
    inverse degrees, the record's own share ``2c/(d_u d_v)`` is taken off before that factor. Where
    ``is_shortable`` too (no ridge), R is never less than what shorting all other nodes leaves, the
    local part divided by ``1 - c^2/(d_u d_v)`` (B5). Batches as in `sample_independent`.
    """
    n_embedded = np.uint32(cards.shape[0])
    local = np.uintp(card_floats.shape[1] - 2)
    kind = np.uintp(card_ints.shape[1] - 1)
    scale = np.float32(squared_scale)
    is_exact = local_factor > 0.0
    per_local = 1.0 / local_factor if is_exact else 1.0
    factor = local_factor if is_exact else 1.0
    apart = np.empty(_BATCH, np.float64)
    least = np.empty(_BATCH, np.float32)
    for start in range(0, u.size, _BATCH):
        size = min(_BATCH, u.size - start)
        for offset in range(size):
            record = start + offset
            first, second = np.uint32(u[record]), np.uint32(v[record])
            apart[offset] = np.inf
            if first < n_embedded and second < n_embedded:
                near = np.float64(card_floats[first, local]) * per_local
                far = np.float64(card_floats[second, local]) * per_local
                own = np.float64(weight[record]) / np.float64(keep_probability[record])
                product = near * far * own if is_exact else 0.0
                # (B16) without the projected term; the factor comes later
                apart[offset] = near + far - 2.0 * product
                around = 1.0 - own * product
                least[offset] = 0.0
                if is_shortable:
                    # below this the two nodes have hardly another edge, and R is 1 / own
                    is_alone = around < _LEAST_AROUND
                    shorted = 1.0 / own if is_alone else apart[offset] / around
                    least[offset] = shorted - apart[offset]
        for offset in range(size):
            record = start + offset
            score[record] = np.inf
            if np.isinf(apart[offset]):
                continue
            i, j = np.uintp(u[record]), np.uintp(v[record])
            if card_ints[i, kind] == card_ints[j, kind]:
                rest = max(card_distance(cards, i, j) * scale, least[offset])
                largest = np.float64(keep_probability[record]) / np.float64(weight[record])
                rest = min(np.float64(rest), max(largest - apart[offset], 0.0))  # (B3): w R <= 1
                score[record] = weight[record] * min(factor * apart[offset] + rest, largest)


@njit(cache=True, nogil=True)
def count_survivors(
    keep_probability: Float32Array,
    score: Float32Array,
    on_forest: BoolArray,
    lowest: float,
    per_octave: float,
    counts: FloatArray,
    sums: FloatArray,
) -> float:
    """Histogram of ``x = score / keep_probability``, where a record survives with min(1, c x).

    Adds to ``counts`` and ``sums`` (of x) the records of every bin of log2(x), from ``lowest`` on,
    ``per_octave`` bins an octave; returns the number of records that survive whatever c is.
    """
    n_certain = 0.0
    for record in range(score.size):
        if on_forest[record] or np.isinf(score[record]):
            n_certain += 1.0
            continue
        ratio = np.float64(score[record]) / np.float64(keep_probability[record])
        place = int((np.log2(max(ratio, 1e-300)) - lowest) * per_octave)
        place = min(max(place, 0), counts.size - 1)
        counts[place] += 1.0
        sums[place] += ratio
    return n_certain


@njit(cache=True, nogil=True)
def lower_probabilities(
    keep_probability: Float32Array,
    score: Float32Array,
    on_forest: BoolArray,
    constant: float,
    lowered: Float32Array,
) -> float:
    """New keep-probabilities ``min(p, constant * score)`` of stored records (B14).

    Records on the spanning forest keep the probability they have. Fills ``lowered``, which may be
    ``score``, and returns the expected number of survivors.
    """
    expected_survivors = 0.0
    for record in range(score.size):
        probability = keep_probability[record]
        if not on_forest[record]:
            # (B14): never above p, so that this coin and those before multiply to p'
            probability = min(probability, np.float32(constant * np.float64(score[record])))
        lowered[record] = probability
        expected_survivors += np.float64(probability) / np.float64(keep_probability[record])
    return expected_survivors


@njit(cache=True, nogil=True)
def throw_coins(
    keep_probability: Float32Array,
    lowered: Float32Array,
    record_key: UInt32Array,
    seed: np.uint64,
    stream: np.uint64,
) -> int:
    """Throw the coin of every stored record: set ``lowered`` to zero where it does not survive.

    It survives with probability ``lowered / keep_probability``. Returns the number of survivors.
    """
    key = stream_key(seed, stream)
    n_survivors = 0
    for record in range(lowered.size):
        if lowered[record] < keep_probability[record]:
            thrown = coin(hash_counter(key, np.uint64(record_key[record])))
            # (B14): survives with p' / p
            if thrown * np.float64(keep_probability[record]) >= np.float64(lowered[record]):
                lowered[record] = 0.0
                continue
        n_survivors += 1
    return n_survivors


@njit(cache=True, nogil=True)
def degree_variance(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    keep_probability: Float32Array,
    degree: FloatArray,
    variance: FloatArray,
) -> None:
    """Add every node's weighted degree, and an unbiased estimate of its variance.

    A record of weight a kept with probability p counts a/p in ``degree`` and a^2 (1-p) / p^2 in
    ``variance``.
    """
    for record in range(u.size):
        probability = np.float64(keep_probability[record])
        scaled = np.float64(weight[record]) / probability
        spread = scaled * scaled * (1.0 - probability)  # in the mean a^2 (1/p - 1)
        degree[u[record]] += scaled
        degree[v[record]] += scaled
        variance[u[record]] += spread
        variance[v[record]] += spread
