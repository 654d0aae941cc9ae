"""Rows of a sparse matrix near some nodes, and the matrix between them."""

from typing import Any

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def near_rows(indptr: Any, indices: Any, place: Any, found: Any, n_found: Any, most: Any) -> Any:
    """Number of rows nearest to the first ``n_found`` of ``found``, by breadth-first search.

    They are appended to ``found``, (n_rows,) of any values, while they hold at most ``most``
    entries; ``place`` (n_rows,) int32 becomes the place of each row there, -1 for the others.
    """
    place[:] = -1
    n_entries = 0
    for at in range(n_found):
        place[found[at]] = at
        n_entries += indptr[found[at] + 1] - indptr[found[at]]
    at = 0
    while at < n_found:
        row = found[at]
        for entry in range(indptr[row], indptr[row + 1]):
            other = indices[entry]
            if place[other] < 0:
                n_entries += indptr[other + 1] - indptr[other]
                if n_entries > most:
                    return n_found
                place[other] = n_found
                found[n_found] = other
                n_found += 1
        at += 1
    return n_found


@njit(cache=True, nogil=True)
def local_matrix(
    indptr: Any,
    indices: Any,
    weight: Any,
    diagonal: Any,
    vector: Any,
    rows: Any,
    place: Any,
    local_indptr: Any,
    local_indices: Any,
    local_weight: Any,
    product: Any,
) -> None:
    """Fill the CSR arrays of W between ``rows``, and (diagonal - W) @ vector there."""
    n_entries = 0
    local_indptr[0] = 0
    for at in range(rows.size):
        row = rows[at]
        total = diagonal[row] * vector[row]
        for entry in range(indptr[row], indptr[row + 1]):
            other = indices[entry]
            total -= weight[entry] * vector[other]
            if place[other] >= 0:
                local_indices[n_entries] = place[other]
                local_weight[n_entries] = weight[entry]
                n_entries += 1
        product[at] = total
        local_indptr[at + 1] = n_entries
