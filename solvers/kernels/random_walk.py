"""Passes over the normalized adjacency matrix of a graph, N = D^-1/2 W D^-1/2.

Two are a step of Lanczos for the spectrum of 1 - N. The last is a step of the random walk from many
random vectors z at once: the mean over random signs of ``(N^k z)_u (N^(j - k) z)_u`` is the
probability that j steps return to u. A block N^k z stores a number in one byte, in units of 1 / 32:
their root mean square is at most 1, so hardly one is cut. Rounding is up or down at random, without
bias, so that sums over many neighbors lose nothing: to the nearest, ten thousand leaves of a hub
would all hold zeros. Such products wait for memory, and bytes halve their time.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit

UNIT = np.float32(32.0)
"""The number 1 in a block of bytes."""

_LARGEST = np.float32(127.0)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SILVER = np.uint64(0xD1B54A32D192ED03)
_SHIFT = np.uint64(40)
_FRACTION = np.float32(1.0 / (1 << 24))


@njit(cache=True, nogil=True)
def normalize_rows(
    indptr: Any, indices: Any, weight: Any, inverse_root: Any, out: Any, start: int, stop: int
) -> None:
    """Fill the entries of the rows ``start .. stop - 1`` of N; ``inverse_root`` is diag(D^-1/2)."""
    for row in range(start, stop):
        own = inverse_root[row]
        for entry in range(indptr[row], indptr[row + 1]):
            # in this order nothing overflows, however small the weight
            out[entry] = (weight[entry] * own) * inverse_root[np.uintp(indices[entry])]


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def walk_rows(
    indptr: Any,
    indices: Any,
    normalized: Any,
    before: Any,
    after: Any,
    odd_factor: float,
    even_factor: float,
    returns: Any,
    salt: Any,
    start: int,
    stop: int,
) -> None:
    """One step on the rows ``start .. stop - 1``: after = N before; counts the returns.

    Parameters
    ----------
    indptr, indices, normalized : CSR arrays
        N, float32.
    before, after : (n_nodes, k) int8
        Blocks in units of 1 / 32; rows of ``after`` are filled.
    odd_factor, even_factor : float
        Weights in ``returns`` of the means over columns of after * before and of after^2, both
        return probabilities; a mean that noise makes negative counts as zero.
    returns : (n_nodes,) float64
        Is added to.
    salt : uint64
        Of the rounding; different in each step.
    """
    n_columns = before.shape[1]
    total = np.empty(n_columns, np.float32)
    scale = 1.0 / (np.float64(UNIT) * np.float64(UNIT) * n_columns)
    for row in range(start, stop):
        total[:] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            value = normalized[entry]
            for column in range(n_columns):
                total[column] += value * np.float32(before[other, column])
        odd = even = np.float32(0.0)
        # multiples of an irrational number are spread evenly, which suffices for rounding
        place = (np.uint64(row) ^ salt) * _GOLDEN
        for column in range(n_columns):
            # (B17): N^t z with N^(t-1) z returns in 2 t - 1 steps, with itself in 2 t
            odd += total[column] * np.float32(before[row, column])
            even += total[column] * total[column]
            place += _SILVER
            fraction = np.float32(np.int32(place >> _SHIFT)) * _FRACTION
            rounded = np.floor(total[column] + fraction)
            after[row, column] = np.int8(max(min(rounded, _LARGEST), -_LARGEST))
        returns[row] += scale * odd_factor * max(np.float64(odd), 0.0)
        returns[row] += scale * even_factor * np.float64(even)


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def lanczos_rows(
    indptr: Any,
    indices: Any,
    normalized: Any,
    current: Any,
    previous: Any,
    scale: Any,
    coupling: Any,
    start: int,
    stop: int,
) -> Any:
    """First half of a step of two Lanczos processes on the rows ``start .. stop - 1``.

    previous = scale * (1 - N) current - coupling * previous, column by column, in place. Returns
    (2,) float64 sums over the rows of scale * current * previous, parts of the Rayleigh quotients.
    """
    first_sum = second_sum = 0.0
    first_scale, second_scale = scale[0], scale[1]
    first_coupling, second_coupling = coupling[0], coupling[1]
    for row in range(start, stop):
        first = current[row, 0]
        second = current[row, 1]
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            value = normalized[entry]
            first -= value * current[other, 0]
            second -= value * current[other, 1]
        # three terms: w = a (1 - N) q_j - b q_(j-1)
        first = first_scale * first - first_coupling * previous[row, 0]
        second = second_scale * second - second_coupling * previous[row, 1]
        previous[row, 0] = first
        previous[row, 1] = second
        first_sum += np.float64(first_scale * current[row, 0]) * np.float64(first)
        second_sum += np.float64(second_scale * current[row, 1]) * np.float64(second)
    return np.array([first_sum, second_sum])


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz", "contract"})
def orthogonalize_rows(block: Any, current: Any, factor: Any, start: int, stop: int) -> Any:
    """Second half: block -= factor * current, (n_nodes, 2) both, in place.

    Returns (2,) float64 sums over the rows of block^2.
    """
    first_sum = second_sum = 0.0
    first_factor, second_factor = factor[0], factor[1]
    for row in range(start, stop):
        first = block[row, 0] - first_factor * current[row, 0]
        second = block[row, 1] - second_factor * current[row, 1]
        block[row, 0] = first
        block[row, 1] = second
        first_sum += np.float64(first) * np.float64(first)
        second_sum += np.float64(second) * np.float64(second)
    return np.array([first_sum, second_sum])


@njit(cache=True, nogil=True)
def project_roots(block: Any, root: Any, component: Any, total: Any, sums: Any) -> None:
    """Make (n_nodes, 2) columns orthogonal to D^1/2 on every component, in place.

    ``root`` is diag(D^1/2), ``total`` (n_components,) the sums of D, infinite to leave a component
    unchanged; ``sums`` (n_components, 2) float64 is scratch.
    """
    sums[:] = 0.0
    for row in range(root.size):
        for column in range(2):
            sums[component[row], column] += np.float64(root[row]) * np.float64(block[row, column])
    for row in range(root.size):
        own = component[row]
        for column in range(2):
            # D^1/2 1 is the null vector of the normalized Laplacian (A2)
            block[row, column] -= root[row] * np.float32(sums[own, column] / total[own])
