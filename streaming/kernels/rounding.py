"""Dependent rounding: coins of many edges thrown together so that degrees come out even.

Every edge survives with exactly its own probability, but the coins of edges that share a node lean
against each other, so the number of survivors at a node hardly strays from its expectation
(ALGORITHMS B.6).

Probabilities become multiples of 2^-n_bits, one independent coin each. Then bit after bit, from the
lowest, the edges whose value has that bit are linked into trails, two at a node, and along every
trail one unit is given and taken in turn, one fair coin per trail deciding who begins. That clears
the bit, is fair to every edge, and changes the sum at a node only where a trail ends: at most one
edge per node and bit, half as much at every lower bit. (An odd cycle has to break the turn at one
node.) Above the top bit every value is 0 or 1.

Trails are never walked. While the edges pass by, a node remembers the open end that waits there and
where the other end of that trail is; an edge knows its trail and whether it begins with or against
it. Joining two trails is one entry in a table, and the coins are read off afterwards.
"""

import math
from typing import Any

import numpy as np
from numba import njit

from solvers.arrays import BoolArray, Float32Array, Int32Array, UInt32Array
from streaming.kernels.sampling import hash_counter, stream_key

_SHIFT_11 = np.uint64(11)
_ONE = np.uint64(1)
_UNIT = 1.0 / (1 << 53)
_BATCH = 256
_FEWEST_BITS, _MOST_BITS = 4, 10


def rounding_bits(n_edges: int, n_nodes: int) -> int:
    """Bits that leave a degree a variance of at most 1/10 from the independent coins.

    An edge's own coin has at most the variance ``4^-n_bits / 4``, a node of mean degree
    ``2 n_edges / n_nodes`` that many of them. The trails leave about 1/6.
    """
    edges_per_node = 2.0 * n_edges / max(n_nodes, 1)
    wanted = math.ceil(0.5 * math.log2(max(2.5 * edges_per_node, 1.0)))
    return min(max(wanted, _FEWEST_BITS), _MOST_BITS)


def round_dependently(
    u: Int32Array,
    v: Int32Array,
    probability: Float32Array,
    key: UInt32Array,
    n_nodes: int,
    seed: int,
    stream: int,
) -> BoolArray:
    """Survivors of one throw of dependent coins that evens out degrees.

    Parameters
    ----------
    u, v : (n_edges,) int32
        Endpoints below ``n_nodes``, no self-loops; parallel edges are edges of their own.
    probability : (n_edges,) float32
        Of surviving, in (0, 1]; 1 is for certain.
    key : (n_edges,) uint32
        Names an edge for its own coin.
    n_nodes : int
        Number of nodes.
    seed, stream : int
        Of the coins, both below 2^64; streams of one seed are independent.

    Returns
    -------
    (n_edges,) bool
        True where the edge survives; decided by the edges, their order, ``seed`` and ``stream``.

    Notes
    -----
    Takes 7 to 8 bytes per edge and 8 per node besides the result, and time linear in the edges.
    """
    n_bits = rounding_bits(u.size, n_nodes)
    value = np.empty(u.size, np.uint16)
    code = np.empty(u.size, np.int32)
    # a trail begins where two nodes wait for nothing, and every edge fills or frees such places
    joined = np.empty((u.size + n_nodes) // 2 + 1, np.int32)
    sign = np.empty(joined.size // 8 + 1, np.uint8)
    waiting = np.empty((n_nodes, 2), np.int32)
    survives = np.empty(u.size, np.bool_)
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        coins = np.uint64(seed), np.uint64(stream)
        _to_multiples(probability, key, n_bits, *coins, value)
        for bit in range(n_bits):
            waiting.fill(-1)
            n_trails = _add_edges(u, v, value, bit, waiting, code, sign, joined)
            _draw_signs(joined, n_trails, *coins, np.uint64(bit), sign)
        _finish(value, code, sign, n_bits, survives)
    return survives


@njit(cache=True, nogil=True)
def _to_multiples(
    probability: Any, key: Any, n_bits: int, seed: Any, stream: Any, value: Any
) -> None:
    """Fill ``value`` with probabilities in units of 2^-n_bits, rounded by a fair coin each."""
    coins = stream_key(seed, stream)
    units = float(1 << n_bits)
    for edge in range(probability.size):
        exact = units * float(probability[edge])
        below = int(exact)
        coin = float(hash_counter(coins, np.uint64(key[edge])) >> _SHIFT_11) * _UNIT
        value[edge] = below + 1 if coin < exact - below else below


@njit(cache=True, nogil=True)
def _add_edges(
    u: Any,
    v: Any,
    value: Any,
    bit: int,
    waiting: Any,
    code: Any,
    sign: Any,
    joined: Any,
) -> int:
    """Clear the bit before ``bit`` and link what has ``bit``; the number of trails."""
    n_trails = 0
    odd = np.empty(_BATCH, np.int32)
    touched = np.zeros(1, np.int32)
    for start in range(0, u.size, _BATCH):
        stop = min(start + _BATCH, u.size)
        n_odd = _settle(value, code, sign, bit, start, stop, odd)
        _touch(u, v, odd[:n_odd], waiting, touched)
        n_trails = _link(u, v, odd[:n_odd], waiting, code, joined, n_trails)
    return n_trails


@njit(cache=True, nogil=True, inline="always")
def _settled(edge_value: Any, edge_code: Any, sign: Any, unit: Any) -> Any:
    """Value of an edge whose bit ``unit`` is cleared by giving or taking one unit."""
    trail = edge_code >> 1
    gives = ((sign[trail >> 3] >> (trail & 7)) ^ edge_code) & 1
    return edge_value - unit if gives else edge_value + unit


@njit(cache=True, nogil=True)
def _settle(value: Any, code: Any, sign: Any, bit: int, start: int, stop: int, odd: Any) -> int:
    """Clear the bit before ``bit`` in a batch; list in ``odd`` who has ``bit``, return how many."""
    unit = (1 << bit) >> 1
    n_odd = 0
    for edge in range(start, stop):
        edge_value = int(value[edge])
        if edge_value & unit:
            edge_value = _settled(edge_value, code[edge], sign, unit)
            value[edge] = edge_value
        odd[n_odd] = edge
        n_odd += (edge_value >> bit) & 1
    return n_odd


@njit(cache=True, nogil=True)
def _finish(value: Any, code: Any, sign: Any, n_bits: int, survives: Any) -> None:
    """Clear the top bit; fill ``survives`` with whether anything is left."""
    unit = 1 << (n_bits - 1)
    for edge in range(value.size):
        edge_value = int(value[edge])
        if edge_value & unit:
            edge_value = _settled(edge_value, code[edge], sign, unit)
        survives[edge] = edge_value > 0


@njit(cache=True, nogil=True)
def _touch(u: Any, v: Any, odd: Any, waiting: Any, touched: Any) -> None:
    """Bring the ends of a batch into the cache; a quarter off the time with a million nodes.

    These reads wait for nothing, so many run at once; those of `_link` wait for each other.
    ``touched`` takes their sum, lest the compiler drop them.
    """
    for edge in odd:
        touched[0] ^= waiting[u[edge], 0] ^ waiting[v[edge], 0]


@njit(cache=True, nogil=True)
def _link(u: Any, v: Any, odd: Any, waiting: Any, code: Any, joined: Any, n_trails: int) -> int:
    """Add a batch of edges to the trails; returns the number of trails begun so far.

    A *code* is 2 * trail + (does the edge give when the trail's first edge takes). ``waiting`` has
    two entries per node: the code of the edge whose end waits there, or -1; and of that trail's
    other open end 2 * node + (its sign within the trail), or -1 if there is none. ``joined`` has,
    per trail, -1 or the code that its first edge has in the older trail it was joined to.
    """
    for edge in odd:
        first, second = u[edge], v[edge]
        first_code, second_code = waiting[first, 0], waiting[second, 0]
        if first_code < 0 and second_code < 0:
            code[edge] = 2 * n_trails
            joined[n_trails] = -1
            _wait(waiting, first, 2 * n_trails, 2 * second)
            _wait(waiting, second, 2 * n_trails, 2 * first)
            n_trails += 1
        elif second_code < 0:
            code[edge] = _lengthen(waiting, first, second)
        elif first_code < 0:
            code[edge] = _lengthen(waiting, second, first)
        else:
            code[edge] = first_code ^ 1
            far_first, far_second = waiting[first, 1], waiting[second, 1]
            waiting[first, 0] = -1
            if far_first >= 0 and far_first >> 1 == second:  # the trail closes
                if first_code == second_code:
                    waiting[second, 0] = -1
                else:  # an odd cycle: the edge waits at the second node, the older end gives up
                    waiting[second, 1] = -1
                continue
            waiting[second, 0] = -1
            differ = (first_code ^ second_code) & 1
            first_trail, second_trail = first_code >> 1, second_code >> 1
            older = min(first_trail, second_trail)
            if first_trail < second_trail:
                joined[second_trail] = 2 * first_trail + differ
                if far_second >= 0:
                    far_second ^= differ
            else:
                joined[first_trail] = 2 * second_trail + differ
                if far_first >= 0:
                    far_first ^= differ
                code[edge] = second_code ^ 1
            if far_first >= 0:
                _wait(waiting, far_first >> 1, 2 * older + (far_first & 1), far_second)
            if far_second >= 0:
                _wait(waiting, far_second >> 1, 2 * older + (far_second & 1), far_first)
    return n_trails


@njit(cache=True, nogil=True, inline="always")
def _wait(waiting: Any, node: Any, end_code: Any, far: Any) -> None:
    """Put an open end at ``node``."""
    waiting[node, 0] = end_code
    waiting[node, 1] = far


@njit(cache=True, nogil=True, inline="always")
def _lengthen(waiting: Any, node: Any, new_node: Any) -> Any:
    """Lengthen the trail that waits at ``node`` by an edge to ``new_node``; the edge's code."""
    end_code, far = waiting[node, 0] ^ 1, waiting[node, 1]
    waiting[node, 0] = -1
    _wait(waiting, new_node, end_code, far)
    if far >= 0:
        waiting[far >> 1, 1] = 2 * new_node + (end_code & 1)
    return end_code


@njit(cache=True, nogil=True)
def _draw_signs(joined: Any, n_trails: int, seed: Any, stream: Any, draw: Any, sign: Any) -> None:
    """Fill the bits of ``sign``: a fair coin per trail, the older one's where it was joined."""
    coins = stream_key(stream_key(seed, stream), draw)
    for trail in range(n_trails):
        parent = joined[trail]
        if parent < 0:
            drawn = np.int64(hash_counter(coins, np.uint64(trail)) & _ONE)
        else:
            older = parent >> 1
            drawn = np.int64(((sign[older >> 3] >> (older & 7)) ^ parent) & 1)
        if trail & 7 == 0:
            sign[trail >> 3] = drawn
        else:
            sign[trail >> 3] |= drawn << (trail & 7)
