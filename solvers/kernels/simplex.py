"""Projections on the probability simplex, row by row."""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def project_row(row: Any, sorted_row: Any) -> None:
    """Replace ``row`` by the nearest point with entries >= 0 and sum 1; the second is scratch.

    It sorts by insertion, as rows are only as long as the number of classes.
    """
    n_columns = row.size
    for column in range(n_columns):
        value = row[column]
        place = column
        while place > 0 and sorted_row[place - 1] < value:
            sorted_row[place] = sorted_row[place - 1]
            place -= 1
        sorted_row[place] = value
    total = 0.0
    excess = 0.0
    for column in range(n_columns):
        total += sorted_row[column]
        shift = (total - 1.0) / (column + 1)
        if sorted_row[column] > shift:  # (G13): theta of the last such place counts
            excess = shift
    for column in range(n_columns):
        row[column] = max(row[column] - excess, 0.0)


@njit(cache=True, nogil=True)
def project_rows(block: Any, start: int, stop: int) -> None:
    """`project_row` for the rows ``start .. stop - 1``, in place."""
    sorted_row = np.empty(block.shape[1], block.dtype)
    for row in range(start, stop):
        project_row(block[row], sorted_row)
