"""Spanning forests by Kruskal's algorithm, conductances taken in classes of a factor of two."""

from typing import Any

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, Int32Array
from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.components import find_root

N_CLASSES = 256
"""Classes of conductance: the exponents of float32, zero and infinity among them."""

_MANTISSA_BITS = 23


@njit(cache=True, nogil=True)
def classify(
    weight: Float32Array, keep_probability: Float32Array, classes: Any, counts: Any
) -> None:
    """Fill ``classes`` (uint8) with the exponents of the conductances, and count them.

    Heavier records have larger classes. Adds to ``counts`` (N_CLASSES,).
    """
    for record in range(weight.size):
        conductance = np.float32(weight[record] / keep_probability[record])
        number = conductance.view(np.int32) >> _MANTISSA_BITS  # > 0: there is no sign bit
        classes[record] = number
        counts[number] += 1


@njit(cache=True, nogil=True)
def mark_forest(
    u: Int32Array,
    v: Int32Array,
    classes: Any,
    number: int,
    parent: Int32Array,
    on_forest: BoolArray,
) -> int:
    """Mark the records of class ``number`` that join two trees, in their order.

    ``parent`` starts as ``arange(n_nodes)``, ``on_forest`` False; both are changed. Returns the
    number of marked records.
    """
    n_marked = 0
    for record in range(u.size):
        if classes[record] != number:
            continue
        root_u = find_root(parent, np.int64(u[record]))
        root_v = find_root(parent, np.int64(v[record]))
        if root_u != root_v:
            # Kruskal: the caller takes heavier classes first
            parent[max(root_u, root_v)] = min(root_u, root_v)
            on_forest[record] = True
            n_marked += 1
    return n_marked
