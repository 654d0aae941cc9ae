"""Exact resistances inside small groups of nodes, one dense matrix each, in float64.

Elimination keeps graphs graphs: what is left when a node goes is a graph of the nodes that remain,
of conductances that are sums of positive numbers, and so is each degree (Grassmann, Taksar and
Heyman 1985). Nothing is ever subtracted, so each entry of the inverse has a small relative error,
whatever the weights are, and no shift is needed to make the matrix definite.
"""

from typing import Any

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array
from peewit.solvers.kernels.compilation import njit

ROUNDING = 2.0**-50
"""Relative error of an entry of an inverse, for each node of the group."""

_UP = 1.0 + 2.0**-23
"""Makes up for rounding to float32."""


@njit(cache=True, nogil=True)
def add_inside(
    u: Int32Array,
    v: Int32Array,
    weight: Float32Array,
    keep_probability: Float32Array,
    group: Any,
    slot: Any,
    start: Any,
    size: Any,
    first: int,
    blocks: FloatArray,
) -> None:
    """Add the conductances inside some groups to their blocks; only ``blocks`` changes.

    Parameters
    ----------
    u, v, weight, keep_probability : (n_records,)
        Records; loops change nothing.
    group, slot : (n_nodes,) int32
        Group of a node, and its number in there.
    start, size : (n_groups,)
        Where the block of a group begins in ``blocks``, and how many nodes it has.
    first : int
        Number of the first of these groups; the others follow.
    blocks : float64
        Symmetric matrices (size, size), one behind the other; changed.
    """
    for record in range(u.size):
        own = group[u[record]] - first
        if own < 0 or own >= size.size or group[v[record]] - first != own:
            continue
        conductance = np.float64(weight[record]) / np.float64(keep_probability[record])
        near, far = slot[u[record]], slot[v[record]]
        blocks[start[own] + near * size[own] + far] += conductance
        blocks[start[own] + far * size[own] + near] += conductance


@njit(cache=True, nogil=True)
def bound_groups(
    blocks: FloatArray,
    start: Any,
    size: Any,
    node: Any,
    inverse_degree: FloatArray,
    factor: float,
    bounds: Float32Array,
) -> None:
    """Fill ``bounds`` with r so that ``r_u + r_v`` is at least any counted resistance in a group.

    The counted resistance of a pair is that inside its group, less ``1 - factor`` times what the
    degrees tell of it (B16). No r is less than ``factor`` times the inverse degree.

    Parameters
    ----------
    blocks, start, size
        As in `add_inside`; each group must be connected, and its block is changed.
    node : integers
        The nodes of these groups, one group after the other.
    inverse_degree : (n_nodes,) float64
        Of the whole graph.
    bounds : (n_nodes,) float32
        Rounded up.
    """
    most = size.max()
    inverse = np.empty((most, most))
    base = np.empty(most)
    done = 0
    for number in range(size.size):
        n = size[number]
        members = node[done : done + n]
        done += n
        block = blocks[start[number] : start[number] + n * n].reshape((n, n))
        _eliminate(block)
        _invert(block, inverse)
        local = inverse_degree[members]
        _count(block, local, 1.0 - factor, inverse)
        _share_out(inverse, n, factor * local, base)
        for i in range(n):
            bounds[members[i]] = np.float32(base[i] * _UP)


# four rows at a time and contraction: 2.7 times the speed at 200 nodes
@njit(cache=True, nogil=True, fastmath={"contract"})
def _eliminate(block: Any) -> None:
    """Turn the upper part into factors: d_k on the diagonal when k goes, c_kj / d_k behind it.

    The lower part stays; the last node is the ground.
    """
    n = block.shape[0]
    for i in range(n - 1):
        row = block[i]
        k = 0
        while k + 3 < i:
            p, q, r, s = block[k], block[k + 1], block[k + 2], block[k + 3]
            a, b, c, d = p[i] * p[k], q[i] * q[k + 1], r[i] * r[k + 2], s[i] * s[k + 3]
            for j in range(i + 1, n):
                row[j] += a * p[j] + b * q[j] + c * r[j] + d * s[j]
            k += 4
        while k < i:
            p = block[k]
            a = p[i] * p[k]
            for j in range(i + 1, n):
                row[j] += a * p[j]
            k += 1
        row[i] = 0.0
        for j in range(i + 1, n):
            row[i] += row[j]
        for j in range(i + 1, n):
            row[j] /= row[i]


# as above
@njit(cache=True, nogil=True, fastmath={"contract"})
def _invert(block: Any, inverse: Any) -> None:
    """Fill ``inverse`` with that of the grounded Laplacian, from its factors; the ground has zeros.

    Row k is the mean of the rows behind it, weighted by its factors, plus 1 / d_k at k itself.
    """
    n = block.shape[0]
    inverse[n - 1, :n] = 0.0
    inverse[:n, n - 1] = 0.0
    for k in range(n - 2, -1, -1):
        factor, row = block[k], inverse[k]
        row[k : n - 1] = 0.0
        i = k + 1
        while i + 3 < n - 1:
            p, q, r, s = inverse[i], inverse[i + 1], inverse[i + 2], inverse[i + 3]
            a, b, c, d = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
            for j in range(k + 1, n - 1):
                row[j] += a * p[j] + b * q[j] + c * r[j] + d * s[j]
            i += 4
        while i < n - 1:
            p = inverse[i]
            for j in range(k + 1, n - 1):
                row[j] += factor[i] * p[j]
            i += 1
        row[k] = 1.0 / factor[k]
        for i in range(k + 1, n - 1):
            row[k] += factor[i] * row[i]
            inverse[i, k] = row[i]


@njit(cache=True, nogil=True)
def _count(block: Any, local: Any, part: float, inverse: Any) -> None:
    """Turn an inverse into counted resistances, no less than they are."""
    n = block.shape[0]
    margin = ROUNDING * n
    for i in range(n):
        for j in range(i):
            ends = inverse[i, i] + inverse[j, j]
            resistance = ends - 2.0 * inverse[i, j] + margin * ends
            by_degrees = local[i] + local[j] - 2.0 * block[i, j] * local[i] * local[j]
            resistance -= part * by_degrees
            inverse[i, j] = resistance
            inverse[j, i] = resistance
    for i in range(n):
        inverse[i, i] = 0.0


@njit(cache=True, nogil=True)
def _share_out(counted: Any, n: int, least: Any, bound: Any) -> None:
    """Fill ``bound`` so that the sum at two nodes is no less than what is ``counted`` there.

    It starts from the diagonal of a pseudo-inverse, which needs little raising. After that none can
    be lowered alone, nor is any below ``least``.
    """
    total = 0.0
    for i in range(n):
        own = 0.0
        for j in range(n):
            own += counted[i, j]
        bound[i] = own / n
        total += own
    for i in range(n):
        bound[i] -= 0.5 * total / (n * n)
    raised = np.zeros(n)
    for i in range(n):
        for j in range(n):
            if j != i:
                raised[i] = max(raised[i], 0.5 * (counted[i, j] - bound[i] - bound[j]))
    for i in range(n):
        bound[i] = max(bound[i] + raised[i], least[i])
    for i in range(n):
        needed = least[i]
        for j in range(n):
            if j != i:
                needed = max(needed, counted[i, j] - bound[j])
        bound[i] = needed
