"""Steps of a layout in the plane: neighbors attract, strangers repel; discs are placed in rings.

Random numbers hash a key, the step and the node, so a step does not depend on how its rows are
divided between threads.
"""

import math
from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.hash_signs import mix64

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(11)
_UNIT = 1.0 / (1 << 53)
_LEAST_DISTANCE = np.float32(1e-3)
_LONGEST = np.float32(4.0)


@njit(cache=True, nogil=True)
def move_rows(
    indptr: Any,
    indices: Any,
    cumulative: Any,
    component: Any,
    members: Any,
    first_member: Any,
    points: Any,
    out: Any,
    rate: Any,
    n_strangers: int,
    key: Any,
    start: int,
    stop: int,
) -> None:
    """Fill ``out[start:stop]`` with the points of these rows after one step of (A6).

    Parameters
    ----------
    indptr, indices : CSR arrays
        The neighbors of each node.
    cumulative : (n_entries,) float32
        Sums of the weights of a row up to each of its entries.
    component : (n_nodes,) int32
    members, first_member : (n_nodes,), (n_components + 1,) int
        The nodes by component, and the place where each component begins.
    points, out : (n_nodes, 2) float32
        Before and after the step.
    rate : float32
        Length of the step, up to 1 / 2, where two nodes that attract each other meet.
    n_strangers : int
        Nodes of the same component that repel each node.
    key : uint64
        Of this step.
    """
    for row in range(start, stop):
        x, y = points[row, 0], points[row, 1]
        begin, end = indptr[row], indptr[row + 1]
        if begin == end:
            out[row, 0], out[row, 1] = x, y
            continue
        word = mix64(key ^ (np.uint64(row) * _GOLDEN))
        sought = np.float32(np.float64(word >> _SHIFT) * _UNIT) * cumulative[end - 1]
        low, high = begin, end - 1
        while low < high:
            middle = (low + high) // 2
            if cumulative[middle] > sought:
                high = middle
            else:
                low = middle + 1
        other = indices[low]
        dx, dy = points[other, 0] - x, points[other, 1] - y
        pull = np.float32(1.0) / (np.float32(1.0) + dx * dx + dy * dy)
        move_x, move_y = pull * dx, pull * dy
        first = first_member[component[row]]
        n_members = np.uint64(first_member[component[row] + 1] - first)
        for _ in range(n_strangers):
            word = mix64(word + _GOLDEN)
            stranger = members[first + np.int64(word % n_members)]
            dx, dy = x - points[stranger, 0], y - points[stranger, 1]
            square = dx * dx + dy * dy
            push = np.float32(1.0) / ((_LEAST_DISTANCE + square) * (np.float32(1.0) + square))
            push = min(push, _LONGEST / (_LEAST_DISTANCE + math.sqrt(square)))
            move_x += push * dx
            move_y += push * dy
        out[row, 0] = x + rate * move_x
        out[row, 1] = y + rate * move_y


@njit(cache=True, nogil=True)
def place_in_rings(radius: Any, centers: Any) -> None:
    """Fill ``centers`` so that no two discs overlap: the first in the middle, rings around it.

    ``radius`` is (n_discs,), positive and from the largest to the smallest; ``centers`` (n_discs,
    2).
    """
    n_discs = radius.size
    inner, disc = 0.0, 0
    while disc < n_discs:
        thickest = radius[disc]
        if inner == 0.0:
            centers[disc, 0] = centers[disc, 1] = 0.0
            inner = thickest
            disc += 1
            continue
        middle = inner + thickest
        first, angle = disc, 0.0
        while disc < n_discs:
            if disc > first:
                step = 2.0 * math.asin((radius[disc - 1] + radius[disc]) / (2.0 * middle))
                back = 2.0 * math.asin((radius[first] + radius[disc]) / (2.0 * middle))
                if angle + step + back > 2.0 * math.pi:
                    break
                angle += step
            centers[disc, 0] = middle * math.cos(angle)
            centers[disc, 1] = middle * math.sin(angle)
            disc += 1
        inner = middle + thickest
