"""Resistances without a solve where a graph is made of small dense parts.

The resistance inside a part bounds that in the whole graph (B5), and elimination gives it exactly
in a part of few nodes. Edges between parts have no bound but their own resistance, so they stay for
certain (B21). That serves where few edges lie between parts and few paths lead outside: rings of
accounts, not graphs of hubs.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, Int64Array
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.kernels.cluster_resistances import add_inside, bound_groups
from peewit.streaming.sparsifier.settings_and_state import Records

MOST_TOGETHER: Final = 256
"""Most nodes of a part: the elimination takes time with the third power of them."""

_NUMBERS_PER_NODE: Final = 16
"""Matrix entries that are held at once for each node: less than the vectors of an embedding."""


def bounds_inside(
    chunks: Sequence[Records],
    group: Int32Array,
    inverse_degree: FloatArray,
    factor: float,
    *,
    parallel: Parallel,
) -> Float32Array:
    """Local resistances whose sum at two nodes of a group bounds their counted resistance (B21).

    The result does not depend on ``parallel``.

    Parameters
    ----------
    group : (n_nodes,) int32
        Numbers from 0; the records inside each group, of at most a few hundred nodes, connect it.
    inverse_degree : (n_nodes,) float64
        Of the buffer; zero at isolated nodes.
    factor : float
        What the resistance that degrees tell counts with, see `local_factor`.

    Returns
    -------
    (n_nodes,) float32
        Unit 1 / weight.
    """
    node = np.argsort(group, kind="stable")
    size = np.bincount(group)
    first = np.concatenate([[0], np.cumsum(size)])
    slot = np.empty(group.size, np.int32)
    slot[node] = np.arange(group.size) - np.repeat(first[:-1], size)
    bounds = np.empty(group.size, np.float32)
    cuts = _batches(size**2, max(_NUMBERS_PER_NODE * group.size, MOST_TOGETHER**2))

    def fill(batch: int) -> None:
        low, high = int(cuts[batch]), int(cuts[batch + 1])
        ends = np.cumsum(size[low:high] ** 2)
        blocks = np.zeros(int(ends[-1]))
        start = np.concatenate([[0], ends[:-1]])
        place = start, size[low:high], low
        for chunk in chunks:
            add_inside(*chunk.columns[:4], group, slot, *place, blocks)
        members = node[first[low] : first[high]]
        bound_groups(blocks, *place[:2], members, inverse_degree, factor, bounds)

    for _ in parallel(fill, range(cuts.size - 1)):
        pass
    return bounds


def _batches(numbers: Int64Array, most: int) -> Int64Array:
    """(n_batches + 1,) starts of batches of groups; their ``numbers`` sum to about ``most``."""
    batch = (np.cumsum(numbers) - 1) // most
    return np.concatenate([np.flatnonzero(np.diff(batch, prepend=-1)), [numbers.size]])
