"""Products with CSR rows, scaled and with a constant feature, without a copy of the matrix.

Row i stands for (scale_i x_i, bias): weights have one entry more than the matrix has columns. Rows
that are not needed are not read.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit

_ONE, _TWO, _THREE, _FOUR = np.uintp(1), np.uintp(2), np.uintp(3), np.uintp(4)


@njit(cache=True, nogil=True)
def output_rows(
    indptr: Any,
    indices: Any,
    data: Any,
    scale: Any,
    bias: float,
    cost: Any,
    weights: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill ``out[start:stop]`` with the products of the rows without cost; others stay."""
    constant = bias * weights[-1]
    for row in range(start, stop):
        if cost[row] == 0.0:
            product = _product(indptr, indices, data, row, weights)
            out[row] = scale[row] * product + constant


@njit(cache=True, nogil=True)
def adjoint_rows(
    indptr: Any,
    indices: Any,
    data: Any,
    scale: Any,
    bias: float,
    residual: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Add to ``out`` the rows ``start .. stop - 1``, each times its residual."""
    moved = 0.0
    for row in range(start, stop):
        if residual[row] != 0.0:
            _add(indptr, indices, data, row, scale[row] * residual[row], out)
            moved += residual[row]
    out[-1] += bias * moved


@njit(cache=True, nogil=True)
def normal_rows(
    indptr: Any,
    indices: Any,
    data: Any,
    scale: Any,
    bias: float,
    cost: Any,
    direction: Any,
    products: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill ``products`` of the rows with a cost, and add X' cost X direction to ``out``.

    The second product with a row follows the first while the row is in the cache.
    """
    constant = bias * direction[-1]
    moved = 0.0
    for row in range(start, stop):
        if cost[row] == 0.0:
            products[row] = 0.0
            continue
        product = scale[row] * _product(indptr, indices, data, row, direction) + constant
        products[row] = product  # (F8): q = X p
        # (F8): X' C q
        _add(indptr, indices, data, row, scale[row] * cost[row] * product, out)
        moved += cost[row] * product
    out[-1] += bias * moved


@njit(cache=True, nogil=True, inline="always")
def _product(indptr: Any, indices: Any, data: Any, row: int, weights: Any) -> float:
    """One row times the weights, by four independent sums."""
    entry, stop = np.uintp(indptr[row]), np.uintp(indptr[row + 1])
    t0 = t1 = t2 = t3 = 0.0
    while entry + _THREE < stop:
        t0 += data[entry] * weights[np.uintp(indices[entry])]
        t1 += data[entry + _ONE] * weights[np.uintp(indices[entry + _ONE])]
        t2 += data[entry + _TWO] * weights[np.uintp(indices[entry + _TWO])]
        t3 += data[entry + _THREE] * weights[np.uintp(indices[entry + _THREE])]
        entry += _FOUR
    while entry < stop:
        t0 += data[entry] * weights[np.uintp(indices[entry])]
        entry += _ONE
    return (t0 + t1) + (t2 + t3)


@njit(cache=True, nogil=True, inline="always")
def _add(indptr: Any, indices: Any, data: Any, row: int, factor: float, out: Any) -> None:
    """Add one row times the factor to ``out``."""
    entry, stop = np.uintp(indptr[row]), np.uintp(indptr[row + 1])
    while entry < stop:
        out[np.uintp(indices[entry])] += factor * data[entry]
        entry += _ONE
