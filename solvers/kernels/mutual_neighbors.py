"""Loops over lists of neighbors."""

from peewit.solvers.arrays import BoolArray, IntArray
from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def mark_mutual(neighbors: IntArray, first: int, is_mutual: BoolArray) -> None:
    """Fill ``is_mutual`` (n_some, k): whether each neighbor of a row lists the row.

    ``neighbors`` (n_rows, k) holds the lists of all rows, -1 for no neighbor; the rows are
    ``first`` and those that follow.
    """
    n_some, k = is_mutual.shape
    for some in range(n_some):
        row = first + some
        for place in range(k):
            neighbor = neighbors[row, place]
            is_found = False
            if neighbor >= 0:
                for back in range(k):
                    if neighbors[neighbor, back] == row:
                        is_found = True
                        break
            is_mutual[some, place] = is_found
