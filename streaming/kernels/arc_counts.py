"""Loop of a pass that counts what nodes send and receive.

Partners are counted by linear counting (Whang, Vander-Zanden and Taylor, ACM Transactions on
Database Systems 15, 1990): each sets one of the 64 bits of its node, by its hash.
"""

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, UInt64Array
from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.hash_signs import mix64

_ONE = np.uint64(1)
_LAST = np.uint64(63)


@njit(cache=True, nogil=True)
def count_arcs(
    u: Int32Array, v: Int32Array, weight: Float32Array, sums: FloatArray, partners: UInt64Array
) -> None:
    """Add edges from u to v to (n_nodes, 2) sums of weights, sent and received, and to partners.

    ``partners``, (n_nodes, 2), has a bit for each 64th of those written to, and heard from.
    """
    for edge in range(u.size):
        i = u[edge]
        j = v[edge]
        value = np.float64(weight[edge])
        sums[i, 0] += value
        sums[j, 1] += value
        partners[i, 0] |= _ONE << (mix64(np.uint64(j)) & _LAST)
        partners[j, 1] |= _ONE << (mix64(np.uint64(i)) & _LAST)
