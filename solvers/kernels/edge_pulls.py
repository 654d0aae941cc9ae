"""Products with a Laplacian of weights that may be negative, summed edge by edge."""

from typing import Any

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def add_pulls(u: Any, v: Any, weight: Any, values: Any, out: Any) -> None:
    """Add to ``out`` the Laplacian of some edges times ``values``, both (n_nodes, n_columns).

    ``u`` and ``v`` are int32, all else float64; weights may be negative.
    """
    for edge in range(u.size):
        first, second, factor = u[edge], v[edge], weight[edge]
        if factor == 0.0:
            continue
        for column in range(values.shape[1]):
            pull = factor * (values[first, column] - values[second, column])
            out[first, column] += pull
            out[second, column] -= pull
