"""Random projection: signed sums of edge rows, the right-hand sides of resistances (B8)."""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.hash_signs import mix64, sign_word

_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def project_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    key: Any,
    node: Any,
    seed: Any,
    scale: float,
    word: int,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill rows of B' W^(1/2) Q (n_nodes, k <= 64) from CSR rows whose entries carry sign keys.

    B has +1 at the end with the smaller number ``node[row]``. Q = signs * ``scale``, the signs of
    probes from 64 * ``word`` on.
    """
    n_columns = out.shape[1]
    total = np.empty(n_columns, np.float32)
    seed_hash = mix64(seed)
    for row in range(start, stop):
        total[:] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            size = np.float32(np.sqrt(weight[entry]) * scale)  # (B8): a^(1/2) q
            if node[indices[entry]] < node[row]:
                size = -size
            bits = sign_word(seed_hash, np.uint64(key[entry]), word)
            for column in range(n_columns):
                total[column] += size if (bits >> np.uint64(column)) & _ONE else -size
        for column in range(n_columns):
            out[row, column] = total[column]
