"""Loops over edge records for resistances: matrix rows, right-hand sides, distances (B8)."""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.hash_signs import mix64, sign_word

_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def add_projected_nodes(
    node: Any, amount: float, seed: Any, scale: float, word: int, out: Any
) -> None:
    """Add columns of amount^(1/2) Q to ``out`` (n_nodes, k <= 64), Q = signs of the nodes.

    Row r stands for ``node[r]``; the signs are those of the probes from 64 * ``word`` on.
    """
    size = np.sqrt(amount) * scale  # (B8): the ridge's part, gamma^(1/2) q'
    seed_hash = mix64(seed)
    for row in range(out.shape[0]):
        bits = sign_word(seed_hash, np.uint64(node[row]), word)
        for column in range(out.shape[1]):
            out[row, column] += size if bits & _ONE else -size
            bits >>= _ONE


@njit(cache=True, nogil=True)
def spread_over_edges(
    u: Any,
    v: Any,
    weight: Any,
    stride: int,
    vector: Any,
    sums: Any,
    totals: Any,
    low: int,
    high: int,
) -> None:
    """Add to ``sums`` and ``totals`` the weighted values and the weights of neighbors.

    Only for the nodes ``low .. high - 1``, and along every ``stride``-th edge.
    """
    for edge in range(0, u.size, stride):
        i = u[edge]
        j = v[edge]
        if low <= i < high:
            sums[i] += weight[edge] * vector[j]
            totals[i] += weight[edge]
        if low <= j < high:
            sums[j] += weight[edge] * vector[i]
            totals[j] += weight[edge]


@njit(cache=True, nogil=True)
def count_ends(u: Any, v: Any, rank: Any, n_entries: Any) -> None:
    """Add to ``n_entries`` (n_nodes,) how many records end at each rank, without loops."""
    for record in range(u.size):
        if u[record] != v[record]:
            n_entries[rank[u[record]]] += 1
            n_entries[rank[v[record]]] += 1


@njit(cache=True, nogil=True)
def fill_rows(
    u: Any,
    v: Any,
    values: Any,
    rank: Any,
    cursor: Any,
    indices: Any,
    data: Any,
    low: int,
    high: int,
) -> None:
    """Fill the CSR rows ``low .. high - 1`` with their records, in the order of the records.

    Rows and columns are ranks; both ends of a record have its value. ``cursor`` starts at the first
    entry of every row and ends behind its last.
    """
    for record in range(u.size):
        if u[record] == v[record]:
            continue
        i = rank[u[record]]
        j = rank[v[record]]
        if low <= i < high:
            place = cursor[i]
            cursor[i] = place + 1
            indices[place] = j
            data[place] = values[record]
        if low <= j < high:
            place = cursor[j]
            cursor[j] = place + 1
            indices[place] = i
            data[place] = values[record]


@njit(cache=True, nogil=True)
def estimated_resistances(
    vectors: Any, inverse_degree: Any, component: Any, u: Any, v: Any, conductance: Any, out: Any
) -> None:
    """Fill ``out`` with 1/d_u + 1/d_v - 2 w / (d_u d_v) + ||vectors_u - vectors_v||^2.

    ``conductance`` is w, one number or one for each pair. Infinite if the components differ, zero
    if u = v.
    """
    n_columns = vectors.shape[1]
    for pair in range(u.size):
        i = u[pair]
        j = v[pair]
        if component[i] != component[j]:
            out[pair] = np.inf
            continue
        if i == j:
            out[pair] = 0.0
            continue
        total = np.float32(0.0)
        for column in range(n_columns):
            difference = vectors[i, column] - vectors[j, column]
            total += difference * difference
        first = np.float64(inverse_degree[i])
        second = np.float64(inverse_degree[j])
        own = np.float64(conductance[pair if conductance.size > 1 else 0])
        # the right side of (B16)
        out[pair] = first + second - 2.0 * own * first * second + np.float64(total)
